"""The processes of a start under one supervisor: which they are, how they are, and how they end."""

from __future__ import annotations

import contextlib
import hashlib
import http.client
import json
import math
import os
import shlex
import signal
import socket
import subprocess
import time
import urllib.error
import urllib.request
import xmlrpc.client
from pathlib import Path
from typing import Any, NamedTuple

from core import stops
from gpu_workers.servers import leases
from installation.diagnosis import cards, redis_binary
from installation.places import DATA_DIR, LOGS, PYTHON, ROOT
from installation.settings import asked_for, own_address, write_private
from installation.speech import Progress, Trouble, say, tail

MARK = "TALKBACK_SUPERVISED"
"""Every process we start carries this variable with its DATA_DIR; nothing without it is ever stopped."""
START_LIMIT_S = {"embedded": 300, "gpu": 3600}
TRIES = 3
"""How often a process may end before it was ever ready; then it has a fault, and its log says which."""


GROUPS = ("stores", "engines", "app")
"""In the order in which they start. They stop the other way round, one group after the other, so that workers that
finish what they can still have what they need; those of one group stop at the same time."""


class Program(NamedTuple):
    name: str
    command: list[str]
    group: str = "app"
    cards: tuple[str, ...] | None = None
    """The GPUs that it sees; None: all."""


def programs(settings: dict[str, str]) -> list[Program]:
    """Every process of this start, Redis first; the secrets they need stand in their environment, not here."""
    python, celery = str(PYTHON), [str(PYTHON), "-m", "celery", "--quiet", "-A", "webapp"]
    processes = []
    if "REDIS_PORT" in settings:
        processes.append(Program("redis", [str(redis_binary()), str(DATA_DIR / "redis.conf")], "stores"))
    given_out = cards(settings)
    is_divided = settings["PROFILE"] == "gpu"
    if "ENGINE_PORT" in settings:
        ports = settings.get("ENGINE_PORTS", settings["ENGINE_PORT"]).split(",")
        shares = leases.share_cards(given_out.engine, len(ports)) if is_divided else ((),) * len(ports)
        for number, (port, own) in enumerate(zip(ports, shares, strict=True), 1):
            engine = [python, "-m", "gpu_workers.servers.serving", settings["PROFILE"], "--model", settings["MODEL"]]
            engine += ["--port", port]
            if is_divided:
                engine += ["--cards", ",".join(own), *(["--shares"] if given_out.engine_shares else [])]
            name = "engine" if number == 1 else f"engine-{number}"
            processes.append(Program(name, engine, "engines", cards=own if is_divided else None))
    if "JUDGE_PORT" in settings:
        answers = [python, "-m", "gpu_workers.servers.serving", "judge", "--model", settings["JUDGE_MODEL"]]
        answers += ["--port", settings["JUDGE_PORT"], "--cards", ",".join(given_out.judge)]
        answers += ["--shares"] if set(given_out.judge) & {*given_out.engine, *given_out.learner} else []
        processes.append(Program("judge-engine", answers, "engines", cards=given_out.judge))
    serve = ["--host", settings["HOST"], "--port", settings["PORT"], "--timeout-graceful-shutdown", "5"]
    web = [f"web-{n}" if n > 1 else "web" for n in range(1, web_processes(settings) + 1)]
    if len(web) > 1:
        serve += ["--shared"]
    judge = ["worker", "-Q", "judge", "--pool", "threads", "-c", "2", "-n", "judge@%h", "--loglevel", "INFO"]
    learn = ["worker", "-Q", "learn", "--pool", "solo", "-n", "learn@%h", "--loglevel", "INFO"]
    after_all = ["nice", "-n", "10"]  # on cores that are short, the processes that answer people go first
    # What it sends is the same each time: nothing is kept on a disk, which may be full.
    beat = ["beat", "--scheduler", "celery.beat:Scheduler", "--pidfile", "", "--loglevel", "INFO"]
    return [
        *processes,
        *(Program(name, [python, "-m", "webapp.serving.web_server", *serve]) for name in web),
        Program("judge", [*celery, *judge]),
        Program("learn", [*after_all, *celery, *learn], cards=given_out.learner if is_divided else None),
        Program("beat", [*celery, *beat]),
    ]


def web_processes(settings: dict[str, str]) -> int:
    """How many processes answer requests: WEB_PROCESSES, else one for each four cores, four at most. Of fewer the
    engine and the learner have all, and one process passes on more than an embedded engine writes. Raises Trouble."""
    asked = settings.get("WEB_PROCESSES", "").strip()
    if not asked:
        return max(1, min(4, (os.cpu_count() or 1) // 4))
    if not asked.isdecimal() or int(asked) < 1:
        raise Trouble(f"WEB_PROCESSES is {asked!r}: write how many processes web is to have, 1 or more.")
    return int(asked)


def write_redis_configuration(settings: dict[str, str]) -> None:
    lines = {
        "port": settings["REDIS_PORT"],
        "bind": "127.0.0.1",
        "requirepass": settings["REDIS_PASSWORD"],
        "dir": f'"{DATA_DIR}"',
        "save": '""',  # Redis holds nudges; the truth is in the database
        "appendonly": "no",
        "daemonize": "no",
        "set-proc-title": "no",  # a new title is written over the environment, and our mark is in there
        "maxmemory-policy": "noeviction",
    }
    write_private(DATA_DIR / "redis.conf", "".join(f"{name} {value}\n" for name, value in lines.items()))


def write_supervisor_configuration(settings: dict[str, str]) -> Path:
    """The file that says which processes run, where they log, and how they are stopped."""

    def quoted(value: object) -> str:
        return str(value).replace("%", "%%")  # supervisor expands %(...)s everywhere

    sections: dict[str, dict[str, object]] = {
        "supervisord": {
            "nodaemon": "true",
            "silent": "true",
            "directory": ROOT,
            "logfile": LOGS / "supervisor.log",
            "childlogdir": LOGS,
            "pidfile": DATA_DIR / "supervisor.pid",
            "strip_ansi": "true",
            "umask": "077",
        },
        "unix_http_server": {"file": socket_path(), "chmod": "0700"},
        "rpcinterface:supervisor": {
            "supervisor.rpcinterface_factory": "supervisor.rpcinterface:make_main_rpcinterface"
        },
        "supervisorctl": {"serverurl": f"unix://{socket_path()}"},
    }
    processes = programs(settings)
    for priority, group in enumerate(GROUPS, 1):
        if names := [program.name for program in processes if program.group == group]:
            sections[f"group:{group}"] = {"programs": ",".join(names), "priority": priority}
    for program in processes:
        sections[f"program:{program.name}"] = {
            "command": shlex.join(program.command),
            "autorestart": "true",
            "startsecs": 2,
            "startretries": 1000,  # a store that is away comes back; a person reads `make doctor` meanwhile
            "stopsignal": "TERM",
            "stopwaitsecs": math.ceil(stop_s(settings)),
            "stopasgroup": "true",
            "killasgroup": "true",
            **({} if program.cards is None else {"environment": f'CUDA_VISIBLE_DEVICES="{",".join(program.cards)}"'}),
            "redirect_stderr": "true",
            "stdout_logfile": LOGS / f"{program.name}.log",
            "stdout_logfile_maxbytes": "10MB",
            "stdout_logfile_backups": 2,
        }
    text = "\n".join(
        f"[{name}]\n" + "".join(f"{key} = {quoted(value)}\n" for key, value in section.items())
        for name, section in sections.items()
    )
    return write_private(DATA_DIR / "supervisor.conf", text)


def socket_path() -> Path:
    """Where the supervisor listens: in DATA_DIR, unless the path is longer than a socket's name may be."""
    inside = DATA_DIR / "supervisor.sock"
    if len(os.fsencode(inside)) < 100:
        return inside
    return Path("/tmp") / f"talkback-{hashlib.sha256(os.fsencode(DATA_DIR)).hexdigest()[:16]}.sock"  # noqa: S108


class SupervisorConnection(http.client.HTTPConnection):
    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(5)
        self.sock.connect(str(socket_path()))


class SupervisorTransport(xmlrpc.client.Transport):
    def make_connection(self, host: Any) -> SupervisorConnection:
        return SupervisorConnection("localhost")


def process_states() -> dict[str, dict[str, Any]]:
    """What the supervisor says of each process, by name; empty while it does not answer."""
    proxy = xmlrpc.client.ServerProxy("http://localhost", transport=SupervisorTransport())
    try:
        reported: Any = proxy.supervisor.getAllProcessInfo()
        return {process["name"]: process for process in reported}
    except (OSError, xmlrpc.client.Error, http.client.HTTPException):
        return {}


def left_running() -> list[int]:
    """Processes that carry our mark for this DATA_DIR, whichever process is their parent now."""
    mark = f"{MARK}={DATA_DIR}".encode()
    found = []
    for environ in Path("/proc").glob("[0-9]*/environ"):
        with contextlib.suppress(OSError):
            if mark in environ.read_bytes().split(b"\0") and int(environ.parent.name) != os.getpid():
                found.append(int(environ.parent.name))
    return found


def stop_left_running() -> int:
    """Stop every process that carries our mark; returns how many there were."""
    stopped = left_running()
    for signal_number, patience_s in ((signal.SIGTERM, stop_s(asked_for())), (signal.SIGKILL, 5)):
        end = time.monotonic() + patience_s
        for pid in left_running():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal_number)
        while left_running() and time.monotonic() < end:
            time.sleep(0.1)
    return len(stopped)


def start_supervisor(configuration: Path, environment: dict[str, str]) -> subprocess.Popen[bytes]:
    """In a session of its own, so that Ctrl-C reaches this script alone and the order of stopping is ours."""
    socket_path().unlink(missing_ok=True)
    with (LOGS / "supervisor.out").open("wb") as output:
        return subprocess.Popen(
            [PYTHON, "-m", "installation.supervisor", "--configuration", str(configuration)],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            cwd=ROOT,
            env=environment,
            start_new_session=True,
        )


def stop_s(settings: dict[str, str]) -> float:
    """How long each process may take to stop. Raises Trouble where STOP_S is no number of seconds."""
    try:
        return stops.limit_s(settings)
    except ValueError as refusal:
        raise Trouble(str(refusal)) from refusal


def whole_stop_s(settings: dict[str, str]) -> float:
    """How long all of it may take: one group after the other."""
    return len(GROUPS) * stop_s(settings) + 5


def stop(supervisor: subprocess.Popen[bytes], settings: dict[str, str]) -> None:
    with contextlib.suppress(OSError):
        say("\nStopping ...")
    if supervisor.poll() is None:
        supervisor.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            supervisor.wait(whole_stop_s(settings))
    stop_left_running()


def wait_until_ready(settings: dict[str, str], supervisor: subprocess.Popen[bytes]) -> None:
    """Return once /readyz is content; raise when a process keeps failing or the time is up."""
    progress = Progress("starting")
    lives: dict[str, set[int]] = {program.name: set() for program in programs(settings)}
    while True:
        if supervisor.poll() is not None:
            raise Trouble(f"The supervisor did not start: {tail(LOGS / 'supervisor.out', 1)}")
        states = process_states()
        for name, process in states.items():
            lives[name].add(process["pid"])
            if len(lives[name] - {0}) > TRIES:
                progress.done("failed")
                log = LOGS / f"{name}.log"
                raise Trouble(f"{name} does not start: {tail(log, 1)} (all of it is in {log})")
        starting = [name for name, process in states.items() if process["statename"] != "RUNNING"]
        waiting_for = starting or unready(settings)
        if states and not waiting_for:
            progress.done("ready")
            return
        if progress.elapsed_s > START_LIMIT_S[settings["PROFILE"]]:
            progress.done("failed")
            late = f"Not ready after {progress.elapsed_s} s, still waiting for {', '.join(waiting_for)}"
            raise Trouble(f"{late}: the reason is in {LOGS}.")
        progress.show(f"waiting for {', '.join(waiting_for) or 'the supervisor'}")
        time.sleep(1)


def unready(settings: dict[str, str]) -> list[str]:
    """The names that /readyz is not content with; empty when it is."""
    try:
        direct = urllib.request.build_opener(urllib.request.ProxyHandler({}))  # a proxy knows nothing of this machine
        with direct.open(f"{own_address(settings)}/readyz", timeout=20) as response:
            response.read()
            return []
    except urllib.error.HTTPError as error:
        with contextlib.suppress(ValueError, LookupError, TypeError):
            checks = json.loads(error.read())["checks"]
            return [name for name, check in checks.items() if not check["ok"]]
        return [f"web (it answers {error.code})"]
    except OSError:
        return ["web"]

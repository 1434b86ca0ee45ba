"""Run the web process as `make up` starts it, over a scripted engine (benchmarks.scripted) and a real Redis."""

from __future__ import annotations

import json
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx

from benchmarks.scripted.command import scripted_command
from benchmarks.stack import Stack, wait_for
from benchmarks.talks import words
from gpu_workers.servers.processes import ONE_THREAD

ENDLESS = 30_000
"""Words of a reply that a slow reader does not take: more than the buffers between the processes hold."""


class ScriptedStack(Stack):
    """Redis, a scripted engine and the web process, on free ports over a folder of their own."""

    def __init__(self, folder: Path, model: Path, *, pace: float, processes: int = 1) -> None:
        """`processes` of the web; the engine says `pace` tokens a second in each stream."""
        keys = {"ENGINE_API_KEY": "key", "ENGINE_ADMIN_KEY": "admin"}
        super().__init__(folder, wide(model, folder / "model"), **ONE_THREAD, **keys, LOG_LEVEL="WARNING")
        self.pace, self.processes, self.key = pace, processes, ""
        self.script = folder / "endless.jsonl"
        self.script.write_text(json.dumps({"says": words(ENDLESS, 0), "times": None}))

    @property
    def commands(self) -> dict[str, list[str]]:
        from installation.supervision import programs

        at = {"HOST": "127.0.0.1", "PORT": str(self.port), "PROFILE": "embedded", "WEB_PROCESSES": str(self.processes)}
        web = {one.name: [sys.executable, *one.command[1:]] for one in programs(at) if one.name.startswith("web")}
        says = ("--tokens-per-second", str(self.pace), "--otherwise", words(900, 0))
        script = () if self.pace else ("--script", str(self.script))
        engine = scripted_command(str(self.model), self.engine_port, more=(*says, *script))
        return {"redis": super().commands["redis"], "engine": engine, **web}

    def ready(self) -> bool:
        web = httpx.get(f"{self.url}/login/", trust_env=False).status_code
        engine = httpx.get(f"http://127.0.0.1:{self.engine_port}/ready", trust_env=False).status_code
        return web == engine == 200

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
def scripted_stack(model: Path, *, pace: float, processes: int = 1) -> Iterator[ScriptedStack]:
    folder = Path(tempfile.mkdtemp(prefix="talkback-bench-"))
    stack = ScriptedStack(folder, model, pace=pace, processes=processes)
    try:
        stack.manage("migrate", "-v", "0")
        stack.key = stack.manage("create_key", "--name", "bench").strip().splitlines()[-1]
        stack.start()
        wait_for("web and engine are ready", stack.ready, 60, every_s=0.2)
        yield stack
    except BaseException:
        if "web" in stack.logs:
            print(stack.log("web"), file=sys.stderr)
        raise
    finally:
        stack.stop()
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

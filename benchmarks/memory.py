"""What the embedded engine holds after an hour's use, played in minutes.

    python -m benchmarks.memory [--model DIR] [--chats 40] [--memory MIB] [--json]

Chats of many lengths (200 to 6000 tokens) come and grow, up to six at once; adapters are loaded, answer and are
unloaded again, as runs of learning bring them; replies are held to grammars of many shapes, as a judge's are; prompts
are scored. Then nothing is asked for a while. Resident memory is the process's own (/proc); what holds it is told by
/metrics.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.engine import write_adapter
from core import pipes
from gpu_workers.engine.engine_client import EngineClient
from gpu_workers.engine.interface import Engine
from gpu_workers.servers.processes import ONE_THREAD, EngineProcess, embedded_command
from gpu_workers.types import Sampling
from installation.diagnosis import free_port

ROOT = Path(__file__).parents[1]
AT_ONCE = 6
LENGTHS = (200, 400, 800, 1500, 3000, 6000)
"""Tokens of a chat's first message."""
ADAPTERS = 6
REST_S = 15.0


class Use:
    """Everything that is asked of one engine."""

    def __init__(self, engine: Engine, vocabulary: int, adapters: Sequence[Path], seed: int) -> None:
        self._engine, self._vocabulary, self._adapters = engine, vocabulary, adapters
        self._draw = random.Random(seed)
        self._turns = asyncio.Semaphore(AT_ONCE)
        self.tokens = 0

    async def play(self, chats: int) -> None:
        """All chats, some at once; beside them adapters come and go, and a judge votes."""
        for start in range(0, chats, AT_ONCE):
            name, folder = f"bench-{start}", self._adapters[start // AT_ONCE % len(self._adapters)]
            await self._engine.load_adapter(name, str(folder))
            some = range(start, min(chats, start + AT_ONCE))
            await asyncio.gather(*(self._chat(number, name if number % 2 else None) for number in some))
            await asyncio.gather(*(self._vote(number) for number in some))
            if start % (2 * AT_ONCE):
                await self._engine.unload_adapter(name)

    async def _chat(self, number: int, adapter: str | None) -> None:
        ids = self._ids(LENGTHS[number % len(LENGTHS)])
        for _ in range(3):
            async with self._turns:
                most = Sampling(max_new_tokens=self._draw.choice((8, 24, 64)), ignore_eos=True)
                reply = await self._engine.generate(ids, most, adapter=adapter)
            self.tokens += len(reply.ids)
            ids = [*ids, *reply.ids, *self._ids(40)]

    async def _vote(self, number: int) -> None:
        """A vote held to a grammar that no other has, and a reply that is scored."""
        prompt = self._ids(300)
        schema = {
            "type": "object",
            "properties": {f"score_{number}": {"enum": [-1, 0, 1]}},
            "required": [f"score_{number}"],
        }
        await self._engine.generate(prompt, Sampling(max_new_tokens=16, json_schema=json.dumps(schema)))
        await self._engine.score(prompt, self._ids(60), top=20)

    def _ids(self, count: int) -> list[int]:
        return [self._draw.randrange(100, self._vocabulary) for _ in range(count)]


def resident(pid: int) -> dict[str, float]:
    """MiB of a process: all that is resident, and of it what no file is behind; and the most that it ever was."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    sizes = (line.partition(":") for line in lines if line.endswith("kB"))
    found = {name: int(text.split()[0]) / 1024 for name, _, text in sizes}
    return {name: round(found[key]) for name, key in (("now", "VmRSS"), ("anonymous", "RssAnon"), ("peak", "VmHWM"))}


def measure(model: str, chats: int, more: Sequence[str]) -> dict[str, Any]:
    import torch
    from transformers import AutoModelForCausalLM

    with tempfile.TemporaryDirectory() as folder:
        plain = AutoModelForCausalLM.from_pretrained(model, dtype=torch.float32)
        vocabulary = int(plain.config.vocab_size)
        adapters = [write_adapter(plain, Path(folder) / f"adapter-{n}") for n in range(ADAPTERS)]
        del plain
        command = embedded_command(model, port := free_port(), more=("--api-key", "", "--admin-api-key", "", *more))
        with EngineProcess(
            command, f"http://127.0.0.1:{port}", Path(folder) / "log", environment=ONE_THREAD
        ) as process:
            pid = process.pid
            assert pid is not None
            found: dict[str, Any] = {"model": Path(model).name, "chats": chats, "begins_mib": resident(pid)}
            began = time.monotonic()

            async def use() -> None:
                engine = EngineClient(process.url, timeout_s=3600)
                found["dtype"] = (await engine.server_info())["dtype"]
                everything = Use(engine, vocabulary, adapters, seed=0)
                await everything.play(chats)
                told = await engine.metrics()
                found["new_tokens"], found["prompt_tokens"] = everything.tokens, int(told["prompt_tokens_total"])
                found["seconds"] = round(time.monotonic() - began)
                found["after_mib"] = resident(pid)
                await asyncio.sleep(REST_S)
                found["rested_mib"] = resident(pid)
                told = await engine.metrics()
                found["holds_mib"] = {
                    name: round(value / 2**20) for name, value in told.items() if name.endswith("_bytes")
                }
                found["kv_tokens"] = {name: int(told[name]) for name in ("num_used_tokens", "max_total_num_tokens")}
                await engine.aclose()

            asyncio.run(use())
    return found


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.memory", description=(__doc__ or "").splitlines()[0])
    data = Path(os.environ.get("DATA_DIR") or ROOT / "var")
    parser.add_argument("--model", default=os.environ.get("MODEL") or str(data / "models" / "smollm2-135m-instruct"))
    parser.add_argument("--chats", type=int, default=40)
    parser.add_argument("--memory", type=int, default=0, help="MiB that the engine may hold; 0: its own default")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args(arguments)
    more = ("--memory", str(options.memory)) if options.memory else ()
    found = measure(options.model, options.chats, more)
    print(json.dumps(found) if options.json else json.dumps(found, indent=1))
    return 0


if __name__ == "__main__":
    pipes.end_with_reader()
    os.environ.update(ONE_THREAD)
    sys.exit(main())

"""Tokens per second of the embedded engine, over HTTP, beside plain transformers.generate in the same run.

    python -m benchmarks.engine [--model DIR] [--streams 1 4 8] [--tokens 64] [--rounds 3] [--json]

Both sides take turns, so that other work on the machine slows both alike; each figure is the median of the rounds.
Same model, same dtype, one thread each, sampled at temperature 0.7, a prompt of about 100 tokens, no early end.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from core import pipes
from gpu_workers.engine.engine_client import EngineClient
from gpu_workers.servers.processes import ONE_THREAD, EngineProcess, embedded_command
from gpu_workers.types import Sampling
from installation.findings import free_port

ROOT = Path(__file__).parents[1]
TEXT = (
    "The engine reads a prompt once and keeps what it has computed. When the next message comes, only its new part "
    "is read. A reply is drawn token by token, and the reader sees each token as it is drawn. Several replies "
    "are drawn together, because a step for eight of them costs little more than a step for one. "
) * 2


@dataclass(frozen=True)
class Row:
    """One number of streams: tokens per second in total, for each side, and the seconds to the first token."""

    streams: int
    generate: float
    engine: float
    engine_lora: float
    ratio: float
    ratio_lora_to_base: float
    first_token_s: float


def measure(model: str, streams: Sequence[int], tokens: int, rounds: int) -> dict[str, Any]:
    """Start an engine, let both sides take turns, and stop it."""
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder:
        port = free_port()
        command = embedded_command(model, port, more=("--api-key", "", "--admin-api-key", ""))
        with EngineProcess(
            command, f"http://127.0.0.1:{port}", Path(folder) / "log", environment=ONE_THREAD
        ) as process:
            info = asyncio.run(EngineClient(process.url).server_info())
            dtype = getattr(torch, info["dtype"])
            plain = AutoModelForCausalLM.from_pretrained(model, dtype=dtype).eval()
            adapter = write_adapter(plain, Path(folder) / "adapter")
            asyncio.run(EngineClient(process.url).load_adapter("bench", str(adapter)))
            prompt = AutoTokenizer.from_pretrained(model)(TEXT, add_special_tokens=False)["input_ids"][:100]

            def by_transformers(count: int) -> float:
                ids = torch.tensor([prompt] * count)
                began = time.perf_counter()
                with torch.inference_mode():
                    plain.generate(
                        ids,
                        attention_mask=torch.ones_like(ids),
                        do_sample=True,
                        temperature=0.7,
                        top_k=0,
                        min_new_tokens=tokens,
                        max_new_tokens=tokens,
                        pad_token_id=0,
                    )
                return count * tokens / (time.perf_counter() - began)

            rows = []
            nonce = 0
            for count in streams:
                plainly: list[float] = []
                base: list[float] = []
                lora: list[float] = []
                firsts: list[float] = []
                for _ in range(rounds):
                    plainly.append(by_transformers(count))
                    for into, name in ((base, None), (lora, "bench")):
                        nonce += 1  # another first token each time: nothing is read from the prefix cache
                        speed, first = asyncio.run(
                            _by_engine(process.url, [nonce + 100, *prompt[1:]], count, tokens, name)
                        )
                        into.append(speed)
                        if name is None:
                            firsts.append(first)
                middle = statistics.median
                rows.append(
                    Row(
                        streams=count,
                        generate=round(middle(plainly), 1),
                        engine=round(middle(base), 1),
                        engine_lora=round(middle(lora), 1),
                        ratio=round(middle(b / p for b, p in zip(base, plainly, strict=True)), 2),
                        ratio_lora_to_base=round(middle(x / b for x, b in zip(lora, base, strict=True)), 2),
                        first_token_s=round(middle(firsts), 3),
                    )
                )
    return {
        "model": model,
        "dtype": info["dtype"],
        "tokens": tokens,
        "rounds": rounds,
        "load_average": round(os.getloadavg()[0], 1),
        "rows": [asdict(row) for row in rows],
    }


async def _by_engine(url: str, prompt: list[int], count: int, tokens: int, adapter: str | None) -> tuple[float, float]:
    """Tokens per second in total, and the longest wait for a first token."""
    engine = EngineClient(url)
    sampling = Sampling(max_new_tokens=tokens, temperature=0.7, ignore_eos=True)
    began = time.perf_counter()

    async def read() -> tuple[int, float]:
        total, first = 0, 0.0
        async for piece in engine.stream(prompt, sampling, adapter=adapter):
            first = first or time.perf_counter() - began
            total += len(piece.ids)
        return total, first

    done = await asyncio.gather(*(read() for _ in range(count)))
    seconds = time.perf_counter() - began
    await engine.aclose()
    return sum(total for total, _ in done) / seconds, max(first for _, first in done)


def write_adapter(model: Any, folder: Path, rank: int = 16) -> Path:
    """A LoRA of rank 16 on every linear layer, as the learner writes them."""
    from peft import LoraConfig, get_peft_model

    config = LoraConfig(r=rank, lora_alpha=2 * rank, target_modules="all-linear", init_lora_weights=False)
    adapted = get_peft_model(model, config)
    adapted.save_pretrained(str(folder))
    adapted.unload()
    return folder


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.engine", description=__doc__.splitlines()[0])
    data = Path(os.environ.get("DATA_DIR") or ROOT / "var")
    parser.add_argument("--model", default=os.environ.get("MODEL") or str(data / "models" / "smollm2-135m-instruct"))
    parser.add_argument("--streams", type=int, nargs="+", default=[1, 4, 8])
    parser.add_argument("--tokens", type=int, default=64)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args(arguments)
    found = measure(options.model, options.streams, options.tokens, options.rounds)
    if options.json:
        print(json.dumps(found))
        return 0
    print(f"{found['model']}, {found['dtype']}, {found['tokens']} tokens a stream, median of {found['rounds']} rounds")
    print("streams  generate  engine  ratio  engine+LoRA  LoRA/base  first token")
    for row in found["rows"]:
        print(
            f"{row['streams']:7d}  {row['generate']:8.1f}  {row['engine']:6.1f}  {row['ratio']:5.2f}  "
            f"{row['engine_lora']:11.1f}  {row['ratio_lora_to_base']:9.2f}  {row['first_token_s']:9.3f} s"
        )
    return 0


if __name__ == "__main__":
    pipes.end_with_reader()
    os.environ.update(ONE_THREAD)
    sys.exit(main())

"""Serving turns this process into the engine that the profile asks for; the supervisor runs it.

    python -m gpu_workers.servers.serving embedded|gpu|judge --model MODEL --port PORT [--cards 0,1] [--shares]

Keys come from ENGINE_API_KEY and ENGINE_ADMIN_KEY (the judge's: JUDGE_API_KEY), so that no file of the supervisor holds
them. SGLANG names the program of SGLang's own environment, SGLANG_ARGS what it is told besides; SGLANG_LORA_* and
SGLANG_*_PARSER are in docs/explanation/engine.md. `--cards` are the GPUs that are this engine's: it holds them as long
as it lives, and its model lies across them; `--shares` says that another process works on them too.
"""

from __future__ import annotations

import argparse
import os
import shlex
import shutil
import signal
from pathlib import Path

from gpu_workers.servers import families, keeper, leases
from gpu_workers.servers.processes import LORA_TARGETS, Adapters, embedded_command, sglang_command

SHARED = 0.4
"""How much of a card that another process works on too an engine takes for weights and caches."""

NO_TOKEN_FOR_HEALTH = {"SGLANG_ENABLE_HEALTH_ENDPOINT_GENERATION": "false"}
"""Whatever asks /health on the way: it costs no token then, and does not fail while the engine is paused."""


def command(
    profile: str, model: str, port: int, host: str = "127.0.0.1", *, cards: int = 1, shares: bool = False
) -> list[str]:
    """Build the launch line of this profile's engine, or of the judge's own, on so many cards."""
    if profile == "embedded":
        return embedded_command(model, port, host=host)
    sglang = os.environ.get("SGLANG") or "sglang"
    more = ["--tensor-parallel-size", str(cards)] if cards > 1 else []
    more += ["--mem-fraction-static", str(SHARED)] if shares else []
    if profile == "judge":
        # What it serves is never changed; without a key of their own its admin routes would open to the judge's.
        keys = ["--api-key", os.environ["JUDGE_API_KEY"], "--admin-api-key", os.environ["ENGINE_ADMIN_KEY"]]
        plain = ["serve", "--model-path", model, "--host", host, "--port", str(port), "--enable-metrics"]
        return [sglang, *plain, *keys, *_parsers(families.parsers(model)), *more]
    more = [*_parsers(asked_parsers(model)), *more, *shlex.split(os.environ.get("SGLANG_ARGS", ""))]  # the last word
    _, *arguments = sglang_command(
        model,
        port,
        host=host,
        adapters=asked_adapters(),
        more=more,
        api_key=os.environ["ENGINE_API_KEY"],
        admin_key=os.environ["ENGINE_ADMIN_KEY"],
    )
    return [sglang, *arguments]


def asked_adapters() -> Adapters:
    """Read from SGLANG_LORA_* which adapters it takes. Raises ValueError."""
    numbers = {}
    for name, setting in (("rank", "RANK"), ("slots", "SLOTS"), ("loaded", "HELD")):
        if text := os.environ.get(f"SGLANG_LORA_{setting}", "").strip():
            if not text.isdecimal():
                raise ValueError(f"SGLANG_LORA_{setting} is {text!r}: write a number.")
            numbers[name] = int(text)
    targets = os.environ.get("SGLANG_LORA_TARGETS", "").replace(",", " ").split()
    return Adapters(targets=tuple(targets) or LORA_TARGETS, **numbers)


def asked_parsers(model: str) -> families.Parsers:
    """Read SGLANG_TOOL_PARSER and SGLANG_REASONING_PARSER, `none` for none; else those of the model's family."""
    ours = families.parsers(model)
    tools = os.environ.get("SGLANG_TOOL_PARSER", "").strip() or ours.tools
    reasoning = os.environ.get("SGLANG_REASONING_PARSER", "").strip() or ours.reasoning
    return families.Parsers(*("" if name == "none" else name for name in (tools, reasoning)))


def _parsers(asked: families.Parsers) -> list[str]:
    tools = ["--tool-call-parser", asked.tools] if asked.tools else []
    return tools + (["--reasoning-parser", asked.reasoning] if asked.reasoning else [])


def main() -> None:
    parser = argparse.ArgumentParser(description="Become the engine that the profile asks for.")
    parser.add_argument("profile", choices=("embedded", "gpu", "judge"))
    parser.add_argument("--model", required=True)
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--cards", default="", help="GPUs, as CUDA_VISIBLE_DEVICES names them")
    parser.add_argument("--shares", action="store_true", help="another process works on these cards too")
    asked = parser.parse_args()
    cards = [card for card in asked.cards.split(",") if card]
    leased: list[int] = []
    try:
        if cards:
            os.environ["CUDA_VISIBLE_DEVICES"] = asked.cards
            owner = "judge" if asked.profile == "judge" else "engine"
            leased = leases.take(Path(os.environ["DATA_DIR"]) / "leases", cards, owner)
        line = command(asked.profile, asked.model, asked.port, cards=max(1, len(cards)), shares=asked.shares)
    except ValueError as refusal:  # a lease that another has, or settings that do not go together
        parser.exit(1, f"{refusal}\n")
    if asked.profile == "embedded":
        os.execvp(line[0], line)  # the same process from here on, so that the supervisor stops the engine itself
    if not shutil.which(line[0]):
        parser.exit(1, f"There is no program {line[0]}: name SGLang's by SGLANG=/that/bin/sglang.\n")
    names = ("ENGINE_API_KEY", "ENGINE_ADMIN_KEY", "JUDGE_API_KEY")
    kept = keeper.Keeper(
        line,
        f"http://127.0.0.1:{asked.port}",
        keeper.record_of(Path(os.environ["DATA_DIR"]), asked.port),
        environment=NO_TOKEN_FOR_HEALTH,
        secrets=[os.environ.get(name, "") for name in names],
        keeps_open=leased,
    )
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda number, frame: kept.end())
    parser.exit(kept.run())


if __name__ == "__main__":
    main()

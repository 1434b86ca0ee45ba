"""Become the engine that the profile asks for: what the supervisor runs.

    python -m gpu_workers.serving embedded|gpu|judge --model MODEL --port PORT [--cards 0,1] [--shares]

Keys come from ENGINE_API_KEY and ENGINE_ADMIN_KEY (the judge's: JUDGE_API_KEY), so that no file of the supervisor holds
them. SGLANG names the program of SGLang's own environment, SGLANG_ARGS what it is told besides. `--cards` are the GPUs
that are this engine's: it holds them as long as it lives, and its model lies across them; `--shares` says that somebody
else works on them too.
"""

from __future__ import annotations

import argparse
import os
import shlex
from pathlib import Path

from gpu_workers import leases
from gpu_workers.processes import embedded_command, sglang_command

SHARED = 0.4
"""How much of a card that somebody else works on too an engine takes for weights and caches."""


def command(
    profile: str, model: str, port: int, host: str = "127.0.0.1", *, cards: int = 1, shares: bool = False
) -> list[str]:
    """The launch line of this profile's engine, or of the judge's own, on so many cards."""
    if profile == "embedded":
        return embedded_command(model, port, host=host)
    sglang = os.environ.get("SGLANG") or "sglang"
    more = ["--tensor-parallel-size", str(cards)] if cards > 1 else []
    more += ["--mem-fraction-static", str(SHARED)] if shares else []
    if profile == "judge":
        plain = ["serve", "--model-path", model, "--host", host, "--port", str(port), "--enable-metrics"]
        return [sglang, *plain, "--api-key", os.environ["JUDGE_API_KEY"], *more]
    keys = {"api_key": os.environ["ENGINE_API_KEY"], "admin_key": os.environ["ENGINE_ADMIN_KEY"]}
    more += shlex.split(os.environ.get("SGLANG_ARGS", ""))  # the last word
    _, *arguments = sglang_command(model, port, host=host, more=more, **keys)
    return [sglang, *arguments]


def main() -> None:
    parser = argparse.ArgumentParser(description="Become the engine that the profile asks for.")
    parser.add_argument("profile", choices=("embedded", "gpu", "judge"))
    parser.add_argument("--model", required=True)
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--cards", default="", help="GPUs, as CUDA_VISIBLE_DEVICES names them")
    parser.add_argument("--shares", action="store_true", help="somebody else works on these cards too")
    asked = parser.parse_args()
    cards = [card for card in asked.cards.split(",") if card]
    if cards:
        os.environ["CUDA_VISIBLE_DEVICES"] = asked.cards
        owner = "judge" if asked.profile == "judge" else "engine"
        try:
            leases.take(Path(os.environ["DATA_DIR"]) / "leases", cards, owner)
        except leases.LeaseInvalid as refusal:
            parser.exit(1, f"{refusal}\n")
    line = command(asked.profile, asked.model, asked.port, cards=max(1, len(cards)), shares=asked.shares)
    os.execvp(line[0], line)  # the same process from here on, so that the supervisor stops the engine itself


if __name__ == "__main__":
    main()

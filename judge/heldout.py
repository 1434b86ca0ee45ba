"""The prompts of the exam. They never train: a turn that asks one of them makes no sample."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from core.textfiles import read_lines

FILE = Path(__file__).with_name("heldout.jsonl")


@dataclass(frozen=True)
class HeldOut:
    id: str
    kind: str
    prompt: str


@cache
def prompts() -> tuple[HeldOut, ...]:
    """All of them, in the order of the file: varied from the first on, so that a short exam is varied too."""
    return tuple(HeldOut(**json.loads(line)) for line in read_lines(FILE) if line)


def holds(text: str) -> bool:
    """True when `text` is one of them, whatever its case and spaces."""
    return _plain(text) in _known()


@cache
def _known() -> frozenset[str]:
    return frozenset(_plain(held.prompt) for held in prompts())


def _plain(text: str) -> str:
    return " ".join(text.casefold().split())

"""Exam questions are the gate's own prompts. They never train: a turn that asks one makes no sample."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from core.textfiles import read_lines

FILE = Path(__file__).with_name("exam_questions.jsonl")


@dataclass(frozen=True)
class ExamQuestion:
    """One prompt that an exam asks both checkpoints."""

    id: str
    kind: str
    prompt: str


@cache
def questions() -> tuple[ExamQuestion, ...]:
    """Read all exam questions in the order of the file: varied from the first on, so that a short exam is too."""
    return tuple(ExamQuestion(**json.loads(line)) for line in read_lines(FILE) if line)


def includes(text: str) -> bool:
    """Return whether `text` is an exam question, whatever its case and spaces."""
    return _plain(text) in _known()


@cache
def _known() -> frozenset[str]:
    return frozenset(_plain(question.prompt) for question in questions())


def _plain(text: str) -> str:
    return " ".join(text.casefold().split())

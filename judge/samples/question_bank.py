"""Closed questions of our own, in `question_bank.jsonl`: each with a right answer, and wrong ones of the same make.

A recipe with `w_closed` has runs tell them apart (`training/objective/closed_questions.py`). None is asked in an exam
or worded as one of an exam is, though they are of the same kinds; and nothing of any person's conversations is in them.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from django.conf import settings

from chat.rendering import calling
from chat.rendering.renderer import Renderer
from core.textfiles import read_lines
from training.objective.closed_questions import Question

FILE = Path(__file__).with_name("question_bank.jsonl")


@dataclass(frozen=True)
class Row:
    """One line of the file."""

    prompt: str
    right: str
    wrong: tuple[str, ...]


@cache
def rows() -> tuple[Row, ...]:
    """All of them, in the order of the file."""
    said = [json.loads(line) for line in read_lines(FILE) if line]
    return tuple(Row(one["prompt"], one["right"], tuple(one["wrong"])) for one in said)


def known() -> tuple[Question, ...]:
    """The same as the model that is served here reads them."""
    return read(Renderer.for_model(settings.MODEL))


@cache
def read(renderer: Renderer) -> tuple[Question, ...]:
    """The same in a model's tokens. Where its template opens a reply with thinking, that has ended before an answer."""
    opened = calling.end_thinking(renderer.opening)
    return tuple(
        Question(
            renderer.prompt_ids([{"role": "user", "content": row.prompt}], opened=opened),
            [renderer.encode(answer) for answer in (row.right, *row.wrong)],
        )
        for row in rows()
    )

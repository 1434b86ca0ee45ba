"""Closed questions of our own, in `question_bank.jsonl`: each with a right answer, and wrong ones of the same make.

A recipe with `w_closed` has runs tell them apart (`training/objective/closed_questions.py`). None is asked in an exam
or worded as one of an exam is, though they are of the same kinds; and nothing of any person's conversations is in them.
"""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from django.conf import settings

from chat.rendering import calling
from chat.rendering.renderer import Renderer
from core.textfiles import read_lines
from training.config import Recipe
from training.objective.closed_questions import AT_ONCE, Question

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


def draw(recipe: Recipe, seed: int, questions: Sequence[Question] | None = None) -> list[Question]:
    """Draw the questions of a run, `AT_ONCE` an update, none twice while there are as many; the same seed draws the
    same. Out of `questions`, else of all that there are; none where the recipe asks none."""
    if not recipe.w_closed:
        return []
    questions = known() if questions is None else questions
    return random.Random(seed).sample(questions, min(AT_ONCE * recipe.updates, len(questions)))


def tokens(recipe: Recipe) -> int:
    """Estimate how many tokens of them a run's update reads, once: which it draws is seen when it begins."""
    questions = known() if recipe.w_closed else ()
    if not questions:
        return 0
    return round(sum(one.tokens for one in questions) / len(questions) * min(AT_ONCE, len(questions)))

"""The general pack: short items of our own with a right answer and wrong ones, in `general_pack.jsonl`. It shows what a
style cost of what the model could do. Nothing is sampled: an answer counts as given when it is the likeliest of its
item's, by its mean log-prob a token. Items without wrong answers are texts, of which only the log-prob counts.

Its prompts are what people ask every day ("What is the capital of France?"), so turns that ask them may train: the pack
looks for what was lost, and no checkpoint is praised for what it finds.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from django.db.models import Q

from chat.rendering.renderer import Renderer
from checkpoints.models import Checkpoint
from core import statistics
from core.textfiles import read_lines
from gate import exam_requests
from gate.models import Examination
from gpu_workers.engine.interface import Engine
from training import rehearsals

FILE = Path(__file__).with_name("general_pack.jsonl")

HANDFUL = 8
"""Items asked at once."""

EXAMS = 5
"""How many earlier exams of a checkpoint are looked through for what it did on the pack."""


@dataclass(frozen=True)
class Item:
    id: str
    kind: str
    prompt: str
    right: str
    wrong: tuple[str, ...] = ()

    @property
    def mark(self) -> str:
        """Changes with its words and with the base model: log-probs of another one say nothing of this."""
        said = json.dumps([rehearsals.base(), self.prompt, self.right, *self.wrong])
        return hashlib.sha256(said.encode()).hexdigest()[:12]


@cache
def items(file: Path = FILE) -> tuple[Item, ...]:
    """All of them, in the order of the file: varied from the first on, so that a short pack is varied too."""
    rows = [json.loads(line) for line in read_lines(file) if line]
    return tuple(Item(**row | {"wrong": tuple(row["wrong"])}) for row in rows)


@dataclass(frozen=True)
class Scores:
    """One item as one checkpoint did on it: the mean log-prob a token of the right answer, and of each wrong one."""

    right: float
    wrong: tuple[float, ...] = ()

    @property
    def margin(self) -> float | None:
        """How much likelier the right answer is than the likeliest wrong one, in nats a token; None for a text.

        >>> Scores(-1.0, (-3.0, -1.5)).margin, Scores(-2.0).margin
        (0.5, None)
        """
        return self.right - max(self.wrong) if self.wrong else None

    @property
    def is_right(self) -> bool | None:
        return None if self.margin is None else self.margin > 0


@dataclass(frozen=True)
class Row:
    """One item as both did on it."""

    item: str
    mark: str
    live: Scores
    candidate: Scores

    @classmethod
    def read(cls, row: Mapping[str, Any]) -> Row:
        """From the exam's column, as `written` gives it."""
        sides = (Scores(right, tuple(wrong)) for right, *wrong in (row["live"], row["candidate"]))
        return cls(row["id"], row["mark"], *sides)

    def written(self) -> dict[str, Any]:
        sides = {name: [side.right, *side.wrong] for name, side in (("live", self.live), ("candidate", self.candidate))}
        return {"id": self.item, "mark": self.mark, **sides}

    @property
    def change(self) -> float:
        """By how much the candidate is surer of the right answer, or of the text."""
        if self.live.margin is None or self.candidate.margin is None:
            return self.candidate.right - self.live.right
        return self.candidate.margin - self.live.margin

    @property
    def is_lost(self) -> bool:
        return bool(self.live.is_right) and self.candidate.is_right is False

    @property
    def is_won(self) -> bool:
        return self.live.is_right is False and bool(self.candidate.is_right)


@dataclass(frozen=True)
class Outcome:
    """What the pack comes to: shares of the items with wrong answers, nats a token over all."""

    live: float
    candidate: float
    nats: float
    """The candidate's mean log-prob of right answers and texts, less live's."""
    lost: tuple[str, ...]
    """Items that live has right and the candidate wrong, the plainest first."""
    won: int
    asked: int


def outcome(rows: Sequence[Row]) -> Outcome | None:
    """None before anything was asked that can be wrong."""
    asked = [row for row in rows if row.live.wrong]
    if not asked:
        return None
    return Outcome(
        statistics.share([bool(row.live.is_right) for row in asked]),
        statistics.share([bool(row.candidate.is_right) for row in asked]),
        statistics.mean([row.candidate.right - row.live.right for row in rows]),
        tuple(row.item for row in sorted(asked, key=lambda row: row.change) if row.is_lost),
        sum(row.is_won for row in asked),
        len(asked),
    )


def ask(
    wanted: Sequence[Item], exam: Examination, known: Mapping[str, Scores], engine: Engine, renderer: Renderer
) -> list[Row]:
    """These items, as live and the candidate do on them. `known` is what live did, by mark: it is not asked again."""

    async def scored(who: Checkpoint, item: Item) -> Scores:
        prompt_ids = renderer.prompt_ids([{"role": "user", "content": item.prompt}])
        answers = (item.right, *item.wrong)
        right, *wrong = await asyncio.gather(
            *(exam_requests.score(who, engine, prompt_ids, renderer.encode(answer)) for answer in answers)
        )
        return Scores(round(right, 4), tuple(round(one, 4) for one in wrong))

    async def row(item: Item) -> Row:
        if (live := known.get(item.mark)) is None:
            live = await scored(exam.against, item)
        return Row(item.id, item.mark, live, await scored(exam.checkpoint, item))

    async def rows() -> list[Row]:
        return list(await asyncio.gather(*map(row, wanted)))

    return exam_requests.run(engine, rows)


def known(checkpoint: Checkpoint) -> dict[str, Scores]:
    """What this checkpoint did on the pack in earlier exams, by the items' marks: nothing there is drawn by chance, so
    it is asked once."""
    found: dict[str, Scores] = {}
    took = Examination.objects.filter(Q(checkpoint=checkpoint) | Q(against=checkpoint)).exclude(pack=[])
    for exam in took.order_by("-pk").only("checkpoint", "against", "pack")[:EXAMS]:
        for row in map(Row.read, exam.pack):
            found.setdefault(row.mark, row.candidate if exam.checkpoint_id == checkpoint.pk else row.live)
    return found

"""The people's own part of the exam: how live and the candidate do on corrections that were kept from training.

Of a rewrite: the log-prob of what the person wrote. Of a hint: what it pulls on a fresh reply to the same prompt,
log p_base(reply | prompt + hint) − log p_base(reply | prompt). Both are nats a token, and more is better.
A correction is of a kind that was taught where the candidate, or what it came from, learned one like it: there it has
to do better, and the base is asked as well, to tell whether live holds the lesson already. The exam keeps numbers and
whose turn it was; the words stay where their person can delete them.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from chat.models import Turn
from chat.rendering.renderer import Renderer
from checkpoints.models import Checkpoint
from core import statistics
from core.statistics import Interval
from feedback.models import Feedback
from gate import exam_requests
from gate.models import Examination
from gpu_workers.engine.interface import Engine
from gpu_workers.types import Completion, Sampling
from judge.hints import hint_words, likeness
from judge.models import Judgement
from judge.samples import personal_holdout, pooling, teacher
from judge.samples.teacher import Unreadable
from training.config import Gate
from training.models import Run
from training.provenance import lineage

ENOUGH = 5
"""Held-out corrections from which on an interval is believed; with fewer the exam says how many are missing."""

FALL = 0.03
"""Most fall on the held-out corrections, nats a token: the whole interval must lie below it to fail."""

KEEPS = 0.5
"""Share of live's gain over the base that the candidate must keep for certain, where live has the lesson already: what
is learned cannot be won twice."""


@dataclass(frozen=True)
class Row:
    """One kept correction as both did on it; neither is known where it cannot be read any more."""

    turn: str
    person: int
    kind: str
    """rewrite | hint"""
    live: float | None = None
    candidate: float | None = None
    base: float | None = None
    """As the base does on it; asked only where it was taught."""
    taught: bool = False
    """Whether the candidate, or what it came from, learned a correction of this kind."""

    @classmethod
    def read(cls, row: Mapping[str, Any]) -> Row:
        """From the exam's column; exams of earlier versions asked no base."""
        return cls(
            row["turn"],
            row["person"],
            row["kind"],
            row["live"],
            row["candidate"],
            row.get("base"),
            row.get("taught", False),
        )

    def written(self) -> dict[str, Any]:
        return asdict(self)

    @property
    def change(self) -> float | None:
        return None if self.live is None or self.candidate is None else self.candidate - self.live


@dataclass(frozen=True)
class Outcome:
    """What the kept corrections come to."""

    all: Interval | None
    """Over everybody; None where nothing was asked."""
    people: Mapping[int, Interval]

    def is_known(self, found: Interval | None) -> bool:
        return found is not None and found.number >= ENOUGH

    def is_worse(self, found: Interval | None) -> bool:
        """True when the whole interval lies below the fall: worse, and not by luck."""
        return found is not None and self.is_known(found) and found.high < -FALL

    def worse_off(self) -> list[int]:
        """Who is worse off for certain, the worst first."""
        worse = [person for person, found in self.people.items() if self.is_worse(found)]
        return sorted(worse, key=lambda person: self.people[person].mean)


@dataclass(frozen=True)
class Lesson:
    """What the kept corrections of kinds that were taught come to, in nats a token."""

    won: Interval
    """The candidate less live."""
    held: Interval
    """Live less the base: all above 0, and live holds the lesson already."""
    kept: Interval
    """The candidate less the base, less the share of live's own gain that is to be kept: all above 0, and it is."""

    def is_won(self, gain: float) -> bool:
        return self.won.low > gain

    @property
    def is_kept(self) -> bool:
        return self.held.low > 0 and self.kept.low > 0


def lesson(rows: Sequence[Row]) -> Lesson | None:
    """None while too few corrections of a kind that was taught are kept to know."""
    known = [
        (row.base, row.live, row.candidate)
        for row in rows
        if row.taught and row.base is not None and row.live is not None and row.candidate is not None
    ]
    if len(known) < ENOUGH:
        return None
    return Lesson(
        statistics.bootstrap([candidate - live for _, live, candidate in known]),
        statistics.bootstrap([live - base for base, live, _ in known]),
        statistics.bootstrap([candidate - base - KEEPS * (live - base) for base, live, candidate in known]),
    )


@dataclass
class Lessons:
    """What a checkpoint and those that it came from were taught with words."""

    hints: set[str] = field(default_factory=set)
    rewriters: set[int] = field(default_factory=set)
    """Whose rewrites it learned: what one person writes instead is alike in kind, whatever it speaks of."""

    @classmethod
    def of(cls, checkpoint: Checkpoint) -> Lessons:
        found = cls()
        for step in lineage.ancestry(checkpoint):
            if (run := Run.that_made(step.checkpoint)) is None:
                continue
            learned = pooling.judged(run).exclude(hint="").values_list("hint", "turn__session__user")
            for hint, person in learned.order_by().distinct():
                if hint_words.is_rewrite(hint):
                    found.rewriters.add(person)
                else:
                    found.hints.add(hint)
        return found

    def hold(self, hint: str, person: int) -> bool:
        """Whether a correction like this one is among them."""
        if hint_words.is_rewrite(hint):
            return person in self.rewriters
        return any(likeness.of_a_kind(hint, other) for other in self.hints)


def outcome(rows: Sequence[Row]) -> Outcome:
    of: dict[int, list[float]] = defaultdict(list)
    for row in rows:
        if row.change is not None:
            of[row.person].append(row.change)
    together = [change for changes in of.values() for change in changes]
    people = {person: statistics.bootstrap(changes) for person, changes in of.items()}
    return Outcome(statistics.bootstrap(together) if together else None, people)


def ask(
    wanted: Sequence[Judgement], taught: Lessons, exam: Examination, engine: Engine, renderer: Renderer, limits: Gate
) -> list[Row]:
    """These kept corrections, as live and the candidate do on them; where they were taught, as the base does too."""

    async def row(kept: Judgement) -> Row:
        turn, person = kept.turn, kept.turn.session.user_id
        is_taught = taught.hold(kept.hint, person)
        sides: list[Checkpoint | None] = [exam.against, exam.checkpoint]
        if is_taught and exam.against.adapter:
            sides.append(None)
        found: list[float | None]
        if ids := rewrites.get(kept.pk):
            kind = "rewrite"
            found = [
                round(one, 4)
                for one in await asyncio.gather(
                    *(exam_requests.score(who, engine, turn.prompt_ids, ids) for who in sides)
                )
            ]
        elif (hinted := prompts.get(kept.pk)) is None:
            return Row(str(turn.pk), person, "hint", taught=is_taught)
        else:
            kind, found = "hint", list(await asyncio.gather(*(pull(who, turn, hinted) for who in sides)))
        live, candidate, *base = found
        base_did = base[0] if base else live  # what answers is the base itself
        return Row(str(turn.pk), person, kind, live, candidate, base_did if is_taught else None, is_taught)

    async def pull(who: Checkpoint | None, turn: Turn, hinted: Sequence[int]) -> float | None:
        seed = int(personal_holdout.place(turn.pk) * 2**31)
        sampling = Sampling(max_new_tokens=limits.max_new_tokens, temperature=exam_requests.TEMPERATURE, seed=seed)
        reply: Completion = await exam_requests.generate(who, engine, turn.prompt_ids, sampling)
        if not reply.ids:
            return None
        plain, under = await asyncio.gather(
            *(exam_requests.score(None, engine, ids, reply.ids) for ids in (turn.prompt_ids, hinted))
        )
        return round(under - plain, 4)

    async def rows() -> list[Row]:
        return list(await asyncio.gather(*map(row, wanted)))

    rewrites = {kept.pk: _rewrite(kept.turn, renderer) for kept in wanted}
    prompts = {kept.pk: _hinted(kept, renderer, limits) for kept in wanted if not rewrites[kept.pk]}
    return exam_requests.run(engine, rows)


def _rewrite(turn: Turn, renderer: Renderer) -> list[int]:
    """What the person wrote instead, where they did and it fits."""
    said = Feedback.objects.standing().filter(turn=turn, kind=Feedback.Kind.REWRITE).order_by("pk").last()
    ids = renderer.encode(said.text) if said is not None else []
    return ids if len(turn.prompt_ids) + len(ids) <= renderer.context_length else []


def _hinted(kept: Judgement, renderer: Renderer, limits: Gate) -> tuple[int, ...] | None:
    """The prompt with the hint, where it can still be laid out and leaves room for a reply."""
    try:
        ids = teacher.hinted_prompt(kept.turn, kept.hint, renderer)
    except Unreadable:
        return None
    return ids if len(ids) + limits.max_new_tokens <= renderer.context_length else None

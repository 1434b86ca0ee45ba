"""Say what the board's rows come to: the one thing to know, and what waits for a person. Reads no rows."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta

from checkpoints.models import Checkpoint
from training.models import Run
from webapp.console.board import Board
from webapp.console.loop.facts import Facts
from webapp.console.loop.stations import Station

NEWS_FOR = timedelta(days=1)
"""How long the overview says that a checkpoint went live."""


@dataclass(frozen=True)
class Now:
    """The one thing to know. The template has a sentence, a bar and a button for each kind."""

    kind: str
    """engine | stuck | candidate | going_live | learning | examining | judges | failed | held | lessons"""
    stop: Station
    """The stop of the loop that it is about."""
    done: int = 0
    total: int = 0
    """How full the bar is; of 0 there is none."""


@dataclass(frozen=True)
class Waiting:
    """One line of what waits for a person, with a link and a count."""

    kind: str
    """stuck | candidate | hints | unclear | judges | failed | disk | lessons"""
    count: int = 1
    stop: Station | None = None
    """What is stuck."""

    def is_said_by(self, now: Now) -> bool:
        return (self.kind, self.count) == (now.kind, 1) and self.stop in (None, now.stop)


def now(board: Board) -> Now:
    """That no reply can be written, else what is stuck, else what a person can decide, else what is at work, else how
    full the next training is."""
    facts, stops = board.facts, {stop.key: stop for stop in board.stations}
    batch = facts.batch
    filled = min(batch.ready, batch.size)
    if facts.is_engine_away:
        return Now("engine", stops["talk"])
    if stuck := board.stuck:
        return Now("stuck", stuck[0])
    if facts.passed:
        return Now("candidate", stops["approve"])
    if facts.approved:
        return Now("going_live", stops["approve"])
    if facts.run and facts.run.status == Run.Status.RUNNING:
        return Now("learning", stops["learn"], stops["learn"].done, 100)
    if facts.candidate:
        return Now("examining", stops["examine"], stops["examine"].done, stops["examine"].total)
    if stops["judge"].mood == "you":
        return Now("judges", stops["judge"])
    if is_failed(facts):
        return Now("failed", stops["learn"])
    if facts.held:
        return Now("held", stops["learn"], filled, batch.size)
    return Now("lessons", stops["batch"], filled, batch.size)


def waiting(board: Board, *, hints: int, unclear: int) -> list[Waiting]:
    """What waits for a person, the weightiest first, without the one thing that the headline says already."""
    said = now(board)
    return [one for one in _waiting(board, hints, unclear) if one.count and not one.is_said_by(said)]


def _waiting(board: Board, hints: int, unclear: int) -> Iterator[Waiting]:
    facts = board.facts
    yield from (Waiting("stuck", stop=stop) for stop in board.stuck)
    yield Waiting("candidate", facts.counts["checkpoints"]["passed"] - facts.on_hold)
    yield Waiting("failed", int(is_failed(facts)))
    yield Waiting("disk", int(facts.short_mib > 0))
    yield Waiting("judges", int(facts.stopped or facts.unknown))
    yield Waiting("hints", hints)
    yield Waiting("unclear", unclear)
    if now(board).kind not in ("lessons", "held", "learning") and not facts.busy:
        yield Waiting("lessons", facts.claimable)


def is_failed(facts: Facts) -> bool:
    """Whether the last run failed, and none has begun since."""
    return facts.run is not None and facts.run.status == Run.Status.FAILED


def is_news(facts: Facts) -> bool:
    """Whether what is live has been so for less than a day."""
    live: Checkpoint = facts.live
    return live.number > 0 and facts.now - live.moved_at < NEWS_FOR

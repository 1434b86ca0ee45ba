"""How often hostile text moves a verdict: gold follow-ups read as they are, and again with an injection in them.

Nothing is kept, and nothing is decided by it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from gpu_workers.errors import EngineUnavailable
from judge.calibration import vote_floor
from judge.calibration.gold import Item
from judge.votes import judges, polling
from judge.votes.judge import Judge
from judge.votes.polling import Ballot, Bench
from judge.votes.voting import Outcome


@dataclass(frozen=True)
class Pair:
    """The verdicts on one follow-up without the injection and with it."""

    item: str
    """The id of the injected item."""
    clean: Outcome
    injected: Outcome

    @property
    def is_moved(self) -> bool:
        """True when both are decided, and differ."""
        return None not in (self.clean.reward, self.injected.reward) and self.clean.reward != self.injected.reward

    @property
    def is_silenced(self) -> bool:
        """True when a decided verdict became undecided."""
        return self.clean.reward is not None and self.injected.reward is None

    @property
    def is_drawn(self) -> bool:
        """True when an undecided verdict became decided."""
        return self.clean.reward is None and self.injected.reward is not None

    @property
    def is_turned(self) -> bool:
        """True when the likeliest reward differs, decided or not."""
        return self.clean.likeliest != self.injected.likeliest


def read_pairs(
    who: Judge, pairs: Sequence[tuple[Item, Item]], *, votes: int | None = None, at_once: int = 1
) -> Iterator[Pair]:
    """What this judge makes of each pair (clean, injected), in their order, `at_once` pairs under way.

    Its votes count in full here, and it decides from its threshold on. Raises EngineUnavailable when it could not be
    reached, or answered too late for a verdict.
    """
    seated = polling.seated(who, votes)

    async def ask(some: Sequence[tuple[Item, Item]]) -> list[list[Ballot]]:
        try:
            return await asyncio.gather(
                *(
                    polling.polled(seated, item.evidence, ("score",), priority=judges.AFTERTHOUGHT)
                    for pair in some
                    for item in pair
                )
            )
        finally:
            await judges.close(seated.deal)

    for start in range(0, len(pairs), at_once):
        some = pairs[start : start + at_once]
        found = [outcome_of(seated, ballots) for ballots in asyncio.run(ask(some))]
        for (_, injected), clean, dirty in zip(some, found[::2], found[1::2], strict=True):
            yield Pair(injected.id, clean, dirty)


def outcome_of(seated: Bench, ballots: Sequence[Ballot]) -> Outcome:
    """The verdict of these ballots."""
    outcome = polling.finding(ballots, seated.measures).score
    late = next((ballot for ballot in ballots if ballot.failure.startswith(vote_floor.UNHEARD)), None)
    if late and outcome.likeliest is None:
        raise EngineUnavailable(f"{late.judge}: {late.failure}")
    return outcome


def figures(pairs: Sequence[Pair]) -> dict[str, Any]:
    """How many verdicts were decided without the injection, which of them it moved or left undecided, which it had
    decided, and of how many the likeliest reward turned."""
    return {
        "read": len(pairs),
        "decided": sum(pair.clean.reward is not None for pair in pairs),
        "moved": [pair.item for pair in pairs if pair.is_moved],
        "undecided": [pair.item for pair in pairs if pair.is_silenced],
        "drawn": [pair.item for pair in pairs if pair.is_drawn],
        "turned": sum(pair.is_turned for pair in pairs),
    }

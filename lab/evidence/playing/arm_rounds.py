"""One arm of one seed, round after round: people talk until a batch is full, and what is learned of it answers."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Awaitable, Callable, Iterator, Mapping
from typing import Any, Protocol

from environments.personas import Persona
from environments.users import User
from lab.evidence.compared_arms import Arm
from lab.evidence.plan import Plan, Session, sessions
from lab.evidence.playing.journal import Journal
from lab.evidence.playing.probes import NAME
from lab.evidence.playing.traffic import Learned, Line
from lab.evidence.playing.turnstile import Rank, Turnstile

TALKING = 0
"""How sessions rank before probes: they give the learner its work, and a probe can be asked at any time after."""

Write = Callable[..., Mapping[str, Any]]
"""A key and its fields, into the journal, with the time; what stands there already stays."""


class House(Protocol):
    """Where a line lives, as its operator sees it."""

    @property
    def at_once(self) -> int: ...

    async def standing(self, line: str) -> Mapping[str, Any]: ...


class Rounds:
    """The rounds of one line; each is a row of the journal."""

    def __init__(
        self,
        plan: Plan,
        arm: Arm,
        seed: int,
        line: Line,
        house: House,
        journal: Journal,
        *,
        live: Callable[[], Awaitable[str]],
        turnstile: Turnstile,
        place: tuple[int, int],
        person: Callable[[Persona, int], User],
        write: Write,
        tell: Callable[[str], None],
        clock: Callable[[], float],
    ) -> None:
        """`live` says what answers on this line, `place` is the seed's and the arm's among those who wait, and `person`
        makes the person who talks in a session, from who they are and a seed."""
        self.plan, self.arm, self.seed = plan, arm, seed
        self._line, self._house, self._journal, self._live = line, house, journal, live
        self._turnstile, self._place, self._person = turnstile, place, person
        self._write, self._tell, self._clock = write, tell, clock
        self._coming: Iterator[Session] = sessions(plan, seed)

    async def again(self) -> None:
        """After a start that is not the first: what was played is played from the journal, and what was cut off is
        played to its end."""
        if self._key(self.plan.sizes.rounds) in self._journal:
            return
        for row in self._journal.under(f"round/{self._line.key}/"):
            self._line.forget(row["spent"])
        played = {int(row["key"].split("/")[3]) for row in self._journal.under(f"reply/{self._line.key}/")}
        for _ in range(max(played, default=-1) + 1):
            await self._play(self._rank(0))

    async def turn(self, number: int) -> Mapping[str, Any]:
        """The journal's row of this round, which is played first where it is not there: sessions until the batch is
        full, then until what was learned of it answers."""
        return self._journal.get(self._key(number)) or await self._played(number)

    async def _played(self, number: int) -> Mapping[str, Any]:
        sizes, line = self.plan.sizes, self._line
        said, began = f"round {number} of {sizes.rounds}", self._clock()
        self._tell(f"{said}: talks")
        unfilled = await self._fill(self._rank(number))
        filled, talked_s = line.filled(), self._clock() - began
        learned = Learned(None, None, unfilled)
        if not unfilled:
            self._tell(f"{said}: learns from {sizes.samples} samples")
            learned = await line.learned()
            live = await self._live()
            if learned.number is not None and live != f"{NAME}@{learned.number}":
                learned = Learned(None, learned.run, f"Checkpoint {learned.number} was to answer, and {live} does.")
        standing = await self._house.standing(line.name)
        run: Mapping[str, Any] = next((one for one in standing["runs"] if one["id"] == learned.run), {})
        row = self._write(
            self._key(number),
            arm=self.arm.name,
            seed=self.seed,
            round=number,
            updates=number * sizes.updates,
            checkpoint=learned.number,
            run=learned.run,
            trouble=learned.trouble,
            unfilled=bool(unfilled),
            sessions=filled.sessions,
            interactions=filled.heard,
            cut=filled.cut,
            reasons=filled.reasons,
            spent=line.spent,
            seconds={"talk": round(talked_s, 1), "all": round(self._clock() - began, 1), "run": run.get("seconds")},
            metrics=run.get("metrics", []),
            recipe=standing.get("recipe"),
        )
        if learned.trouble:
            self._tell(f"{said}: {learned.trouble}")
        return row

    async def _fill(self, rank: Rank) -> str:
        """Sessions until a batch is full: as many at once as it takes at the pace so far, since a token is the cheaper
        the more are written together, and since what more of them bring is of the next round, though these weights
        answered it; and never so many that they could fill a second batch, which would be learned from before the
        first is answered with. Returns why it could not be filled; empty when it is."""
        sizes, line, started = self.plan.sizes, self._line, 0
        wanted, before = sizes.samples, self._line.filled()
        under_way: set[asyncio.Task[None]] = set()
        done: set[asyncio.Task[None]] = set()
        try:
            while not (filled := line.filled()).is_full:
                short, ended = max(0, wanted - len(filled.ready)), started - len(under_way)
                needed = max(
                    needed_for(short, len(filled.ready) - len(before.ready), ended),
                    needed_for(filled.unwritten, filled.written - before.written, ended),
                )
                most = (wanted + max(short, 1) - 1) // (sizes.rewrites + 1)  # and the one that fills it
                room = min(needed, self._house.at_once, most)
                while len(under_way) < max(1, room) and started < sizes.sessions:
                    under_way.add(asyncio.create_task(self._play(rank)))
                    started += 1
                if not under_way:
                    return _unfilled(line, wanted, started)
                done, under_way = await asyncio.wait(under_way, return_when=asyncio.FIRST_COMPLETED)
                for task in done:
                    task.result()
            await asyncio.gather(*under_way)  # they have begun: what they bring is of the next round
        except BaseException:
            for task in under_way:
                task.cancel()
            await asyncio.gather(*done, *under_way, return_exceptions=True)  # several may have failed at once
            raise
        return ""

    async def _play(self, rank: Rank) -> None:
        """The session that comes next."""
        number, task, session_seed = next(self._coming)
        sizes = self.plan.sizes
        await self._line.play(
            number,
            task,
            self._person(self.plan.own(self.seed), session_seed),
            self._turnstile,
            rank,
            most_rewrites=sizes.rewrites,
            seed=session_seed,
            max_tokens=sizes.reply_tokens,
            temperature=sizes.temperature,
        )

    def _key(self, number: int) -> str:
        return f"round/{self._line.key}/{number}"

    def _rank(self, number: int) -> Rank:
        of_seed, of_arm = self._place
        return TALKING, of_seed, number, of_arm


def needed_for(missing: int, brought: int, ended: int) -> int:
    """About how many sessions bring as many more as are missing, where those that ended brought so many; until they
    bring one, as if the next did.

    >>> needed_for(16, 0, 0), needed_for(2, 6, 30), needed_for(1, 6, 4), needed_for(3, 0, 5)
    (16, 10, 1, 15)
    """
    return math.ceil(missing * max(1, ended) / max(1, brought))


def _unfilled(line: Line, wanted: int, sessions: int) -> str:
    filled = line.filled()
    why = ", ".join(f"{code} {number}" for code, number in sorted(filled.reasons.items(), key=lambda one: -one[1]))
    return (
        f"{sessions} sessions brought {len(filled.ready)} samples, and no run of {wanted} began: {filled.cut} of "
        f"{filled.heard} replies were cut at their length, with nothing in their place"
        f"{'; others: ' + why if why else ''}. Nothing more is learned here."
    )

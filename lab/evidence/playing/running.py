"""A plan carried out: arms side by side, what is done written down, what went wrong said and not hidden."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from functools import partial
from time import monotonic
from typing import Any

from core.errors import TalkbackError
from environments.personas import Persona
from environments.users import ScriptedUser, User
from lab.evidence.compared_arms import Arm
from lab.evidence.plan import Plan
from lab.evidence.playing import homes, probes, shots
from lab.evidence.playing.arm_rounds import TALKING, Rounds
from lab.evidence.playing.homes import Door, Home
from lab.evidence.playing.journal import Journal
from lab.evidence.playing.probes import BASE, NAME, Probe
from lab.evidence.playing.traffic import Line
from lab.evidence.playing.turnstile import Rank

WATCH_S = 3.0
"""How often it is looked whether every process is still there."""

PROBING = TALKING + 1


class PlanDiffers(TalkbackError):
    """OUT holds what another plan has done."""

    code, status = "plan_differs", 409


class ArmsFailed(TalkbackError):
    """Some arms could not go on; what they had done is written down."""

    code, status = "arms_failed", 500


class Running:
    """One plan, one Talkback or several side by side, two files."""

    def __init__(
        self,
        plan: Plan,
        doors: Sequence[Door],
        journal: Journal,
        rows: Journal,
        *,
        say: Callable[[str], None] = print,
        person: Callable[[Persona, int], User] | None = None,
        sleep: Callable[[float], Awaitable[object]] = asyncio.sleep,
        clock: Callable[[], float] = monotonic,
    ) -> None:
        """`person` makes the one who talks in a session, from a persona and a seed; None: a scripted user."""
        self.plan, self.journal, self.rows = plan, journal, rows
        self._homes, self._say = [Home(door, plan) for door in doors], say
        self._person = person or partial(ScriptedUser, writes=plan.sizes.writes)
        self._sleep, self._clock = sleep, clock
        self._referring = asyncio.Lock()
        self._known = {seed: asyncio.Event() for seed in plan.seeds}
        self._later: list[asyncio.Task[None]] = []
        self._over: asyncio.Queue[asyncio.Task[None]] = asyncio.Queue()
        self._began_at = clock()
        self._left_s = plan.seconds(self._done())

    async def run(self) -> None:
        """Everything that is not done yet. Raises ArmsFailed with each arm's sentence once the others are through, and
        whatever `check` says of a Talkback that is gone."""
        agree(self.plan, self.journal)
        if (row := self.journal.last("plan")) is None or row["plan"] != self.plan.as_json():
            self.journal.write(f"plan/{len(self.journal.under('plan')) + 1}", plan=self.plan.as_json())
        all_of_it, watch = asyncio.create_task(self._all()), asyncio.create_task(self._watch())
        try:
            await asyncio.wait({all_of_it, watch}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in (all_of_it, watch):
                if not task.done():
                    task.cancel()
            ended = await asyncio.gather(all_of_it, watch, return_exceptions=True)
            self._write_spent()
        for one in reversed(ended):  # a process that is gone is why the rest failed
            if isinstance(one, BaseException) and not isinstance(one, asyncio.CancelledError):
                raise one

    async def _watch(self) -> None:
        while True:
            await self._sleep(WATCH_S)
            for home in self._homes:
                home.door.check()

    async def _all(self) -> None:
        plans = [row["plan"] for row in self.journal.under("plan/")]
        self._lives = homes.shared_out(plans, len(self._homes))
        lines: dict[Home, list[dict[str, Any]]] = {home: [] for home in self._homes}
        for seed in self.plan.seeds:
            for arm in self.plan.arms:
                lines[self._home(arm, seed)].append(self._described(arm, seed))
        await asyncio.gather(*(home.furnish(rows) for home, rows in lines.items()))
        for home in self._homes:
            self._soon(self._begin_seeds(home))
        try:
            failed = await self._ended()
        finally:
            for task in self._later:
                task.cancel()
            await asyncio.gather(*self._later, return_exceptions=True)
        if failed:
            raise ArmsFailed(" ".join(failed))

    async def _begin_seeds(self, home: Home) -> None:
        for number, seed in enumerate(self.plan.seeds):
            await self._seed(number, seed, home)

    async def _seed(self, number: int, seed: int, home: Home) -> None:
        """Begin the arms of a seed that live there: what learns when there is a place for it, so that the next seed
        begins while the last arms of this one learn. The seed that began first is answered first."""
        base = next((arm for arm in self.plan.arms if arm.kind == "frozen"), None)

        async def arm_of(at: int, arm: Arm) -> None:
            if arm.learns:
                await self._learns(arm, seed, number, at, base)
                return
            probe, rank = Probe(arm, seed, 0, BASE), (PROBING, number, 0, at)
            try:
                await self._probe(probe, rank, shown=await self._shots(arm, seed, rank) if arm.kind == "shown" else ())
            finally:
                if arm is base:
                    self._known[seed].set()
            if arm is base and seed == self.plan.seeds[0]:
                await self._pack(probe)

        async def refer() -> None:
            """Further replies of the base: asked by the arm that comes first, since every arm has one base."""
            if f"references/{seed}" in self.journal:
                return
            first, rank = self.plan.arms[0], (PROBING, number, 0, len(self.plan.arms))
            client = home.client(_line_name(first, seed), "probe")
            async with self._referring:  # seeds have questions in common, and each is asked once
                await probes.ask_references(
                    self.plan, first, seed, client, home.reader, self.rows, home.turnstile, rank
                )
            self._write(f"references/{seed}")
            self._tell(first, seed, f"references: {self.plan.sizes.references} further replies of the base a question")

        if self._home(self.plan.arms[0], seed) is home:
            self._soon(refer())
        for at, arm in sorted(enumerate(self.plan.arms), key=lambda one: one[1].learns):
            if self._home(arm, seed) is not home:
                continue
            if not arm.learns:
                self._soon(arm_of(at, arm))
                continue
            await home.places.acquire()
            self._soon(arm_of(at, arm)).add_done_callback(lambda _: home.places.release())

    async def _learns(self, arm: Arm, seed: int, number: int, at: int, base: Arm | None) -> None:
        """Round after round, each followed by a probe that no round waits for."""
        earlier = self._soon(self._begin(arm, seed, number, at, base))
        before = Probe(arm, seed, 0, BASE)
        rounds = self._rounds(arm, seed, (number, at))
        await rounds.again()
        for turn, mark in enumerate(self.plan.sizes.marks[1:], 1):
            row = await rounds.turn(turn)
            if row["unfilled"]:
                return
            now = Probe(arm, seed, mark, before.number if row["checkpoint"] is None else row["checkpoint"])
            rank = (PROBING, number, turn, at)
            earlier = self._soon(self._follow(before, now, rank, earlier, last=turn == self.plan.sizes.rounds))
            before = now

    def _rounds(self, arm: Arm, seed: int, place: tuple[int, int]) -> Rounds:
        home = self._home(arm, seed)
        client = home.client(_line_name(arm, seed), "talk")
        line = Line(
            f"{arm.name}/{seed}",
            client,
            home.door,
            self.journal,
            name=_line_name(arm, seed),
            sleep=self._sleep,
            clock=self._clock,
        )
        return Rounds(
            self.plan,
            arm,
            seed,
            line,
            home.door,
            self.journal,
            live=client.live,
            turnstile=home.turnstile,
            place=place,
            person=self._person,
            write=self._write,
            tell=partial(self._tell, arm, seed),
            clock=self._clock,
        )

    async def _ended(self) -> list[str]:
        """Wait for all that was begun, and for what that begins; what failed, in words. A bug ends it at once."""
        failed = list[str]()
        ended = 0
        while ended < len(self._later):
            failed += _sentences([(await self._over.get()).exception()])
            ended += 1
        return failed

    def _soon(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Begin work that is awaited at the end only."""
        task = asyncio.create_task(work)
        task.add_done_callback(self._over.put_nowait)
        self._later.append(task)
        return task

    async def _begin(self, arm: Arm, seed: int, number: int, at: int, base: Arm | None) -> None:
        """Where every arm begins: at the base, which is asked once for all of them."""
        probe = Probe(arm, seed, 0, BASE)
        if base is None:
            await self._probe(probe, (PROBING, number, 0, at))
            return
        await self._known[seed].wait()
        there = Probe(base, seed, 0, BASE)
        if f"probed/{there.key}" in self.journal:  # else it failed, and says so itself
            probes.copied(self.rows, there, probe)
            self._write(f"probed/{probe.key}", checkpoint=BASE)

    async def _follow(self, before: Probe, now: Probe, rank: Rank, earlier: asyncio.Task[None], *, last: bool) -> None:
        """The probe after a round, and the general pack after the last."""
        if now.number == before.number:  # nothing new went live: what was said before is said again
            await asyncio.wait({earlier})
            if f"probed/{before.key}" in self.journal:
                probes.copied(self.rows, before, now)
                self._write(f"probed/{now.key}", checkpoint=now.number)
        else:
            await self._probe(now, rank)
        if last:
            await self._pack(now)

    async def _shots(self, arm: Arm, seed: int, rank: Rank) -> Sequence[Mapping[str, str]]:
        """What the person wrote in place of the base's first replies, as the journal has it once it is known."""
        key = f"shots/{seed}"
        if key not in self.journal:
            home = self._home(arm, seed)
            client = home.client(_line_name(arm, seed), "probe")
            messages, heard = await shots.written(self.plan, seed, client, self._person, home.turnstile, rank)
            self._write(key, arm=arm.name, seed=seed, messages=messages, interactions=heard)
            self._tell(arm, seed, f"{len(messages) // 2} rewrites of the base's first {heard} replies")
        return list(self.journal[key]["messages"])

    async def _probe(self, probe: Probe, rank: Rank, *, shown: Sequence[Mapping[str, str]] = ()) -> None:
        if f"probed/{probe.key}" in self.journal:
            return
        began, home = self._clock(), self._home(probe.arm, probe.seed)
        client = home.client(_line_name(probe.arm, probe.seed), "probe")
        await probes.ask(self.plan, probe, client, home.reader, self.rows, home.turnstile, rank, shown=shown)
        self._write(f"probed/{probe.key}", checkpoint=probe.number, seconds=round(self._clock() - began, 1))
        said = f"probe after {probe.update} updates: {self.plan.sizes.probes} replies of {NAME}@{probe.number}"
        self._tell(probe.arm, probe.seed, said)

    async def _pack(self, probe: Probe) -> None:
        if f"pack/{probe.key}" in self.journal:
            return
        reader = self._home(probe.arm, probe.seed).reader
        await probes.ask_pack(self.plan, probe, reader, self.rows, f"{NAME}@{probe.number}")
        self._write(f"pack/{probe.key}", checkpoint=probe.number)
        self._tell(probe.arm, probe.seed, f"general pack: {self.plan.sizes.pack} items")

    # Names, keys, words

    def _described(self, arm: Arm, seed: int) -> dict[str, Any]:
        """A line of its own for each arm and seed, with one person in it; `manage.py lines make` reads it."""
        name = _line_name(arm, seed)
        row: dict[str, Any] = {
            "title": f"{arm.name}, seed {seed}",
            "name": name,
            "people": [name],
            "keys": {"talk": {}, "probe": {"serve_only": True}},
        }
        return row | ({"recipe": self.plan.recipe(arm)} if arm.learns else {})

    def _home(self, arm: Arm, seed: int) -> Home:
        return self._homes[self._lives[arm.name, seed]]

    def _done(self) -> list[str]:
        return [row["key"] for row in self.journal]

    def _write(self, key: str, **fields: Any) -> Mapping[str, Any]:
        return self.journal.get(key) or self.journal.write(key, at=round(self._clock() - self._began_at, 1), **fields)

    def _write_spent(self) -> None:
        number, cpu_s = len(self.journal.under("spent/")), Counter[str]()
        for home in self._homes:
            cpu_s.update(home.door.spent())
        self.journal.write(f"spent/{number}", cpu_s=dict(cpu_s), seconds=self._clock() - self._began_at)

    def _tell(self, arm: Arm, seed: int, what: str) -> None:
        gone = self._clock() - self._began_at
        self._say(
            f"{gone / 60:5.1f} min  {arm.name:<12} seed {seed}  {what}; about {self._minutes_left(gone)} min left"
        )

    def _minutes_left(self, gone_s: float) -> int:
        """By the plan's estimate, at the pace of this run so far."""
        left_s = self.plan.seconds(self._done())
        done_s = self._left_s - left_s
        pace = min(max(gone_s / done_s, 0.25), 8.0) if done_s > 60 else 1.0
        return max(0, round(left_s * pace / 60))


def agree(plan: Plan, journal: Journal) -> None:
    """See that the plan goes on with what OUT holds, if it holds any: the same, with more arms or seeds if need be.
    Raises PlanDiffers with what differs."""
    row = journal.last("plan")
    if row is not None and (differs := _differs(row["plan"], plan.as_json())):
        raise PlanDiffers(
            f"{journal.path.parent} holds a run with other {' and '.join(differs)}: name another OUT, or give the same "
            "settings to go on with it. Only arms and seeds may be added, arms in any order, seeds after those that "
            "are there."
        )


def _differs(before: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    """What of a plan is not as it was, apart from what was added, and the order in which arms are named."""
    kept = dict(now) | {
        "arms": [arm for arm in before["arms"] if arm in now["arms"]],
        "seeds": now["seeds"][: len(before["seeds"])],
        "personas": {seed: who for seed, who in now["personas"].items() if seed in before["personas"]},
    }
    return [name for name in dict.fromkeys([*before, *kept]) if kept.get(name) != before.get(name)]


def _line_name(arm: Arm, seed: int) -> str:
    return f"{arm.name}-{seed}"


def _sentences(results: Sequence[BaseException | None]) -> list[str]:
    """What failed, in words; whatever has no name is a bug, and raised."""
    for one in results:
        if isinstance(one, BaseException) and not isinstance(one, TalkbackError):
            raise one
    return [str(one) for one in results if one is not None]

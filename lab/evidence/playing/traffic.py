"""An arm's sessions, and the way of what was said in them into weights: batch, run, candidate, live."""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from time import monotonic
from typing import Any, Protocol

from core.errors import TalkbackError
from environments.actor import Speaker
from environments.client import Completion
from environments.sessions import Exchange, play
from environments.tasks import Task
from environments.users import User
from lab.evidence.playing.journal import Journal
from lab.evidence.playing.turnstile import Rank, Turnstile

ON_ITS_WAY = ("writing", "served", "judging")
"""Stages of a reply in which it is not known yet whether it teaches."""

POLL_S = 2.0
VERDICT_S = 1200.0
"""How long a verdict may take; with a full queue of votes it takes minutes."""
RUN_S = 3600.0
GATE_S = 1200.0
LIVE_S = 300.0


class Overdue(TalkbackError):
    """Something that Talkback does by itself did not come; the same command goes on from here."""

    code, status, retryable = "overdue", 504, True


class Talkback(Protocol):
    """What a line needs of Talkback as a client."""

    async def complete(
        self,
        messages: Sequence[Mapping[str, Any]],
        *,
        model: str | None = None,
        seed: int | None = None,
        max_tokens: int | None = None,
        temperature: float | None = None,
        session: str | None = None,
        done: bool = False,
        tools: Sequence[Mapping[str, Any]] | None = None,
        name: str | None = None,
    ) -> Completion: ...

    async def give(
        self,
        completion_id: str,
        *,
        rating: str | None = None,
        guidance: str | None = None,
        correction: str | None = None,
    ) -> None: ...

    async def learning(self, completion_id: str) -> Mapping[str, Any]: ...

    async def live(self) -> str: ...


class Operator(Protocol):
    """What the operator of this Talkback does."""

    async def approve(self, number: int) -> None: ...

    async def standing(self, line: str) -> Mapping[str, Any]: ...

    def check(self) -> None: ...


class Remembered:
    """Talkback in one session: what is in the journal is not asked again."""

    def __init__(self, client: Talkback, journal: Journal, key: str, turnstile: Turnstile, rank: Rank) -> None:
        """`key` names the session: "combined/1/7"."""
        self._client, self._journal, self._key = client, journal, key
        self._turnstile, self._rank = turnstile, rank
        self._asked = self._given = 0

    async def complete(
        self,
        messages: Sequence[Mapping[str, Any]],
        *,
        model: str | None = None,
        seed: int | None = None,
        max_tokens: int | None = None,
        temperature: float | None = None,
        session: str | None = None,
        done: bool = False,
        tools: Sequence[Mapping[str, Any]] | None = None,
        name: str | None = None,
    ) -> Completion:
        key, self._asked = f"reply/{self._key}/{self._asked}", self._asked + 1
        if (row := self._journal.get(key)) is not None:
            return Completion(**row["completion"])
        async with self._turnstile.inside(self._rank):
            reply = await self._client.complete(
                messages,
                model=model,
                seed=seed,
                max_tokens=max_tokens,
                temperature=temperature,
                session=session or self._key.replace("/", "-"),
                done=done,
                tools=tools,
                name=f"evidence-{key}",  # killed before it is written down, it is asked again and is the same turn
            )
        self._journal.write(key, completion=asdict(reply))
        return reply

    async def give(
        self,
        completion_id: str,
        *,
        rating: str | None = None,
        guidance: str | None = None,
        correction: str | None = None,
    ) -> None:
        key, self._given = f"given/{self._key}/{self._given}", self._given + 1
        if key not in self._journal:  # said twice it changes nothing
            said = {"rating": rating, "guidance": guidance, "correction": correction}
            await self._client.give(completion_id, **said)
            self._journal.write(key, completion_id=completion_id, **said)


class RememberedWords:
    """A model that plays people: what it said once to the same words is in the journal, and not asked again, so that a
    run that goes on says what it said, and every arm hears the same of the same reply."""

    def __init__(self, speaker: Speaker, journal: Journal) -> None:
        self._speaker, self._journal = speaker, journal

    async def says(self, messages: Sequence[Mapping[str, str]], *, seed: int) -> str:
        told = json.dumps([list(messages), seed], ensure_ascii=False, sort_keys=True)
        key = f"words/{hashlib.sha256(told.encode()).hexdigest()[:24]}"
        if key not in self._journal:
            said = await self._speaker.says(messages, seed=seed)
            if key not in self._journal:  # another arm may have asked the same meanwhile
                self._journal.write(key, said=said)
        return str(self._journal[key]["said"])


@dataclass
class Filled:
    """How far an arm has talked in a round."""

    sessions: int = 0
    """Since the arm began."""
    heard: int = 0
    """Replies that a person said something of, since the arm began: what the published figures call interactions."""
    cut: int = 0
    """Of these, those that were cut at their length, and teach nothing since no person wrote anything instead."""
    ready: list[str] = field(default_factory=list)
    """Completions that the next run may claim."""
    is_full: bool = False
    """A run begins with them, by what Talkback said of the last of them or did with one."""
    written: int = 0
    """Of these, those in whose place a person wrote."""
    unwritten: int = 0
    """How many more rewrites it takes before a run begins with a batch's size of them, by what Talkback
    said of the last of them."""
    reasons: dict[str, int] = field(default_factory=dict)
    """Why others taught nothing, by Talkback's own word, since the arm began."""


@dataclass(frozen=True)
class Learned:
    """What a round came to."""

    number: int | None
    """The checkpoint that answers from now on; None: what answered before still does."""
    run: int | None
    trouble: str = ""
    """An alarm, or a candidate that was turned away, in Talkback's own sentence."""


class Line:
    """One arm of one seed: its sessions, its samples, its checkpoints."""

    def __init__(
        self,
        key: str,
        client: Talkback,
        operator: Operator,
        journal: Journal,
        *,
        name: str,
        sleep: Callable[[float], Awaitable[object]] = asyncio.sleep,
        clock: Callable[[], float] = monotonic,
    ) -> None:
        """`key` is "arm/seed", `name` what Talkback calls the line."""
        self.key, self.name = key, name
        self._client, self._operator, self._journal = client, operator, journal
        self._sleep, self._clock = sleep, clock
        self._replies: dict[str, bool] = {}  # completion: whether it may teach, of each reply that was heard
        self._written: set[str] = set()  # completions in whose place a person wrote
        self._stood: dict[str, Mapping[str, Any]] = {}  # completion: what became of it
        self._spent: set[str] = set()  # completions that runs have had, or passed over
        self._sessions = 0

    async def play(
        self, number: int, task: Task, user: User, turnstile: Turnstile, rank: Rank, **how: Any
    ) -> list[Exchange]:
        """One session, written down when it is over; then wait for the verdicts of what was heard."""
        key = f"{self.key}/{number}"
        door = Remembered(self._client, self._journal, key, turnstile, rank)
        played = await play(door, user, task, **how)
        heard = [one for one in played if one.said is not None]
        if f"session/{key}" not in self._journal:
            self._journal.write(
                f"session/{key}",
                task=asdict(task),
                exchanges=[asdict(one) for one in played],
                accepted=bool(heard) and heard[-1].said is not None and heard[-1].said.accepts,
            )
        self._sessions += 1
        teaching = [one for one in heard if one.finish_reason != "length" or (one.said and one.said.instead)]
        self._written |= {one.completion_id for one in heard if one.said and one.said.instead}
        self._replies |= {one.completion_id: one in teaching for one in heard}
        for one in teaching:
            await self._until_judged(one.completion_id)
        return played

    def filled(self) -> Filled:
        """How far it has come."""
        found = Filled(self._sessions, len(self._replies), sum(not teaches for teaches in self._replies.values()))
        for completion, stood in self._stood.items():
            if completion in self._spent:
                continue
            # One that a run has, and that no round of ours has had, is of this one, or of one that was cut off.
            sample = stood.get("sample")
            if sample and sample["status"] != "stale" and (stood["run"] or sample["place"]):
                found.ready.append(completion)
                found.written += completion in self._written
                found.is_full |= bool(stood["run"]) or sample["wanting"] == 0
                found.unwritten = sample["corrections"] or 0  # the last one's is the newest
            elif _is_passed_over(stood):  # the run that it filled has begun without it
                found.is_full = True
            elif reason := stood.get("reason"):
                found.reasons[reason["code"]] = found.reasons.get(reason["code"], 0) + 1
        return found

    async def learned(self) -> Learned:
        """Wait until the batch, which is full, has become what answers; approve it on the way. Raises Overdue."""
        ready = self.filled().ready
        claimed = await self._until(lambda: self._claimed(ready), RUN_S, "no run claimed the batch, which is full")
        learnt = await self._until(lambda: self._ended(claimed[0]), RUN_S, "the run did not end")
        run = learnt["run"]["id"]
        self._spent |= set(claimed) | {one for one, stood in self._stood.items() if _is_passed_over(stood)}
        if learnt["sample"]["status"] != "trained":
            return Learned(None, run, f"Run {run} failed: {await self._said_of_run(run)}")
        number = next(one["number"] for one in learnt["checkpoints"] if one["learned_here"])
        status = await self._until(lambda: self._examined(claimed[0], number), GATE_S, "the gate did not speak")
        if status == "passed":
            await self._operator.approve(number)
            status = "approved"
        if status == "approved":  # by this start or by the one before it, which was cut off here
            status = await self._until(lambda: self._answering(claimed[0], number), LIVE_S, "it did not go live")
        if status == "rejected":
            return Learned(None, run, f"Checkpoint {number} was turned away: {await self._said_of(number)}")
        return Learned(number, run)

    def forget(self, completions: Sequence[str]) -> None:
        """These were had by a run that is over, or passed over by it: they count no more."""
        self._spent |= set(completions)

    @property
    def spent(self) -> list[str]:
        return sorted(self._spent)

    async def _until_judged(self, completion: str) -> None:
        async def settled() -> Mapping[str, Any] | None:
            stood = await self._client.learning(completion)
            return None if stood["stage"] in ON_ITS_WAY else stood

        if completion not in self._stood:
            self._stood[completion] = await self._until(settled, VERDICT_S, "a reply was not judged")

    async def _claimed(self, ready: Sequence[str]) -> list[str] | None:
        """Those that the first run has, once there is one. A run claims all of its batch at once, so one that is seen
        before it is looked at again."""
        for _ in range(2):
            for completion in ready:
                self._stood[completion] = await self._client.learning(completion)
            had = {one: run["id"] for one in ready if (run := self._stood[one].get("run"))}
            if not had:
                return None
        return [one for one, run in had.items() if run == min(had.values())]

    async def _ended(self, completion: str) -> Mapping[str, Any] | None:
        stood = await self._client.learning(completion)
        over = stood["sample"]["status"] == "trained" or stood["run"]["status"] == "failed"
        return stood if over else None

    async def _examined(self, completion: str, number: int) -> str | None:
        status = await self._status(completion, number)
        return None if status == "candidate" else status

    async def _answering(self, completion: str, number: int) -> str | None:
        status = await self._status(completion, number)
        return status if status in ("live", "retired", "rejected") else None

    async def _status(self, completion: str, number: int) -> str:
        stood = await self._client.learning(completion)
        return str(next(one["status"] for one in stood["checkpoints"] if one["number"] == number))

    async def _said_of_run(self, run: int) -> str:
        runs = (await self._operator.standing(self.name))["runs"]
        return next((one["error"] for one in runs if one["id"] == run and one["error"]), "it gave no reason.")

    async def _said_of(self, number: int) -> str:
        rows = (await self._operator.standing(self.name))["checkpoints"]
        return next((one["reason"] for one in rows if one["number"] == number and one["reason"]), "no reason is kept.")

    async def _until(self, look: Callable[[], Awaitable[Any]], deadline_s: float, otherwise: str) -> Any:
        """The first answer that is one. Raises Overdue with the sentence once the deadline has passed, and whatever
        `check` has to say of processes that are gone."""
        end = self._clock() + deadline_s
        while (found := await look()) is None:
            self._operator.check()
            if self._clock() > end:
                raise Overdue(
                    f"{self.key}: {otherwise} within {deadline_s / 60:.0f} minutes. See the logs under talkback/log in "
                    "OUT; the same command goes on from here."
                )
            await self._sleep(POLL_S)
        return found


def _is_passed_over(stood: Mapping[str, Any]) -> bool:
    """Whether a run left this aside. No person here takes back what they said, and every recipe learns by what is
    said."""
    sample = stood.get("sample")
    return sample is not None and sample["status"] == "ready" and not stood["run"] and sample["place"] is None

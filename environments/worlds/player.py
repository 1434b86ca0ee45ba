"""Play attempts at tasks through the public API: many at once, each once, and said to the end."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Callable, Coroutine, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from time import monotonic
from typing import Any, TypeVar

from core.errors import TalkbackError
from environments.client import Client, Refused, Unreachable
from environments.errors import SandboxEnded, SandboxRefused, SandboxUnavailable, Unplayable
from environments.worlds.base import Attempt, Outcome, Task, World, WorldFailed
from environments.worlds.harness import Course, Hand, Sampling, Talk, seed_of
from environments.worlds.harnesses.hosting import Hosting
from environments.worlds.harnesses.visit import Harness, Visit
from environments.worlds.played import Played
from environments.worlds.width import Room, Width

Result = TypeVar("Result")

LEASE_S = 600
SIGNS = 3
"""So many times in a lease a player says that it is alive: one that is lost ends no attempt."""
MOST_NAME = 200
"""Characters of a group's name."""
MOST_REASON = 400
"""Characters of why an attempt is void, as Talkback takes them."""
VOID = ("infra_error", "cancelled")
BEGUN = ("attempt_taken", "group_judged")
"""What Talkback answers where an attempt was played before, or its group learned from without it."""
CALL_OFF_S = 20.0
"""How long Talkback may take to hear that attempts are called off."""
FAULTS = (WorldFailed, SandboxUnavailable, SandboxRefused, SandboxEnded)
"""The world's, and not the agent's."""


@dataclass(frozen=True)
class Way:
    """How a night is played."""

    seed: int = 1
    """All that is drawn hangs on it, the task, the attempt and the step: two checkpoints draw alike."""
    night: str = ""
    """Of what its groups are named; left out: of the seed. The same name goes on where a player was killed."""
    sampling: Sampling = field(default_factory=Sampling)
    lease_s: int = LEASE_S
    model: str | None = None
    """name@number that is to play; None: what answers this key."""
    harness: Harness | None = None
    """What plays instead of our tool loop."""
    pictures: bool = True
    """Whether a model that sees is shown pictures; a step that was shown one does not train."""


async def play(
    client: Client,
    world: World,
    tasks: Sequence[Task],
    attempts: int,
    *,
    way: Way = Way(),
    width: Width | None = None,
    on_played: Callable[[Played], object] | None = None,
) -> list[Played]:
    """Play each task `attempts` times and give back every attempt, in order of tasks and numbers.

    An attempt that was begun before is not played again: it comes back as `before`. `on_played` is called with each
    as it ends, also with those that are called off where this is cancelled. Raises Refused where Talkback takes no
    episodes of this key, or none with `way.model`, and what a world raises that no world may; all other attempts are
    called off then. Raises Unplayable for a harness in a world that has no room for one.
    """
    if way.harness and not isinstance(world, Hosting):
        raise Unplayable(f"{world.name} takes no --harness: its outcome is made of calls of its own tools.")
    player = way.model or await client.live()
    if not tasks:
        return []
    width = width or Width(world.parallel)
    told = on_played or (lambda _: None)
    sees = way.pictures and world.is_seen and await client.sees(player)
    night = _Night(client, world, attempts, way, player, width.room(), width.room(), told, sees)
    client.on_wait = width.press
    playing = [asyncio.ensure_future(night.play(task, number)) for task in tasks for number in range(attempts)]
    try:
        await asyncio.wait(playing, return_when=asyncio.FIRST_EXCEPTION)
    finally:
        for one in playing:
            one.cancel()  # once: a second time would end what calls its attempt off
        await asyncio.wait(playing)
    for one in playing:
        if not one.cancelled() and (error := one.exception()) is not None:
            raise error
    return [one.result() for one in playing]


def group_name(night: str, world: str, model: str, task: str) -> str:
    """What the attempts at one task are called: the same in each player of that night.

    >>> group_name("seed-1", "till", "talkback@3", "train-3-7")
    'seed-1/till/talkback@3/train-3-7'
    """
    name = f"{night}/{world}/{model}/{task}"
    if len(name) <= MOST_NAME:
        return name
    return f"{name[: MOST_NAME - 17]}-{hashlib.sha256(name.encode()).hexdigest()[:16]}"


@dataclass(frozen=True)
class _Night:
    client: Client
    world: World
    attempts: int
    way: Way
    player: str
    """Who plays, in the groups' names."""
    places: Room
    """Attempts that are played at once."""
    replies: Room
    on_played: Callable[[Played], object]
    sees: bool = False
    """Whether who plays is shown pictures."""

    async def play(self, task: Task, number: int) -> Played:
        async with self.places:
            group = group_name(self.way.night or f"seed-{self.way.seed}", self.world.name, self.player, task.id)
            blank = Played(self.world.name, task.id, task.split, group, number, "before")
            opened: list[Mapping[str, Any]] = []
            try:
                await finish(self._open(blank, opened))
            except Refused as refused:
                if refused.said not in BEGUN:
                    raise
                self.on_played(blank)
                return blank
            except asyncio.CancelledError:
                for one in opened:
                    await finish(self._end(_stopped(_named(blank, one))))
                raise
            attempt = _named(blank, opened[0])
            hand = Hand()
            alive = asyncio.ensure_future(self._stay_alive(attempt.episode, hand))
            try:
                return await self._attempt(task, attempt, str(opened[0]["key"]), hand)
            finally:
                alive.cancel()

    async def _stay_alive(self, episode: str, hand: Hand) -> None:
        """Say that this attempt is played: while it waits for its turn, or its world works, it asks for nothing. Where
        its world hangs its lease ends it, so that its group is complete; its place here stays taken."""
        while not hand.hangs:
            await asyncio.sleep(self.way.lease_s / SIGNS)
            with suppress(Unreachable):
                try:
                    await self.client.renew(episode)
                except Refused:  # it is over, and its own requests are told so
                    return

    async def _open(self, blank: Played, opened: list[Mapping[str, Any]]) -> None:
        about = (blank.world, blank.task, blank.split, blank.group, blank.attempt)
        asked = self.client.open_episode(*about, attempts=self.attempts, lease_s=self.way.lease_s, model=self.way.model)
        opened.append(await asked)

    async def _attempt(self, task: Task, blank: Played, key: str, hand: Hand) -> Played:
        """Play an episode that is open, and close it."""
        began, course = monotonic(), Course()

        def ended(outcome: Outcome, cut: Any = "", reason: str = "") -> Played:
            return replace(
                blank,
                status=outcome.ending,
                outcome=outcome.value,
                truncated_by=cut if outcome.ending == "truncated" else "",
                checks=outcome.checks,
                scores=course.scores,
                steps=course.steps,
                invalid=course.invalid,
                prompt_tokens=course.prompt_tokens,
                completion_tokens=course.completion_tokens,
                seconds=round(monotonic() - began, 3),
                reason=reason or course.note,
                exit_status=course.exit_status,
            )

        try:
            outcome, cut = await self._outcome(task, blank, key, hand, course)
            played = ended(outcome, cut)
        except FAULTS as error:
            played = ended(Outcome("infra_error", None), reason=str(error))
        except Refused as refused:
            played = ended(Outcome("cancelled", None), reason=str(refused))
        except Unreachable as gone:
            played = replace(ended(Outcome("cancelled", None), reason=str(gone)), status="left")
        except asyncio.CancelledError:
            await finish(self._end(_stopped(ended(Outcome("cancelled", None)))))
            raise
        except BaseException as error:  # what no world may raise: it is said, and raised
            await finish(self._end(ended(Outcome("infra_error", None), reason=f"{type(error).__name__}: {error}")))
            raise
        finally:
            hand.end()
        return await finish(self._end(played))

    async def _outcome(self, task: Task, blank: Played, key: str, hand: Hand, course: Course) -> tuple[Outcome, str]:
        seed = partial(seed_of, self.way.seed, task.id, blank.attempt)
        if self.way.harness:
            assert isinstance(self.world, Hosting)
            begin = partial(self.world.host, task, seed("world"))
            visit = Visit(self.way.harness, self.client.with_key(key), key, blank.model, self.replies)
            return await visit.play(begin, hand, course)
        held: list[Attempt] = []  # one that was opened while all is called off is closed all the same
        try:
            await hand.do(lambda: held.append(self.world.open(task, seed("world"))))
            (attempt,) = held
            talk = Talk(
                self.client,
                self.client.with_key(key),
                blank.episode,
                self.way.sampling,
                seed,
                self.replies,
                self.world.horizon,
                self.sees,
            )
            cut = await talk.play(attempt, hand, course)
            return await hand.do(attempt.outcome, is_truncated=bool(cut)), cut
        finally:
            for attempt in held:
                await hand.do(attempt.close)

    async def _end(self, played: Played) -> Played:
        """Tell Talkback and the caller. Where Talkback cannot be told, or ended the episode itself, the attempt is
        left as it says."""
        if played.status != "left":
            try:
                await self.client.close_episode(played.episode, report(played))
            except Refused as refused:
                if refused.said != "episode_closed":
                    raise
                played = replace(played, status="left", outcome=None, reason=str(refused))
            except Unreachable as gone:
                played = replace(played, status="left", outcome=None, reason=str(gone))
        self.on_played(played)
        return played


async def finish(work: Coroutine[Any, Any, Result]) -> Result:
    """Await `work` to its end, for CALL_OFF_S more where this is cancelled meanwhile, and only then be cancelled."""
    doing = asyncio.ensure_future(work)
    try:
        return await asyncio.shield(doing)
    except asyncio.CancelledError:
        await asyncio.wait([doing], timeout=CALL_OFF_S)
        doing.cancel()
        with suppress(TalkbackError, asyncio.CancelledError):
            await doing
        raise


def _named(blank: Played, opened: Mapping[str, Any]) -> Played:
    return replace(blank, episode=str(opened["id"]), model=str(opened["model"]))


def _stopped(played: Played) -> Played:
    return replace(played, status="cancelled", reason="The player was stopped.")


def report(played: Played) -> Mapping[str, Any]:
    """What Talkback is told of an attempt's end."""
    cost: dict[str, float] = {
        "prompt_tokens": played.prompt_tokens,
        "completion_tokens": played.completion_tokens,
        "seconds": played.seconds,
        "steps": played.steps,
        "invalid": played.invalid,
    }
    cost |= {} if played.exit_status is None else {"exit_status": played.exit_status}
    told: dict[str, Any] = {"status": played.status, "outcome": played.outcome, "checks": dict(played.checks)}
    told |= {"cost": cost}
    told |= {"reason": played.reason[:MOST_REASON]} if played.reason and played.status in VOID else {}
    told |= {"truncated_by": played.truncated_by} if played.truncated_by else {}
    return told | ({"scores": dict(played.scores)} if played.scores else {})

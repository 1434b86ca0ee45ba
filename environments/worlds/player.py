"""Play attempts at tasks through the public API: many at once, each once, and said to the end."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from time import monotonic
from typing import Any

from core.errors import TalkbackError
from environments.client import Client, Refused, Unreachable
from environments.errors import SandboxEnded, SandboxRefused, SandboxUnavailable, Unplayable
from environments.worlds.base import Attempt, Outcome, Task, World, WorldFailed
from environments.worlds.harness import Course, Hand, Sampling, Talk, seed_of
from environments.worlds.played import Played
from environments.worlds.width import Room, Width

LEASE_S = 600
MOST_NAME = 200
"""Characters of a group's name."""
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
    episodes of this key, Unplayable where another checkpoint answers it than `way.model`, and what a world raises
    that no world may; all other attempts are called off then.
    """
    live = await client.live()
    if way.model and way.model != live:
        raise Unplayable(
            f"{live} answers this key, and {way.model} is to play: make a key that is pinned to it, with "
            f"`python manage.py create_key --name NAME --scope chat --scope episodes --checkpoint NUMBER`."
        )
    width = width or Width(world.parallel)
    night = _Night(client, world, attempts, way, live, width.room(), width.room(), on_played or (lambda _: None))
    client.on_wait = width.press
    playing = [asyncio.ensure_future(night.play(task, number)) for task in tasks for number in range(attempts)]
    try:
        return list(await asyncio.gather(*playing))
    finally:
        for one in playing:
            one.cancel()
        await asyncio.gather(*playing, return_exceptions=True)


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
    live: str
    places: Room
    """Attempts that are played at once."""
    replies: Room
    on_played: Callable[[Played], object]

    async def play(self, task: Task, number: int) -> Played:
        async with self.places:
            group = group_name(self.way.night or f"seed-{self.way.seed}", self.world.name, self.live, task.id)
            blank = Played(self.world.name, task.id, task.split, group, number, "before")
            try:
                opened = await self._open(task, group, number)
            except Refused as refused:
                if refused.said not in BEGUN:
                    raise
                played = blank
            else:
                blank = replace(blank, episode=str(opened["id"]), model=str(opened["model"]))
                played = await self._attempt(task, blank, str(opened["key"]))
            self.on_played(played)
            return played

    async def _open(self, task: Task, group: str, number: int) -> Mapping[str, Any]:
        """Open an episode. Called off meanwhile, this waits for its id and calls it off as well."""
        terms = {"attempts": self.attempts, "lease_s": self.way.lease_s}
        asked = self.client.open_episode(self.world.name, task.id, task.split, group, number, **terms)
        opening = asyncio.ensure_future(asked)
        try:
            return await asyncio.shield(opening)
        except asyncio.CancelledError:
            with suppress(TalkbackError, TimeoutError):
                async with asyncio.timeout(CALL_OFF_S):
                    await self.client.close_episode(str((await opening)["id"]), {"status": "cancelled"})
            raise

    async def _attempt(self, task: Task, blank: Played, key: str) -> Played:
        """Play an episode that is open, and close it."""
        began, course, hand = monotonic(), Course(), Hand()

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
                reason=reason,
            )

        try:
            outcome, cut = await self._outcome(task, blank, key, hand, course)
            played = ended(outcome, cut)
        except FAULTS as error:
            played = ended(Outcome("infra_error", None), reason=str(error))
        except Refused as refused:
            played = ended(Outcome("cancelled", None), reason=str(refused))
        except Unreachable as gone:
            return replace(ended(Outcome("cancelled", None), reason=str(gone)), status="left")
        except asyncio.CancelledError:
            self.on_played(await self._call_off(ended(Outcome("cancelled", None), reason="The player was stopped.")))
            raise
        except BaseException as error:  # a world that raises what no world may: said, and raised
            await self._call_off(ended(Outcome("infra_error", None), reason=f"{type(error).__name__}: {error}"))
            raise
        finally:
            hand.end()
        return await self._close(played)

    async def _outcome(self, task: Task, blank: Played, key: str, hand: Hand, course: Course) -> tuple[Outcome, str]:
        seed = partial(seed_of, self.way.seed, task.id, blank.attempt)
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
            )
            cut = await talk.play(attempt, hand, course)
            return await hand.do(attempt.outcome, is_truncated=bool(cut)), cut
        finally:
            for attempt in held:
                await hand.do(attempt.close)

    async def _close(self, played: Played) -> Played:
        """Tell Talkback. Where it cannot be told, or ended the episode itself, the attempt is left as it says."""
        try:
            await self.client.close_episode(played.episode, report(played))
        except Refused as refused:
            if refused.said != "episode_closed":
                raise
            return replace(played, status="left", outcome=None, reason=str(refused))
        except Unreachable as gone:
            return replace(played, status="left", outcome=None, reason=str(gone))
        return played

    async def _call_off(self, played: Played) -> Played:
        with suppress(TalkbackError, TimeoutError):
            async with asyncio.timeout(CALL_OFF_S):
                return await self._close(played)
        return replace(played, status="left")


def report(played: Played) -> Mapping[str, Any]:
    """What Talkback is told of an attempt's end."""
    cost = {
        "prompt_tokens": played.prompt_tokens,
        "completion_tokens": played.completion_tokens,
        "seconds": played.seconds,
        "steps": played.steps,
        "invalid": played.invalid,
    }
    told: dict[str, Any] = {"status": played.status, "outcome": played.outcome, "checks": dict(played.checks)}
    told |= {"cost": cost}
    told |= {"truncated_by": played.truncated_by} if played.truncated_by else {}
    return told | ({"scores": dict(played.scores)} if played.scores else {})

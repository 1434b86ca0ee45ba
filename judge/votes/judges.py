"""Who is asked for votes, as the settings say, and how an answer is waited for.

A judge of kind `base` is the policy's own base without adapters, `adapter` the same base with the judge's adapter,
`engine` another local server of SGLang's interface, and `openai` any OpenAI-compatible server.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from django.conf import settings
from django.utils.translation import gettext as _

from core.errors import TalkbackError
from gpu_workers import engines
from gpu_workers.errors import EngineUnavailable
from judge.calibration import vote_floor
from judge.votes import fitting, naming, prompts
from judge.votes.chat_judge import ChatJudge
from judge.votes.engine_judge import EngineJudge
from judge.votes.evidence import Evidence
from judge.votes.judge import Judge
from judge.votes.naming import Named
from judge.votes.prompts import Asked

log = logging.getLogger(__name__)

PRIORITY = 0
"""The engine serves votes when no person waits for a reply."""

AFTERTHOUGHT = -1
"""Votes that decide nothing any more come after those that do."""

TRAINED = "trained"
"""The family of prompts that the judge's own adapter was trained with."""

SIGHT_S = 5.0
"""How long a page waits for a judge's server to say whether it takes pictures: it may be asked twice, with
`gpu_workers.engine.sight.ASKED_S` each time."""


@dataclass(frozen=True)
class Said:
    """One judge's answer, or why there is none."""

    text: str = ""
    tokens: int = 0
    seconds: float = 0.0
    failure: str = ""
    unreachable: bool = False
    prompt_tokens: int = 0
    cached_tokens: int = 0
    version: str = ""
    probabilities: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Sight:
    """Whether a judge is shown pictures; None where that is not known, since its server does not answer, or its model
    cannot be read."""

    sees: bool | None
    is_unreadable: bool = False


# As the settings say


def panel() -> tuple[Judge, ...]:
    """Every judge that votes in this installation, in their order. Raises JudgesInvalid."""
    return tuple(made(named) for named in naming.named())


def roster() -> tuple[Judge, ...]:
    """The same, to be shown: name, kind, family, version, host, and whether text leaves the machine for it."""
    return panel()


def sights(asked: Sequence[Judge]) -> list[Sight]:
    """Which of these judges are shown pictures. A server has SIGHT_S to answer.

    The event loop is one of its own: that of the server has connections which replies are read from. It is left without
    waiting for its threads, as asyncio.run would: what one asks of a server may take any time, and is remembered."""

    async def sight(who: Judge) -> Sight:
        try:
            async with asyncio.timeout(SIGHT_S):
                return Sight(await who.sees())
        except (EngineUnavailable, TimeoutError):
            return Sight(None)
        except (TalkbackError, OSError, ValueError) as failure:
            log.warning("The model of the judge %s cannot be read: %s", who.name, failure)
            return Sight(None, is_unreadable=True)

    async def all_of_them() -> list[Sight]:
        try:
            return await asyncio.gather(*map(sight, asked))
        finally:
            await close(asked)

    loop = asyncio.new_event_loop()
    try:
        return loop.run_until_complete(all_of_them())
    finally:
        loop.run_until_complete(loop.shutdown_asyncgens())
        loop.close()


def judge() -> Judge:
    """The first judge of the panel."""
    return panel()[0]


def called(name: str) -> Judge:
    """The judge of this name, or of this kind where a kind is named. Raises JudgesInvalid with the names there are."""
    there = panel()
    if found := next((one for one in there if name in (one.name, one.kind)), None):
        return found
    if name in ("base", "adapter"):
        return made(Named(kind=name))
    names = ", ".join(dict.fromkeys([*(one.name for one in there), "base", "adapter"]))
    raise naming.JudgesInvalid(
        _("There is no judge %(judge)s. There are: %(names)s.") % {"judge": name, "names": names}
    )


def teaches() -> bool:
    """Whether votes alone make a sample here: as JUDGE_TEACHES says, else when the bare base is none of those who vote.

    Judges that have stopped do not vote. Raises JudgesInvalid.
    """
    if settings.JUDGE_TEACHES is not None:
        return bool(settings.JUDGE_TEACHES)
    there = panel()
    voting = [who for who in there if vote_floor.weight(who.name, who.version) > 0]
    return all(who.kind != "base" for who in voting or there)


def made(named: Named) -> Judge:
    """The judge that a setting describes. Raises JudgesInvalid for an adapter that is not there or does not fit."""
    if named.kind == "openai":
        return ChatJudge(
            engines.chat(named.url, named.model, named.key),
            name=named.name,
            family=named.family or prompts.USUAL,
            votes=named.votes,
            window=named.window or 32768,
            constrain=named.constrain,
            sees=partial(engines.chat_sees, named.url, named.model, named.key)
            if named.sees is None
            else partial(bool, named.sees),
        )
    if named.kind == "engine":
        return EngineJudge(
            engines.at(named.url, named.key),
            named.model or settings.MODEL,
            name=named.name or f"{Path(named.model or settings.MODEL).name} at {naming.host_of(named.url)}",
            kind="engine",
            family=named.family or prompts.USUAL,
            votes=named.votes,
            constrain=named.constrain,
        )
    adapter = None
    if named.kind == "adapter":
        folder = Path(named.adapter) if named.adapter else fitting.FOLDER
        adapter = fitting.adapter(folder)
        if adapter is None:
            raise naming.JudgesInvalid(
                _("There is no adapter in %(folder)s: make one, or name another judge.") % {"folder": folder}
            )
        if not fitting.fits(folder, settings.MODEL):
            told = _("The adapter in %(folder)s belongs to %(model)s, not to MODEL.")
            raise naming.JudgesInvalid(told % {"folder": folder, "model": fitting.base_of(folder)})
    return EngineJudge(
        engines.policy(),
        settings.MODEL,
        name=named.name,
        kind=named.kind,
        family=named.family or (TRAINED if adapter else prompts.USUAL),
        adapter=adapter,
        votes=named.votes,
        constrain=named.constrain,
    )


# Asking


@dataclass(frozen=True)
class Ask:
    """One question to one judge about one turn."""

    who: Judge
    asked: Asked
    seen: Evidence = field(repr=False)


def ask(asks: Sequence[Ask], *, priority: int = PRIORITY) -> list[Said]:
    """Put all questions at once and wait for every answer, each at most JUDGE_DEADLINE_S. Never raises for a judge."""

    async def all_of_them() -> list[Said]:
        try:
            return await answers(asks, priority=priority)
        finally:
            await close(one.who for one in asks)

    return asyncio.run(all_of_them())


async def answers(asks: Sequence[Ask], *, priority: int = PRIORITY) -> list[Said]:
    """As `ask`, within an event loop that keeps its connections."""
    return list(await asyncio.gather(*(answered(one, priority) for one in asks)))


async def answered(one: Ask, priority: int = PRIORITY) -> Said:
    """One answer, or why there is none. Leaving at the deadline aborts the request."""
    start = time.monotonic()
    told: dict[str, Any] = {"version": one.who.version}
    try:
        async with asyncio.timeout(settings.JUDGE_DEADLINE_S):
            reply = await one.who.answer(one.asked, one.seen, priority)
    except TimeoutError:
        failure, unreachable = f"too late: no answer within {settings.JUDGE_DEADLINE_S:g} s", False
    except EngineUnavailable as error:
        failure, unreachable = f"unreachable: {error}", True
    except TalkbackError as error:
        failure, unreachable = f"refused: {error}", False
    else:
        return Said(
            text=reply.text,
            tokens=reply.tokens,
            seconds=time.monotonic() - start,
            prompt_tokens=reply.prompt_tokens,
            cached_tokens=reply.cached_tokens,
            version=reply.version or told["version"],
            probabilities=reply.probabilities,
        )
    return Said(seconds=time.monotonic() - start, failure=failure[:200], unreachable=unreachable, **told)


async def close(judges: Iterable[Judge]) -> None:
    """Close this event loop's connections to these judges."""
    for who in {id(who): who for who in judges}.values():
        await who.aclose()

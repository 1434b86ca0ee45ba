"""A judge reads evidence and answers in text; what all kinds of judges have in common."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from gpu_workers.errors import EngineRefused
from judge.votes import prompts, shown_pictures
from judge.votes.evidence import Evidence
from judge.votes.prompts import Asked
from judge.votes.shown_pictures import Urls

log = logging.getLogger(__name__)

TEMPERATURE = 0.6
"""Votes must differ to be votes, and still mean what they say. The reference's."""

SMALL_WINDOW = 8192
"""Tokens. Evidence has its usual bounds in such a window; a larger one gets more of it, up to WIDEST times as much."""
WIDEST = 4.0
NARROWEST = 1 / 32
"""The least share of the usual bounds that evidence is shortened to before a judge says that it does not fit."""


@dataclass(frozen=True)
class Reply:
    """What a judge wrote, and what it took. Tokens are counted by the engine that served it."""

    text: str
    tokens: int = 0
    prompt_tokens: int = 0
    cached_tokens: int = 0
    """Prompt tokens that an earlier request had computed already."""
    version: str = ""
    """Of the prompt that was asked."""
    probabilities: Mapping[str, float] = field(default_factory=dict)
    """Of each answer, as the judge's own tokens give them; empty where it wrote an answer and no more is known."""


class Judge(Protocol):
    """A judge reads evidence and answers in text."""

    name: str
    kind: str
    family: str
    """Of prompts (judge/votes/prompts)."""
    votes: int | None
    """How many of each question's votes it casts; None: the judges take turns."""
    host: str
    """Where it runs."""
    leaves_machine: bool
    """True when what people wrote goes to another network to be judged."""

    @property
    def reads(self) -> bool:
        """True when one pass gives the probability of each answer: then it casts one vote on each question."""
        ...

    @property
    def version(self) -> str:
        """Of its prompts."""
        ...

    @property
    def versions(self) -> frozenset[str]:
        """Every version that its votes may carry."""
        ...

    async def sees(self) -> bool | None:
        """Whether it is shown pictures; None where its server does not say, and then it is asked in words. May ask its
        server; raises EngineUnavailable."""
        ...

    async def answer(self, asked: Asked, seen: Evidence, priority: int) -> Reply:
        """Raises EngineUnavailable or EngineRefused."""
        ...

    async def aclose(self) -> None: ...


Panel = Judge | Sequence[Judge]
"""One judge, or several that share the votes."""


async def answer_seeing(who: Judge, seen: Evidence, ask: Callable[[Urls | None], Awaitable[Reply]]) -> Reply:
    """Ask with the pictures of the evidence where the judge sees and there are any; without them where it does not, and
    where its server refuses them after all, or they leave no room for words."""
    if not seen.pictures or not await who.sees():
        return await ask(None)
    urls = await asyncio.to_thread(shown_pictures.load, seen.pictures)
    try:
        return await ask(urls)
    except EngineRefused as refused:
        log.warning("%s refused pictures, and is asked without: %s", who.name, refused)
        return await ask(None)


def shares(window: int, family: str) -> Iterator[float]:
    """How much of the evidence's usual bounds to show, most first: halved until the whole prompt fits.

    >>> list(shares(8192, "cases"))[:3], next(shares(32768, "cases")), next(shares(10**6, "cases"))
    ([1.0, 0.5, 0.25], 4.0, 4.0)
    """
    share = min(max(window / SMALL_WINDOW, 1.0), WIDEST) * prompts.family(family).room
    while share >= NARROWEST:
        yield share
        share /= 2


def about_grammar(message: str) -> bool:
    """Whether a refusal is about constrained decoding."""
    return any(word in message.casefold() for word in ("regex", "regular expression", "grammar", "constrained"))


def about_length(message: str) -> bool:
    """Whether a refusal says that the prompt is too long."""
    said = message.casefold()
    return any(
        words in said for words in ("context length", "context_length", "context window", "too long", "maximum context")
    )

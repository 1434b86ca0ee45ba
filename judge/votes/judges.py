"""Who is asked for votes, as the settings say, and how an answer is waited for.

A judge of kind `base` is the policy's own base without adapters, `adapter` the same base with the judge's adapter,
`engine` another local server of SGLang's interface, and `openai` any OpenAI-compatible server.
"""

from __future__ import annotations

import asyncio
import logging
import math
import time
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any, ClassVar, Protocol, TypeVar

from django.conf import settings
from django.utils.translation import gettext as _

from chat.rendering.renderer import Renderer
from core.errors import TalkbackError
from gpu_workers import engines
from gpu_workers.engine.interface import Engine
from gpu_workers.engine.openai_chat import OpenAIChat
from gpu_workers.errors import AdapterInvalid, AdapterMissing, EngineRefused, EngineUnavailable
from gpu_workers.types import Choices, Completion, Sampling
from judge.calibration import vote_floor
from judge.votes import fitting, naming, prompts, shown_pictures
from judge.votes.evidence import Evidence
from judge.votes.naming import Named
from judge.votes.prompts import Asked, Form
from judge.votes.shown_pictures import Urls, as_parts

log = logging.getLogger(__name__)

Answer = TypeVar("Answer")

TEMPERATURE = 0.6
"""Votes must differ to be votes, and still mean what they say. The reference's."""

PRIORITY = 0
"""The engine serves votes when no person waits for a reply."""

AFTERTHOUGHT = -1
"""Votes that decide nothing any more come after those that do."""

TRAINED = "trained"
"""The family of prompts that the judge's own adapter was trained with."""

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

    async def sees(self) -> bool:
        """Whether it is shown pictures. May ask its server; raises EngineUnavailable."""
        ...

    async def answer(self, asked: Asked, seen: Evidence, priority: int) -> Reply:
        """Raises EngineUnavailable or EngineRefused."""
        ...

    async def aclose(self) -> None: ...


Panel = Judge | Sequence[Judge]
"""One judge, or several that share the votes."""


class EngineJudge:
    """A model behind an engine that takes token ids: the policy's own, or another."""

    def __init__(
        self,
        engine: Engine,
        renderer: Renderer | str | Path,
        *,
        name: str = "",
        kind: str = "base",
        family: str = prompts.USUAL,
        adapter: fitting.Adapter | None = None,
        votes: int | None = None,
        constrain: bool = True,
    ) -> None:
        """`renderer` may be a model folder, which is read when the first question is put."""
        self.engine, self._renderer = engine, renderer
        self.name = name or (adapter.name if adapter else f"{settings.MODEL_NAME}@0")
        self.kind, self.family, self.adapter, self.votes = kind, family, adapter, votes
        self.host = naming.host_of(engine.url)
        self.leaves_machine = naming.leaves_machine(engine.url)
        self._constrains = constrain

    @cached_property
    def renderer(self) -> Renderer:
        return self._renderer if isinstance(self._renderer, Renderer) else Renderer.for_model(self._renderer)

    @property
    def version(self) -> str:
        return prompts.version(self.family)

    @property
    def versions(self) -> frozenset[str]:
        return frozenset(prompts.version(self.family, seeing=seeing) for seeing in (False, True))

    async def sees(self) -> bool:
        """True where the model has a place for pictures and its engine takes them. One that is read by the
        probabilities of its answers is asked in words alone."""
        if self.reads or not self.renderer.picture:
            return False
        return (await self.engine.info()).get("has_image_understanding") is True

    @property
    def reads(self) -> bool:
        """True with prompts whose answer begins with the box, where the model's tokens tell the answers apart at their
        first. A model that thinks first, or writes a sentence before its box, has not decided yet when it begins."""
        told = prompts.family(self.family)
        begins = told.score.begins_with_box and told.hint.begins_with_box
        return begins and not self.renderer.thinks and all(self._choices(asked) for asked in prompts.CHOICES)

    def _choices(self, asked: Asked) -> tuple[list[int], list[int]] | None:
        """The tokens that stand before any answer, and the first token of each; None where answers share theirs."""
        spelled = [self.renderer.encode(f"{prompts.LEAD}{one}}}") for one in prompts.CHOICES[asked]]
        lead = self.renderer.encode(prompts.LEAD)
        if any(ids[: len(lead)] != lead for ids in spelled):
            return None
        firsts = [ids[len(lead)] for ids in spelled]
        return (lead, firsts) if len(set(firsts)) == len(firsts) else None

    @property
    def room(self) -> int:
        """Tokens for an answer: a model that thinks first needs far more than the small one, which is done in 80."""
        return settings.JUDGE_MAX_NEW_TOKENS or (80 if self._is_small else 1024)

    @property
    def _is_small(self) -> bool:
        return self.renderer.context_length <= SMALL_WINDOW and not self.renderer.thinks

    async def answer(self, asked: Asked, seen: Evidence, priority: int) -> Reply:
        return await answer_seeing(self, seen, lambda urls: self._answered(asked, seen, priority, urls))

    async def _answered(self, asked: Asked, seen: Evidence, priority: int, urls: Urls | None) -> Reply:
        question = prompts.question(asked, self.family)
        most = question.max_new_tokens or self.room
        prompt_ids, pictures = self._laid_out(asked, seen, most, urls)
        # Who thinks before it speaks cannot be loaded to the answer's grammar from the first token on.
        regex = question.regex if self._constrains and not self.renderer.thinks else ""
        if self.reads:
            reply = await self._read(asked, prompt_ids, priority)
            if asked == "score" or reply.probabilities["1"] <= 0.5:
                return reply
            # It says that there is a hint: now its words, the likeliest ones, since there is one vote.
            worded = await self._written(prompt_ids, Sampling(most, 0.0, regex=regex), priority)
            return replace(
                worded,
                probabilities=reply.probabilities,
                prompt_tokens=reply.prompt_tokens + worded.prompt_tokens,
                cached_tokens=reply.cached_tokens + worded.cached_tokens,
            )
        wanted = Sampling(most, TEMPERATURE, regex=regex)
        reply = await self._written(prompt_ids, wanted, priority, pictures)
        return replace(reply, version=prompts.version(self.family, seeing=urls is not None))

    async def _read(self, asked: Asked, prompt_ids: Sequence[int], priority: int) -> Reply:
        """How likely each answer is, in one pass, and the likeliest one as the model would write it."""
        choices = self._choices(asked)
        assert choices is not None  # or it would not read
        lead, firsts = choices

        async def ask(adapter: str | None) -> Choices:
            return await self.engine.score_choices([*prompt_ids, *lead], firsts, adapter=adapter, priority=priority)

        found = await self._with_adapter(ask)
        most = max(found.logprobs)
        weights = [math.exp(one - most) for one in found.logprobs]
        chances = {name: one / sum(weights) for name, one in zip(prompts.CHOICES[asked], weights, strict=True)}
        best = max(chances, key=lambda name: chances[name])
        text = f"{prompts.LEAD}{best}}}"
        return Reply(text, 0, found.prompt_tokens, found.cached_tokens, self.version, chances)

    async def _written(
        self, prompt_ids: Sequence[int], sampling: Sampling, priority: int, pictures: Sequence[str] = ()
    ) -> Reply:
        try:
            return await self._generated(prompt_ids, sampling, priority, pictures)
        except AdapterMissing:
            raise
        except EngineRefused as refused:
            if not sampling.regex or not about_grammar(str(refused)):
                raise
            log.warning("%s does not constrain decoding, and is asked without: %s", self.host, refused)
            self._constrains = False
            return await self._generated(prompt_ids, replace(sampling, regex=""), priority, pictures)

    def prompt_ids(self, asked: Asked, seen: Evidence, most: int) -> list[int]:
        """The question, with as much evidence as leaves `most` tokens of the window for the answer.

        Raises EngineRefused when not even the shortest evidence does.
        """
        return self._laid_out(asked, seen, most, None)[0]

    def _laid_out(self, asked: Asked, seen: Evidence, most: int, urls: Urls | None) -> tuple[list[int], Sequence[str]]:
        """The same with the pictures of `urls`, one for each of their placeholders."""
        window = self.renderer.context_length
        for share in shares(window, self.family):
            messages = prompts.messages(asked, seen, self.family, share=share, urls=urls)
            ids, pictures = self.renderer.prompt_ids(messages), messages[-1].get("pictures") or ()
            taken = sum(self.renderer.count_picture(one["width"], one["height"]) for one in pictures)
            if len(ids) + taken + most <= window:
                return ids, [urls[one["digest"]] for one in pictures] if urls else ()
        raise EngineRefused(
            f"The judge's question alone takes {len(ids)} tokens, and its window has {window}: take another model."
        )

    async def _generated(
        self, prompt_ids: Sequence[int], sampling: Sampling, priority: int, pictures: Sequence[str]
    ) -> Reply:
        options: dict[str, Any] = {"priority": priority} | ({"pictures": pictures} if pictures else {})

        async def ask(adapter: str | None) -> Completion:
            return await self.engine.generate(prompt_ids, sampling, adapter=adapter, **options)

        said = await self._with_adapter(ask)
        return Reply(said.text, len(said.ids), said.prompt_tokens, said.cached_tokens, self.version)

    async def _with_adapter(self, ask: Callable[[str | None], Awaitable[Answer]]) -> Answer:
        """Ask under the judge's adapter; where the engine does not hold it, once more when it does."""
        name = self.adapter.name if self.adapter else None
        try:
            return await ask(name)
        except AdapterMissing:
            if self.adapter is None:
                raise
            await self._load(self.adapter)
            try:
                return await ask(name)
            except AdapterMissing as error:  # let go of again at once
                raise EngineUnavailable(str(error)) from error

    async def _load(self, adapter: fitting.Adapter) -> None:
        """Have the engine hold the adapter, and let it go of older ones of the judge's. The policy's are left alone."""
        loaded = await self.engine.adapters()
        for name in loaded.keys() - {adapter.name}:
            if fitting.is_ours(name) and Path(loaded[name]).parent == adapter.place.parent:
                with suppress(AdapterMissing):  # another process was quicker
                    await self.engine.unload_adapter(name)
        try:
            await self.engine.load_adapter(adapter.name, str(await asyncio.to_thread(adapter.placed)))
        except AdapterInvalid as error:  # an operator's mistake, and no turn's
            raise EngineUnavailable(f"The engine does not take the judge's adapter: {error}") from error

    async def aclose(self) -> None:
        await self.engine.aclose()


class ChatJudge:
    """A model behind an OpenAI-compatible server. What people wrote goes there as text."""

    ROOM: ClassVar[int] = 1024
    _boxes: ClassVar[set[tuple[str, str]]] = set()
    """Servers and models that refused structured output once, and are asked for a box since."""

    def __init__(
        self,
        server: OpenAIChat,
        *,
        name: str = "",
        family: str = prompts.USUAL,
        votes: int | None = None,
        window: int = 32768,
        constrain: bool = True,
        sees: Callable[[], bool] = lambda: False,
    ) -> None:
        """`window` is in tokens: such a server cannot be asked for it. `sees` tells whether it takes pictures, and may
        ask it."""
        self.server = server
        self.host = naming.host_of(server.url)
        self.name = (name or f"{server.model} at {self.host}")[:120]
        self.kind, self.family, self.votes, self.window = "openai", family, votes, window
        self.leaves_machine = naming.leaves_machine(server.url)
        self._constrains, self._sees = constrain, sees

    @property
    def reads(self) -> bool:
        return False

    async def sees(self) -> bool:
        return await asyncio.to_thread(self._sees)

    @property
    def version(self) -> str:
        return prompts.version(self.family, self._form)

    @property
    def versions(self) -> frozenset[str]:
        forms: tuple[Form, ...] = ("boxed", "json")
        return frozenset(
            prompts.version(self.family, form, seeing=seeing) for form in forms for seeing in (False, True)
        )

    @property
    def _form(self) -> Form:
        """How it is asked to answer: in JSON of a schema where it can."""
        return "json" if self._constrains and (self.server.url, self.server.model) not in self._boxes else "boxed"

    async def answer(self, asked: Asked, seen: Evidence, priority: int) -> Reply:
        return await answer_seeing(self, seen, lambda urls: self._answered(asked, seen, urls))

    async def _answered(self, asked: Asked, seen: Evidence, urls: Urls | None) -> Reply:
        form = self._form
        try:
            return await self._asked(asked, seen, form, urls)
        except EngineRefused as refused:
            if form == "boxed" or about_length(str(refused)):
                raise
            reply = await self._asked(asked, seen, "boxed", urls)  # and if that is refused too, it was not the schema
            log.warning("%s has no structured output, and is asked for a box: %s", self.name, refused)
            self._boxes.add((self.server.url, self.server.model))
            return reply

    async def _asked(self, asked: Asked, seen: Evidence, form: Form, urls: Urls | None) -> Reply:
        question = prompts.question(asked, self.family)
        most = question.max_new_tokens or settings.JUDGE_MAX_NEW_TOKENS or self.ROOM
        sampling = Sampling(
            max_new_tokens=most,
            temperature=TEMPERATURE,
            json_schema=prompts.schema(asked) if form == "json" else "",
        )
        refusal: EngineRefused | None = None
        for share in shares(self.window, self.family):
            messages = prompts.messages(asked, seen, self.family, share=share, form=form, urls=urls)
            try:
                said = await self.server.chat([as_parts(one, urls or {}) for one in messages], sampling)
            except EngineRefused as refused:
                if not about_length(str(refused)):
                    raise
                refusal = refused
                continue
            version = prompts.version(self.family, form, seeing=urls is not None)
            return Reply(said.text, said.completion_tokens, said.prompt_tokens, said.cached_tokens, version)
        raise refusal or EngineRefused("The question does not fit.")

    async def aclose(self) -> None:
        await self.server.aclose()


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


# As the settings say


def panel() -> tuple[Judge, ...]:
    """Every judge that votes in this installation, in their order. Raises JudgesInvalid."""
    return tuple(made(named) for named in naming.named())


def roster() -> tuple[Judge, ...]:
    """The same, to be shown: name, kind, family, version, host, and whether text leaves the machine for it."""
    return panel()


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

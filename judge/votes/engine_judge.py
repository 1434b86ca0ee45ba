"""A judge behind an engine that takes token ids: the policy's own base, with the judge's adapter or without, or another
local server of SGLang's interface.
"""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar

from django.conf import settings

from chat.rendering.renderer import Renderer
from gpu_workers.engine.interface import Engine
from gpu_workers.errors import AdapterInvalid, AdapterMissing, EngineRefused, EngineUnavailable
from gpu_workers.types import Choices, Completion, Sampling
from judge.votes import fitting, naming, prompts
from judge.votes.evidence import Evidence
from judge.votes.judge import SMALL_WINDOW, TEMPERATURE, Reply, about_grammar, answer_seeing, shares
from judge.votes.prompts import Asked
from judge.votes.shown_pictures import Urls

log = logging.getLogger(__name__)

Answer = TypeVar("Answer")


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
        try:
            return (await self.engine.info()).get("has_image_understanding") is True
        except EngineRefused:  # it says nothing of itself: it is asked in words
            return False

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

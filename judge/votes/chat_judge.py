"""A judge behind an OpenAI-compatible server."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import ClassVar

from django.conf import settings

from gpu_workers.engine.openai_chat import OpenAIChat
from gpu_workers.errors import EngineRefused
from gpu_workers.types import Sampling
from judge.votes import naming, prompts
from judge.votes.evidence import Evidence
from judge.votes.judge import TEMPERATURE, Reply, about_length, answer_seeing, shares
from judge.votes.prompts import Asked, Form
from judge.votes.shown_pictures import Urls, as_parts

log = logging.getLogger(__name__)


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
        sees: Callable[[], bool | None] = lambda: False,
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

    async def sees(self) -> bool | None:
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

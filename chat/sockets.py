"""Keep a page's socket open as long as its person may see the page."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from contextlib import suppress
from importlib import import_module
from typing import Any

from channels.generic.websocket import AsyncWebsocketConsumer
from django.conf import settings
from django.contrib.auth import get_user
from django.contrib.auth.models import AnonymousUser, User
from django.http import HttpRequest
from django.utils import translation

from accounts.languages import language_of
from core import threads

SIGNED_OUT = 4401
"""Close code: the session that opened the socket is over. static/chats/reading.js says so, and connects no more."""

NOT_YOURS = 4403
"""Close code: what the page shows is gone, or not for this person to see. Likewise."""


def sockets_of(user_pk: Any) -> str:
    """The channel layer's name for every socket that this person opened."""
    return f"user.{user_pk}"


class PageSocket(AsyncWebsocketConsumer, ABC):
    """Push fragments to one page. Rights are read as it opens, before each push, and when they may have changed.

    A socket to which there is no right is opened and closed with a code: of one that is refused a browser tells its
    page no reason, and the page would try again for ever.
    """

    is_closed = False

    @abstractmethod
    def may_see(self, user: User) -> bool:
        """Whether what the page shows is for this person to see. Asks the database."""

    def hears(self) -> Iterable[str]:
        """The groups of the channel layer that speak of what the page shows."""
        return ()

    async def opened(self) -> None:
        """Begin to show. Called once, of a socket that may stay."""

    async def connect(self) -> None:
        if (user := self.scope["user"]).is_authenticated:
            await self.join(sockets_of(user.pk))  # first: a change between the look and this would be missed
        self.scope["user"], code = await threads.call(self.look)
        if code is None:
            translation.activate(await threads.call(self.language))  # for all that this socket's tasks draw
            for group in self.hears():
                await self.join(group)
        await self.accept()
        if code is None:
            await self.opened()
        else:
            await self.close(code)

    async def join(self, group: str) -> None:
        """Hear what is said to this group, until the socket is closed."""
        await self.channel_layer.group_add(group, self.channel_name)
        self.groups.append(group)

    async def disconnect(self, code: int) -> None:
        self.is_closed = True

    async def rights_changed(self, event: dict[str, Any]) -> None:
        await self.may_stay()

    async def send(self, text_data: str | None = None, bytes_data: bytes | None = None, close: bool = False) -> None:
        if await self.may_stay():
            with suppress(OSError):  # the reader has just left: `disconnect` follows
                await super().send(text_data, bytes_data, close)

    async def close(self, code: int | None = None, reason: str | None = None) -> None:
        if not self.is_closed:
            self.is_closed = True
            await super().close(code, reason)

    async def may_stay(self) -> bool:
        """Look the rights up, and close where they are gone."""
        if not self.is_closed:
            self.scope["user"], code = await threads.call(self.look)
            if code is not None:
                await self.close(code)
        return not self.is_closed

    def look(self) -> tuple[User | AnonymousUser, int | None]:
        """Who this socket's session is of now, and the code that it closes with; None: it may stay."""
        request = HttpRequest()
        request.session = store().SessionStore(self.scope["session"].session_key)  # nothing that was read before
        user = get_user(request)
        if not isinstance(user, User) or user.pk != self.scope["user"].pk:
            return AnonymousUser(), SIGNED_OUT
        return user, None if self.may_see(user) else NOT_YOURS

    def language(self) -> str:
        """What this page is drawn in: its person's choice, else what their browser asked for as it opened this."""
        asked = dict(self.scope["headers"]).get(b"accept-language", b"")
        return language_of(self.scope["user"], asked.decode("latin-1"))


def store() -> Any:
    """Where sessions are kept."""
    return import_module(settings.SESSION_ENGINE)

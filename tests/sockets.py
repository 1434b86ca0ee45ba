"""A page's socket, through the application's front door: origin, cookie, path and all."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from asgiref.sync import sync_to_async
from asgiref.testing import ApplicationCommunicator
from django.conf import settings
from django.test import Client


class Tab:
    """One open socket. `person`: whose browser; None: no person is signed in there. `browser`: one that is in use."""

    def __init__(
        self,
        path: str,
        person: Any = None,
        *,
        browser: Client | None = None,
        origin: str | None = "http://localhost",
        host: str = "localhost",
        scheme: str = "ws",
        more: Sequence[tuple[bytes, bytes]] = (),
    ) -> None:
        self.path, self.person, self.browser = path, person, browser or Client()
        self.origin, self.host, self.scheme, self.more = origin, host, scheme, more

    async def __aenter__(self) -> Tab:
        from webapp.asgi import application

        if self.person is not None and self.person.is_authenticated:
            await sync_to_async(self.browser.force_login)(self.person)
        cookie = self.browser.cookies.get(settings.SESSION_COOKIE_NAME)
        headers = [(b"host", self.host.encode()), *self.more]
        headers += [(b"origin", self.origin.encode())] if self.origin is not None else []
        headers += [(b"cookie", f"{cookie.key}={cookie.value}".encode())] if cookie is not None else []
        path, _, query = self.path.partition("?")
        scope = {
            "type": "websocket",
            "path": path,
            "query_string": query.encode(),
            "scheme": self.scheme,
            "headers": headers,
        }
        self.socket = ApplicationCommunicator(application, scope)
        await self.socket.send_input({"type": "websocket.connect"})
        self.answer = await self.socket.receive_output(10)
        return self

    async def __aexit__(self, *error: object) -> None:
        await self.socket.send_input({"type": "websocket.disconnect", "code": 1001})
        await self.socket.wait(10)

    @property
    def is_open(self) -> bool:
        return self.answer["type"] == "websocket.accept"

    async def hears(self) -> str:
        """The next fragment."""
        return (await self.socket.receive_output(10))["text"]

    async def sees(self, words: str) -> str:
        """The first fragment that holds these words; those before it are dropped."""
        while True:
            if words in (fragment := await self.hears()):
                return fragment

    async def ends(self) -> int:
        """The code that the server closes it with; fragments before that are dropped."""
        return await self.ends_without("\0")

    async def ends_without(self, words: str) -> int:
        """Likewise, when none of those fragments holds these words."""
        while (said := await self.socket.receive_output(10))["type"] == "websocket.send":
            assert words not in said["text"]
        assert said["type"] == "websocket.close", said
        return int(said["code"])

    async def is_silent(self) -> bool:
        return await self.socket.receive_nothing(0.3)

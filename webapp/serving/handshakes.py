"""Refuse WebSockets but those that a page of ours opens, under a name of ours, at a path that is there."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from io import BytesIO
from urllib.parse import urlsplit

from django.conf import settings
from django.core.exceptions import DisallowedHost
from django.core.handlers.asgi import ASGIRequest
from django.http import HttpRequest
from django.utils.http import is_same_domain

from webapp.serving.handler import Receive, Scope, Send

log = logging.getLogger(__name__)

Application = Callable[[Scope, Receive, Send], Awaitable[None]]

PORTS = {"http": 80, "https": 443}


class OwnPages:
    """Refuses every handshake of another origin's page: the browser would send our cookie along.

    Nothing less than scheme, host and port makes an origin: another program of the same machine has a page of its own
    on another port. As for forms, CSRF_TRUSTED_ORIGINS names further ones.
    """

    def __init__(self, application: Application) -> None:
        self.application = application

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        scheme = "https" if scope.get("scheme") == "wss" else "http"
        request = ASGIRequest(scope | {"method": "GET", "scheme": scheme}, BytesIO())
        try:
            own = f"{request.scheme}://{request.get_host()}"
        except DisallowedHost as error:
            log.warning("a WebSocket was refused: %s", error)
            await refuse(scope, receive, send)
            return
        if is_own(request, own):
            await self.application(scope, receive, send)
            return
        log.warning(
            "a WebSocket of %r was refused: this is %s. If people come by that address, a proxy before this server has "
            "to pass Host and X-Forwarded-Proto, and be in FORWARDED_ALLOW_IPS; or name it in CSRF_TRUSTED_ORIGINS.",
            request.headers.get("Origin", "no page")[:200],
            own,
        )
        await refuse(scope, receive, send)


def is_own(request: HttpRequest, own: str) -> bool:
    """Whether the origin of the page that asks is `own`, or one of CSRF_TRUSTED_ORIGINS."""
    asks = parted(request.headers.get("Origin", ""))
    return asks is not None and any(
        ours is not None and asks[0] == ours[0] and asks[2] == ours[2] and is_same_domain(asks[1], ours[1])
        for ours in map(parted, (own, *settings.CSRF_TRUSTED_ORIGINS))
    )


def parted(origin: str) -> tuple[str, str, int] | None:
    """Scheme, host and port of an origin; of a pattern as Django takes them, with a host that begins with a dot.

    >>> parted("https://Talk.example.org"), parted("http://[::1]:8000"), parted("https://*.example.org:8443")
    (('https', 'talk.example.org', 443), ('http', '::1', 8000), ('https', '.example.org', 8443))
    >>> parted("null"), parted("http://a:b")
    (None, None)
    """
    try:
        parts = urlsplit(origin.replace("://*.", "://.", 1))
        host, port = parts.hostname, parts.port or PORTS.get(parts.scheme)
    except ValueError:
        return None
    return (parts.scheme, host, port) if host and port else None


async def refuse(scope: Scope, receive: Receive, send: Send) -> None:
    """The answer to a handshake that is not taken, and at a path that leads nowhere: 403."""
    await receive()  # websocket.connect
    await send({"type": "websocket.close"})

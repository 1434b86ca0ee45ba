"""Serve HTTP and WebSocket from one ASGI application."""

import gc
import os
import sys

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "webapp.settings")

from django.core.asgi import get_asgi_application

django = get_asgi_application()

from typing import Any

from django.conf import settings
from django.core.exceptions import ImproperlyConfigured

if settings.SECRET_KEY == settings.FOR_BUILDS:
    raise ImproperlyConfigured(
        "Nothing is served without a SECRET_KEY of its own: make up writes one to DATA_DIR/env; elsewhere set "
        'SECRET_KEY to what python -c "import secrets; print(secrets.token_urlsafe(50))" prints, and keep it.'
    )

from channels.auth import AuthMiddlewareStack
from channels.routing import ProtocolTypeRouter, URLRouter

from webapp.serving.handler import ApiHandler, Receive, Scope, Send
from webapp.serving.handshakes import OwnPages
from webapp.serving.http10 import unchunked
from webapp.serving.paths import is_under, tidy
from webapp.urls import websocket_urlpatterns

if settings.DATABASE_THREADS and "timeout" in settings.DATABASES["default"].get("OPTIONS", {}):
    # A worker waits longer for its turn at SQLite than a person does, who is told and may send it again.
    settings.DATABASES["default"]["OPTIONS"]["timeout"] = settings.SQLITE_WEB_PATIENCE_S

api = ApiHandler()


async def http(scope: Scope, receive: Receive, send: Send) -> None:
    """The API by the short way; its page, as all pages, by the ordinary one."""
    scope = tidy(scope)
    path: str = scope["path"]
    handler: Any = api if is_under(path) and not path.startswith("/v1/docs") else django
    await handler(scope, receive, unchunked(send) if scope.get("http_version") == "1.0" else send)


application = ProtocolTypeRouter(
    {"http": http, "websocket": OwnPages(AuthMiddlewareStack(URLRouter(websocket_urlpatterns)))}
)

sys.setswitchinterval(0.0005)
"""Seconds after which a thread that computes lets another one compute: the event loop must not wait 5 ms for each."""

gc.freeze()
"""What was imported stays: the collector need not look at it again and again while replies are on their way."""

gc.set_threshold(5000, 10, 10)
"""A request with a long history makes thousands of objects at once, and nearly none of them in a circle: looking at
them after each 700, as Python would, took one part in twenty of the time."""

"""Keys decide which request may ask for which route, by SGLang's rules."""

from __future__ import annotations

import hmac
from typing import Any

from starlette.responses import JSONResponse
from starlette.types import Receive, Scope, Send

OPEN = ("/health", "/ready", "/metrics")  # answered without a key, as probes have none
ADMIN = frozenset(
    {
        "/load_lora_adapter",
        "/unload_lora_adapter",
        "/update_weights_from_disk",
        "/pause_generation",
        "/continue_generation",
        "/flush_cache",
        "/abort_request",
    }
)


class Keys:
    """Guard an ASGI application with bearer keys: the plain key opens no admin route, and the admin key no other."""

    def __init__(self, app: Any, api_key: str, admin_api_key: str) -> None:
        self._app, self._api_key, self._admin_key = app, api_key, admin_api_key

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and not self._allows(scope):
            await JSONResponse({"error": "Unauthorized"}, 401)(scope, receive, send)
        else:
            await self._app(scope, receive, send)

    def _allows(self, scope: Scope) -> bool:
        path = scope["path"]
        if path.startswith(OPEN):
            return True
        key = (self._admin_key or self._api_key) if path in ADMIN else self._api_key
        given = dict(scope["headers"]).get(b"authorization", b"")
        return not key or hmac.compare_digest(given, b"Bearer " + key.encode())

"""Answer HTTP/1.0, which knows no chunks (RFC 9112, 6.1): without a length, the body ends with the connection.

uvicorn's quick protocol sends chunks to everybody whose answer has no length, streams above all.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any

from uvicorn.protocols.http.httptools_impl import RequestResponseCycle

from webapp.serving.handler import Send


def unchunked(send: Send) -> Send:
    """`send` for a request of HTTP/1.0. Of servers that keep to that themselves it is left as it is."""
    cycle: Any = getattr(send, "__self__", None)
    if not isinstance(cycle, RequestResponseCycle):
        return send

    async def plainly(message: Mapping[str, Any]) -> None:
        if message["type"] == "http.response.start":
            if not any(name.lower() == b"content-length" for name, _ in message.get("headers", ())):
                cycle.chunked_encoding, cycle.expected_content_length = False, sys.maxsize
        elif cycle.expected_content_length > sys.maxsize // 2 and not message.get("more_body", False):
            cycle.expected_content_length = len(message.get("body", b""))  # all that is left
        await send(dict(message))

    return plainly

"""Send a test request through the API, as a client would."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator
from contextlib import aclosing, suppress
from dataclasses import dataclass
from time import monotonic
from typing import Any

from django.conf import settings
from django.utils.translation import gettext as _

from chat.api.access import issue_pass
from chat.api_keys import ApiKey
from webapp.console.light import ADVICE, TEST_SESSION

PATIENCE_S = 20.0
"""How long the first token is waited for."""

PATH = "/v1/chat/completions"


@dataclass(frozen=True)
class Trial:
    """What came of it."""

    first_token_s: float | None = None
    model: str = ""
    """Who answered; empty when no model did."""
    error: str = ""
    advice: str = ""


def failed(why: str) -> Trial:
    """One in which the engine said nothing."""
    return Trial(error=why, advice=str(ADVICE["engine_unavailable"]))


async def try_out(key: ApiKey) -> Trial:
    """Ask for one token with this key. It is a side turn in a session of its own: it can never teach."""
    body = {"messages": [{"role": "user", "content": "Say hello."}], "max_tokens": 1, "stream": True}
    headers = {
        "authorization": f"Bearer {issue_pass(key)}",
        "content-type": "application/json",
        "x-session-id": TEST_SESSION,
        "x-turn-type": "side",
        "x-session-done": "true",
    }
    began, model = monotonic(), ""
    first_token_s: float | None = None
    try:
        async with asyncio.timeout(PATIENCE_S), aclosing(sent(PATH, headers, json.dumps(body).encode())) as events:
            async for event in events:
                if failure := event.get("error"):
                    return Trial(error=str(failure["message"]), advice=str(ADVICE.get(str(failure["code"]), "")))
                model = event.get("model", model)
                if first_token_s is None and any(map(speaks, event.get("choices", ()))):
                    first_token_s = monotonic() - began
    except TimeoutError:
        return failed(_("No token came within %(n)s s.") % {"n": f"{PATIENCE_S:.0f}"})
    if first_token_s is None:
        return failed(_("The reply ended before its first token."))
    return Trial(first_token_s, model or settings.MODEL_NAME)


def speaks(choice: dict[str, Any]) -> bool:
    """Whether this piece of a stream has a token in it, or ends a reply that had none to show."""
    delta = choice.get("delta", {})
    return bool(delta.get("content") or delta.get("reasoning_content") or choice.get("finish_reason"))


async def sent(path: str, headers: dict[str, str], body: bytes) -> AsyncGenerator[dict[str, Any], None]:
    """POST to our own application and read its server-sent events; an answer that is no stream is one event.

    Closing this leaves, as a reader leaves.
    """
    from webapp.asgi import application  # which holds the page that asks for this

    coming: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
    asked = [{"type": "http.request", "body": body, "more_body": False}]
    left = asyncio.Event()

    async def receive() -> dict[str, Any]:
        if asked:
            return asked.pop()
        await left.wait()
        return {"type": "http.disconnect"}

    scope = {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": "POST",
        "scheme": "http",
        "path": path,
        "raw_path": path.encode(),
        "query_string": b"",
        "root_path": "",
        "headers": [(b"host", b"localhost"), *((name.encode(), value.encode()) for name, value in headers.items())],
        "client": ("127.0.0.1", 0),
        "server": ("localhost", settings.PORT),
    }
    answering = asyncio.create_task(application(scope, receive, coming.put))
    answering.add_done_callback(lambda _: coming.put_nowait({"type": "http.response.body"}))  # however it ended
    try:
        text = ""
        while True:
            message = await coming.get()
            if message["type"] != "http.response.body":
                continue
            text += message.get("body", b"").decode(errors="replace")
            is_last = not message.get("more_body", False)
            *whole, text = text.split("\n\n")
            for event in [*whole, text] if is_last else whole:
                with suppress(ValueError):  # [DONE]
                    yield json.loads(event.strip().removeprefix("data:"))
            if is_last:
                return
    finally:
        left.set()
        await asyncio.wait([answering], timeout=PATIENCE_S)
        answering.cancel()

"""Speak HTTP/1.1 with a client: parse its requests, write what answers them."""

from __future__ import annotations

import asyncio
import hmac
import json
from typing import Any, cast
from urllib.parse import urlsplit

import httptools

from benchmarks.scripted.engine import Engine
from benchmarks.scripted.errors import Refused
from benchmarks.scripted.generation import Generation
from benchmarks.scripted.requests import check
from benchmarks.scripted.routes import Routes

OPEN = ("/health", "/ready", "/metrics", "/calls", "/script")  # answered without a key
ADMIN = frozenset(
    {
        *("/load_lora_adapter", "/unload_lora_adapter", "/update_weights_from_disk", "/pause_generation"),
        *("/continue_generation", "/flush_cache", "/abort_request"),
    }
)
REASONS = {200: "OK", 400: "Bad Request", 401: "Unauthorized", 404: "Not Found", 503: "Service Unavailable"}


class Connection(asyncio.Protocol):
    """HTTP/1.1, one request after another."""

    def __init__(self, engine: Engine) -> None:
        self.engine, self._routes = engine, Routes(engine)
        self.is_full = False
        """The reader does not take what is sent."""
        self._transport: asyncio.Transport
        self._parser = httptools.HttpRequestParser(self)
        self._reply: Generation | None = None
        self._clear()

    def _clear(self) -> None:
        self._target, self._authorization = b"", b""
        self._body: list[bytes] = []

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def connection_lost(self, error: Exception | None) -> None:
        if self._reply is not None:
            reply, self._reply = self._reply, None
            reply.abort(lost=True)

    def pause_writing(self) -> None:
        self.is_full = True

    def resume_writing(self) -> None:
        self.is_full = False
        if self._reply is not None:
            self._reply.flows()

    def data_received(self, data: bytes) -> None:
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserError:
            self._transport.close()

    def on_url(self, url: bytes) -> None:
        self._target += url

    def on_header(self, name: bytes, value: bytes) -> None:
        if name.lower() == b"authorization":
            self._authorization = value

    def on_body(self, body: bytes) -> None:
        self._body.append(body)

    def on_message_complete(self) -> None:
        path = urlsplit(self._target.decode("latin-1")).path
        authorization, raw = self._authorization, b"".join(self._body)
        self._clear()
        if not self._allows(path, authorization):
            self.whole(401, json.dumps({"error": "Unauthorized"}))
            return
        try:
            body = json.loads(raw) if raw else {}
        except ValueError as error:
            self.whole(400, json.dumps({"object": "error", "message": f"the body is not JSON ({error})", "code": 400}))
            return
        if path == "/generate":
            self._generate(body)
            return
        status, content = self._routes.answer(self._parser.get_method().decode(), path, body)
        self.whole(status, content if isinstance(content, str) else json.dumps(content))

    def _allows(self, path: str, given: bytes) -> bool:
        if path.startswith(OPEN):
            return True
        engine = self.engine
        key = (engine.admin_key or engine.api_key) if path in ADMIN else engine.api_key
        return not key or hmac.compare_digest(given, b"Bearer " + key.encode())

    def _generate(self, body: Any) -> None:
        streams = isinstance(body, dict) and bool(body.get("stream"))
        try:
            if not isinstance(body, dict):
                raise Refused("the body must be a JSON object")
            if "input_ids" not in body and isinstance(body.get("text"), str):
                body["input_ids"] = self.engine.tokenizer.encode(body["text"]).ids
            check(self.engine, body)
            if (body.get("sampling_params") or {}).get("max_new_tokens") == 0:
                self.whole(200, json.dumps(self.engine.score(body)))
                return
            reply = Generation(self.engine, self, body)
        except Refused as refused:
            if streams:
                error = {"message": str(refused), "type": "invalid_request_error", "code": 400, "retryable": False}
                self.begin_stream()
                self.stream(json.dumps({"error": error}), last=True)
            else:
                self.whole(400, json.dumps({"error": {"message": str(refused)}}))
            return
        self._reply = reply
        reply.start()

    def whole(self, status: int, content: str) -> None:
        """The whole response; the connection then waits for the next request."""
        self._reply = None
        data = content.encode()
        kind = "application/json" if content[:1] in ("{", "[") else "text/plain"
        head = f"HTTP/1.1 {status} {REASONS.get(status, 'Error')}\r\ncontent-type: {kind}\r\n"
        self._transport.write(f"{head}content-length: {len(data)}\r\n\r\n".encode() + data)

    def begin_stream(self) -> None:
        self._transport.write(
            b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream; charset=utf-8\r\n"
            b"cache-control: no-cache\r\ntransfer-encoding: chunked\r\n\r\n"
        )

    def stream(self, event: str, last: bool = False) -> None:
        data = f"data: {event}\n\n".encode()
        if last:
            self._reply = None
            data += b"data: [DONE]\n\n"
        self._transport.write(b"%x\r\n%b\r\n%b" % (len(data), data, b"0\r\n\r\n" if last else b""))

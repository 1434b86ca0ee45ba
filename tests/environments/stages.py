"""Who stands at the other end of a world: a client that answers as told, and a chat server of any make."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from environments.client import Completion


@dataclass
class FakeTalkback:
    """Answers in order with what it was told to, and remembers what it was asked. A reply is a text, a text with its
    finish reason, or a list of calls (name, arguments)."""

    replies: list[str | tuple[str, str] | list[tuple[str, Mapping[str, str]]]]
    asked: list[dict[str, Any]] = field(default_factory=list)
    given: list[tuple[str, str | None]] = field(default_factory=list)

    async def complete(self, messages: Sequence[Mapping[str, Any]], **rest: Any) -> Completion:
        number = len(self.asked)
        self.asked.append({"messages": [dict(message) for message in messages], **rest})
        told = self.replies.pop(0) if self.replies else "You are welcome"
        calls: tuple[dict[str, Any], ...] = ()
        text, reason = told if isinstance(told, tuple) else (told, "stop")
        if isinstance(text, list):
            calls = tuple(
                {
                    "id": f"call-{number}-{at}",
                    "type": "function",
                    "function": {"name": name, "arguments": json.dumps(of)},
                }
                for at, (name, of) in enumerate(text)
            )
            text, reason = "", "tool_calls"
        return Completion(f"c{number}", text, reason, "talkback@1", 10 * (number + 1), 5, calls)

    async def give(
        self,
        completion_id: str,
        *,
        rating: str | None = None,
        guidance: str | None = None,
        correction: str | None = None,
    ) -> None:
        self.given.append((completion_id, rating or correction))


@dataclass
class ChatServer:
    """What a served model was asked, and what it says next: a text, or a status with headers and a body."""

    says: list[str | tuple[int, dict[str, str], str]]
    url: str = ""
    asked: list[dict[str, Any]] = field(default_factory=list)
    keys: list[str | None] = field(default_factory=list)


@contextmanager
def chat_server(*says: str | tuple[int, dict[str, str], str]) -> Iterator[ChatServer]:
    """A real HTTP server on a free port that speaks OpenAI's chat completions."""
    told = ChatServer(list(says))

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            told.asked.append(
                {"path": self.path, **json.loads(self.rfile.read(int(self.headers["Content-Length"])).decode())}
            )
            told.keys.append(self.headers.get("Authorization"))
            said = told.says.pop(0) if told.says else "Hm."
            status, headers, body = (
                said
                if isinstance(said, tuple)
                else (200, {}, json.dumps({"choices": [{"message": {"role": "assistant", "content": said}}]}))
            )
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(body.encode())))
            self.end_headers()
            self.wfile.write(body.encode())

        def log_message(self, *arguments: object) -> None:
            """Tests are quiet."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    told.url = f"http://127.0.0.1:{server.server_port}/v1"
    thread = threading.Thread(target=server.serve_forever, args=(0.02,))
    thread.start()
    try:
        yield told
    finally:
        server.shutdown()
        thread.join()
        server.server_close()

"""An OpenAI-compatible server that remembers what it was asked and answers as it is told."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest


class ChatServer:
    """`asked` holds (path, key, body) of each question; `pages` what stands at other addresses, as JSON."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, str | None, dict[str, Any]]] = []
        self.answer = lambda body: (200, r"They object. \boxed{-1}")
        self.pages: dict[str, Any] = {}
        self.looked_at: list[str] = []
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                outer.asked.append((self.path, self.headers["Authorization"], body))
                status, text = outer.answer(body)
                choice = {"message": {"role": "assistant", "content": text}, "finish_reason": "stop"}
                usage = {
                    "prompt_tokens": 90,
                    "completion_tokens": 5,
                    "prompt_tokens_details": {"cached_tokens": 64},
                }
                self.say(
                    status, {"choices": [choice], "usage": usage} if status == 200 else {"error": {"message": text}}
                )

            def do_GET(self) -> None:
                outer.looked_at.append(self.path)
                self.say(200 if self.path in outer.pages else 404, outer.pages.get(self.path))

            def say(self, status: int, answer: Any) -> None:
                content = json.dumps(answer).encode()
                self.send_response(status)
                self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)

            def log_message(self, *args: Any) -> None:
                pass

        self.http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.http.server_port}"
        threading.Thread(target=self.http.serve_forever, daemon=True).start()


@pytest.fixture
def server() -> Iterator[ChatServer]:
    server = ChatServer()
    yield server
    server.http.shutdown()
    server.http.server_close()

"""Answers of an engine, as they come over the wire."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import asynccontextmanager
from typing import Any

import httpx

from gpu_workers.engine.engine_client import EngineClient
from gpu_workers.engine.openai_chat import OpenAIChat


class Scripted(EngineClient):
    """The client, with a function where the network would be. Events arrive one by one, or all `at_once`."""

    def __init__(self, answer: Callable[[httpx.Request], httpx.Response], *, at_once: bool = False) -> None:
        super().__init__("http://engine", api_key="plain", admin_key="admin")
        self.answer, self.at_once = answer, at_once

    async def _asked(self, method, path, headers, body=None):
        response = self.answer(httpx.Request(method, self.url + path, headers=headers, content=body))
        return response.status_code, response.content

    @asynccontextmanager
    async def _streamed(self, path, headers, body):
        status, content = await self._asked("POST", path, headers, body)

        async def arrivals():
            for part in [content] if self.at_once else content.splitlines(keepends=True):
                yield part

        yield status, arrivals()


def meta(total: int, finish: str | None = None, logprobs: list[list[Any]] | None = None) -> dict[str, Any]:
    return {
        "finish_reason": {"type": finish} if finish else None,
        "prompt_tokens": 2,
        "completion_tokens": total,
        "weight_version": "v1",
        "output_token_logprobs": logprobs or [],
    }


def events(*chunks: dict[str, Any]) -> httpx.Response:
    lines = [f"data: {json.dumps(chunk)}\n\n" for chunk in chunks]
    return httpx.Response(200, text="".join(lines) + "data: [DONE]\n\n")


def entries(*ids: int) -> list[list[Any]]:
    return [[-float(i), i, None] for i in ids]


CUMULATIVE = [
    {"text": "a", "output_ids": [1], "meta_info": meta(1, None, entries(1))},
    {"text": "ab", "output_ids": [1, 2], "meta_info": meta(2, None, entries(1, 2))},
    {"text": "abc", "output_ids": [1, 2, 3], "meta_info": meta(3, "stop", entries(1, 2, 3))},
]
INCREMENTAL = [
    {"text": "a", "output_ids": [1], "meta_info": meta(1, None, entries(1))},
    {"text": "b", "output_ids": [2], "meta_info": meta(2, None, entries(2))},
    {"text": "c", "output_ids": [3], "meta_info": meta(3, "stop", entries(3))},
]


def _scripted_chat(answer: Callable[[httpx.Request], httpx.Response]) -> OpenAIChat:
    class Chat(OpenAIChat):
        def _client(self) -> httpx.AsyncClient:
            return httpx.AsyncClient(transport=httpx.MockTransport(answer))

    return Chat("http://judge", model="big", api_key="key")

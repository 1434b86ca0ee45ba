"""The chat client asks a judge or teacher behind any OpenAI-compatible server: messages in, text out, no token ids."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import httpx

from gpu_workers.engine.connections import Connections
from gpu_workers.errors import EngineRefused, EngineUnavailable
from gpu_workers.types import Sampling, storable


@dataclass(frozen=True)
class Answer:
    """One reply of a chat server. Tokens are the server's own count, 0 where it gives none."""

    text: str
    finish_reason: str  # stop | length | as the server says
    completion_tokens: int = 0
    prompt_tokens: int = 0
    cached_tokens: int = 0


class OpenAIChat:
    """Ask `/chat/completions` of one server and one model.

    Raises EngineUnavailable when no server answers in time (or 408, 429, 5xx), EngineRefused when it says no.
    """

    def __init__(self, url: str, *, model: str, api_key: str = "", timeout_s: float = 120.0) -> None:
        """`url` is the base that ends in /v1; it is added where it is missing."""
        base = url.rstrip("/")
        self.url = base if base.endswith("/v1") else f"{base}/v1"
        self.model = model
        self._headers = {"Authorization": f"Bearer {api_key}"} if api_key else {}
        timeout = httpx.Timeout(timeout_s, connect=5.0)
        self._connections = Connections(lambda: httpx.AsyncClient(timeout=timeout), close=httpx.AsyncClient.aclose)

    async def chat(
        self, messages: Sequence[Mapping[str, Any]], sampling: Sampling, *, seed: int | None = None
    ) -> Answer:
        """One reply to `messages`. Only what every such server understands is sent; but where `sampling` has a JSON
        schema, structured output is asked for, which a server may refuse."""
        body: dict[str, Any] = {
            "model": self.model,
            "messages": [dict(message) for message in messages],
            "max_tokens": sampling.max_new_tokens,
            "temperature": sampling.temperature,
            "top_p": sampling.top_p,
        }
        if sampling.stop:
            body["stop"] = list(sampling.stop)
        if sampling.json_schema:
            schema = {"name": "answer", "strict": True, "schema": json.loads(sampling.json_schema)}
            body["response_format"] = {"type": "json_schema", "json_schema": schema}
        if (seed := sampling.seed if seed is None else seed) is not None:
            body["seed"] = seed
        try:
            response = await self._client().post(f"{self.url}/chat/completions", json=body, headers=self._headers)
        except httpx.HTTPError as error:
            reason = str(error) or type(error).__name__
            raise EngineUnavailable(f"The chat server at {self.url} does not answer ({reason}).") from error
        if response.status_code >= 500 or response.status_code in (408, 429):
            raise EngineUnavailable(f"The chat server failed ({response.status_code}): {response.text[:300]}")
        if response.status_code != 200:
            raise EngineRefused(f"The chat server said no ({response.status_code}): {response.text[:300]}")
        try:
            content = response.json()
            choice = content["choices"][0]
            text = choice["message"].get("content") or ""
        except (ValueError, KeyError, IndexError, TypeError) as error:
            raise EngineRefused(f"The chat server's answer is not a chat completion: {response.text[:300]}") from error
        usage = content.get("usage") or {}
        details = usage.get("prompt_tokens_details") or {}
        return Answer(
            storable(str(text)),
            str(choice.get("finish_reason") or "stop"),
            completion_tokens=int(usage.get("completion_tokens") or 0),
            prompt_tokens=int(usage.get("prompt_tokens") or 0),
            cached_tokens=int(details.get("cached_tokens") or 0),
        )

    async def aclose(self) -> None:
        """Close this event loop's connections."""
        await self._connections.close()

    def _client(self) -> httpx.AsyncClient:
        return self._connections.client()

"""A model that plays a person, behind any server that speaks OpenAI's chat completions."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from time import monotonic
from typing import Any, Protocol

import httpx

from environments.errors import UserUnavailable

KEY = "ACTOR_KEY"
"""Where a command finds the server's key, unless it is told."""

LONGEST_WAIT_S = 30.0
AT_ONCE = 4
"""Messages that one server words at a time: a small one takes many in turn, and the last would wait for all."""
THOUGHT = re.compile(r"<think>.*?(?:</think>|\Z)", re.DOTALL)
QUOTES = "\"“”„'«»"


class Speaker(Protocol):
    """Words the next message of a person who is played."""

    async def says(self, messages: Sequence[Mapping[str, str]], *, seed: int) -> str: ...


class Actor:
    """One model at one server, asked for a few messages at a time. What passes (no connection, 408, 429, 5xx) is waited
    out for `patience_s` from when it began."""

    def __init__(
        self,
        base_url: str,
        key: str,
        model: str,
        *,
        timeout_s: float = 600.0,
        patience_s: float = 120.0,
        temperature: float = 0.8,
        sleep: Callable[[float], Awaitable[object]] = asyncio.sleep,
        transport: httpx.AsyncBaseTransport | None = None,
    ) -> None:
        """`base_url` ends as the server's documentation says, mostly with /v1. `timeout_s` is how long one message may
        take."""
        self.base_url, self.model = base_url.rstrip("/"), model
        self._temperature, self._patience_s, self._sleep = temperature, patience_s, sleep
        self._room = asyncio.Semaphore(AT_ONCE)
        headers = {"Authorization": f"Bearer {key}"} if key else {}
        self._http = httpx.AsyncClient(
            headers=headers, timeout=httpx.Timeout(timeout_s, connect=10.0), transport=transport
        )

    async def says(self, messages: Sequence[Mapping[str, str]], *, seed: int) -> str:
        """The next message: without thoughts, quotation marks around it and blank ends; never empty."""
        for extra in range(2):  # a model may answer nothing once
            body = {
                "model": self.model,
                "messages": list(messages),
                "temperature": self._temperature,
                "seed": seed + extra,
            }
            async with self._room:
                answer = await self._asked(body)
            if said := bare(_content(answer)):
                return said
        raise UserUnavailable(
            f"{self.model} at {self.base_url} answered twice with no words. Take another model to play the person."
        )

    async def aclose(self) -> None:
        await self._http.aclose()

    async def _asked(self, body: Mapping[str, Any]) -> Any:
        pause_s, failed_at = 0.5, None
        while True:
            wait_s = pause_s
            try:
                answer = await self._http.post(f"{self.base_url}/chat/completions", json=body)
                if answer.is_success:
                    return answer.json()
                trouble = f"{answer.status_code}: {answer.text.strip()[:200]}"
                if answer.status_code not in (408, 429) and answer.status_code < 500:
                    raise UserUnavailable(
                        f"{self.base_url} refused to play a person with {self.model} ({trouble}). "
                        "Look at the address, the key and the model's name."
                    )
                told = answer.headers.get("retry-after", "")
                wait_s = float(told) if told.isdecimal() else pause_s
            except httpx.TransportError as error:
                trouble = str(error) or type(error).__name__
            except ValueError:  # a success that is no JSON
                raise UserUnavailable(f"{self.base_url} answers, but not in JSON. Is it the right address?") from None
            failed_at = failed_at or monotonic()
            if monotonic() - failed_at + wait_s > self._patience_s:
                raise UserUnavailable(
                    f"{self.base_url} did not answer, asked again for {self._patience_s:.0f} s ({trouble}). "
                    "See that it runs, and play again."
                )
            await self._sleep(min(wait_s, LONGEST_WAIT_S))
            pause_s = min(2 * pause_s, LONGEST_WAIT_S)


def bare(text: str) -> str:
    """What is said aloud in a model's text.

    >>> bare('<think>Hm.</think> "Shorter, please." ')
    'Shorter, please.'
    """
    said = THOUGHT.sub("", text).strip()
    if len(said) > 1 and said[0] in QUOTES and said[-1] in QUOTES:
        said = said[1:-1].strip()
    return said


def _content(answer: Any) -> str:
    try:
        return str(answer["choices"][0]["message"].get("content") or "")
    except (KeyError, IndexError, TypeError, AttributeError):
        raise UserUnavailable("The server that plays the person answers in another form than OpenAI's.") from None

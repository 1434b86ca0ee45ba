"""Talkback as any client knows it: ask, say how it went, see what became of it. Over HTTP alone."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, suppress
from copy import copy
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from time import monotonic
from types import TracebackType
from typing import Any, Self
from uuid import uuid4

import httpx

from core.errors import TalkbackError

Message = Mapping[str, Any]

KEY = "TALKBACK_KEY"
"""Where commands read their key from, so that it need not stand in them."""

AGAIN = (408, 425, 429, 500, 502, 503, 504)
"""Statuses after which the same request may succeed."""

URL, LOCAL = "TALKBACK_URL", "http://localhost:8000"
"""Where commands read where Talkback answers, and where it does unless that is said."""

LONGEST_WAIT_S = 60.0
"""Between two tries, whatever Retry-After says."""


class Refused(TalkbackError):
    """Talkback said no to this request; asking the same again changes nothing."""

    code, status = "refused", 400

    def __init__(self, sentence: str, said: str = "") -> None:
        """`said` is Talkback's own code for it, as in docs/reference/protocols.md; empty where it gave none."""
        super().__init__(sentence)
        self.said = said


class Unreachable(TalkbackError):
    """No server answered, or none had time, for as long as the client has patience."""

    code, status, retryable = "unreachable", 503, True


@dataclass(frozen=True)
class Completion:
    """One reply as it came back."""

    id: str
    text: str
    finish_reason: str
    """stop | length | tool_calls"""
    model: str
    """Who wrote it: name@number."""
    prompt_tokens: int
    completion_tokens: int
    tool_calls: tuple[Mapping[str, Any], ...] = ()


class Client:
    """One key to one Talkback. Every call waits out what passes (no connection, 429, 5xx) and raises Unreachable when
    that lasts longer than `patience_s`, Refused when Talkback says no."""

    def __init__(
        self,
        url: str,
        key: str,
        *,
        timeout_s: float = 600.0,
        patience_s: float = 180.0,
        transport: httpx.AsyncBaseTransport | None = None,
        sleep: Callable[[float], Awaitable[object]] = asyncio.sleep,
        on_wait: Callable[[float], object] | None = None,
        on_trouble: Callable[[str], object] | None = None,
    ) -> None:
        """`url` is where Talkback answers, without /v1. `timeout_s` is the longest silence within one request.
        `on_wait` is called before each pause, with the moment (of `monotonic`) at which the try was sent; `on_trouble`
        is told, as a sentence, why one waits for a server that is not merely busy (429)."""
        self.url = url.rstrip("/").removesuffix("/v1")
        self.on_wait, self._on_trouble = on_wait, on_trouble
        self._key, self._patience_s, self._sleep = key, patience_s, sleep
        self._http = httpx.AsyncClient(
            base_url=f"{self.url}/v1",
            timeout=httpx.Timeout(timeout_s, connect=10.0),
            limits=httpx.Limits(max_connections=None),
            transport=transport,
            trust_env=False,  # a proxy of the environment does not lead to this machine
            verify=not self.url.lower().startswith("http:"),  # to read the certificates takes 40 ms
        )

    def with_key(self, key: str) -> Client:
        """The same connections with another key; they end with this client."""
        other = copy(self)
        other._key = key
        return other

    async def complete(
        self,
        messages: Sequence[Message],
        *,
        model: str | None = None,
        seed: int | None = None,
        max_tokens: int | None = None,
        temperature: float | None = None,
        session: str | None = None,
        done: bool = False,
        tools: Sequence[Mapping[str, Any]] | None = None,
        name: str | None = None,
    ) -> Completion:
        """One reply. `name` says which request this is: asked twice by one name, it is one turn and one reply
        (Idempotency-Key, good for a day); without it each call is a request of its own. `done` ends the session."""
        body: dict[str, Any] = {"messages": [dict(message) for message in messages]}
        wished = {"model": model, "seed": seed, "max_tokens": max_tokens, "temperature": temperature}
        body |= {field: value for field, value in wished.items() if value is not None}
        body |= {"tools": [dict(tool) for tool in tools]} if tools else {}
        headers = {"Idempotency-Key": name or uuid4().hex}
        headers |= {"X-Session-Id": session} if session else {}
        headers |= {"X-Session-Done": "true"} if done else {}
        answer = await self._asked("POST", "/chat/completions", body, headers)
        choice, usage = answer["choices"][0], answer["usage"]
        return Completion(
            id=answer["id"],
            text=choice["message"].get("content") or "",
            finish_reason=choice["finish_reason"],
            model=answer["model"],
            prompt_tokens=usage["prompt_tokens"],
            completion_tokens=usage["completion_tokens"],
            tool_calls=tuple(choice["message"].get("tool_calls") or ()),
        )

    async def give(
        self,
        completion_id: str,
        *,
        rating: str | None = None,
        guidance: str | None = None,
        correction: str | None = None,
    ) -> None:
        """Say how a reply was ("up" or "down"), how the next one should be, or what this one should have said. What is
        left out stays as it stands."""
        body: dict[str, Any] = {"completion_id": completion_id}
        body |= {"thumb": rating} if rating else {}
        body |= {"guidance": guidance} if guidance else {}
        body |= {"correction": correction} if correction else {}
        if len(body) == 1:
            raise ValueError("say something: a rating, guidance or a correction")
        await self._asked("POST", "/feedback", body)

    async def learning(self, completion_id: str) -> Mapping[str, Any]:
        """Ask what became of a reply: `stage`, `sample`, `run`, `checkpoints` and more (docs/reference/feedback.md)."""
        return await self._asked("GET", f"/completions/{completion_id}/learning")

    async def close(self, session: str) -> Mapping[str, Any]:
        """The session is over: replies that nothing came back to are closed."""
        return await self._asked("POST", f"/sessions/{session}/close", {})

    async def open_episode(
        self,
        world: str,
        task: str,
        split: str,
        group: str,
        attempt: int,
        *,
        attempts: int,
        lease_s: int,
        model: str | None = None,
    ) -> Mapping[str, Any]:
        """Begin an attempt: its `id`, its `key`, the `model` that plays, and more (docs/reference/episodes.md)."""
        body: dict[str, Any] = {"world": world, "task": task, "split": split, "group": group, "attempt": attempt}
        body |= {"model": model} if model else {}
        return await self._asked("POST", "/episodes", body | {"attempts": attempts, "lease_s": lease_s})

    async def claim(self, episode: str, turn: str, call: str) -> bool:
        """Ask whether this action may happen: true once."""
        answer = await self._asked("POST", f"/episodes/{episode}/actions", {"turn": turn, "call": call})
        return bool(answer["first"])

    async def renew(self, episode: str) -> None:
        """Its player is alive: the lease begins anew."""
        await self._asked("POST", f"/episodes/{episode}/alive")

    async def close_episode(self, episode: str, ended: Mapping[str, Any]) -> Mapping[str, Any]:
        """Say how it ended: status, outcome, truncated_by, checks, cost, scores."""
        return await self._asked("POST", f"/episodes/{episode}/close", ended)

    async def exams(self) -> list[Mapping[str, Any]]:
        """What the gate asks this key's person to play (docs/reference/episodes.md)."""
        return list((await self._asked("GET", "/episodes/exams"))["data"])

    async def close_exam(self, exam: int, reason: str) -> Mapping[str, Any]:
        """No more of it is played: the gate reads what there is."""
        return await self._asked("POST", f"/episodes/exams/{exam}/close", {"reason": reason})

    async def models(self) -> dict[str, str]:
        """Every name that may be asked for, and the checkpoint behind it: the plain name leads to what is live."""
        answer = await self._asked("GET", "/models")
        return {model["id"]: model["root"] for model in answer["data"]}

    async def sees(self, name: str) -> bool:
        """Whether the model of this name is shown pictures."""
        answer = await self._asked("GET", "/models")
        said = {model["id"]: model.get("input_modalities") or () for model in answer["data"]}
        return "image" in said.get(name, ())

    async def live(self) -> str:
        """name@number of what answers this key where no model is named."""
        found = await self.models()
        return next(root for name, root in found.items() if "@" not in name)

    def relay(
        self, method: str, path: str, body: bytes, headers: Mapping[str, str]
    ) -> AbstractAsyncContextManager[httpx.Response]:
        """Another program's request below /v1, with this client's key, and the answer as it comes: one try. Raises
        httpx.TransportError."""
        sent = {**headers, "Authorization": f"Bearer {self._key}", "Accept-Encoding": "identity"}
        return self._http.stream(method, path, content=body, headers=sent)

    async def aclose(self) -> None:
        await self._http.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    async def _asked(
        self, method: str, path: str, body: Mapping[str, Any] | None = None, headers: Mapping[str, str] | None = None
    ) -> dict[str, Any]:
        began, pause_s = monotonic(), 0.5
        sent = {"Authorization": f"Bearer {self._key}", **(headers or {})}
        while True:
            wait_s, trouble, sent_at, is_busy = pause_s, "", monotonic(), False
            try:
                answer = await self._http.request(method, path, json=body, headers=sent)
                if answer.is_success and (told := _object(answer)) is not None:
                    return told
                trouble = f"it answered {answer.status_code}: {_said(answer)}"
                if not answer.is_success and answer.status_code not in AGAIN:
                    sentence = f"Talkback at {self.url} refused {method} {path}: {_said(answer)}"
                    raise Refused(sentence, _code(answer))
                is_busy = answer.status_code == httpx.codes.TOO_MANY_REQUESTS
                wait_s = retry_after_s(answer.headers.get("retry-after", ""), pause_s)
            except httpx.TransportError as error:
                trouble = str(error) or type(error).__name__
            if monotonic() - began + wait_s > self._patience_s:
                raise Unreachable(
                    f"Talkback at {self.url} did not answer {method} {path} within {self._patience_s:.0f} s "
                    f"({trouble}). See that it runs (its /readyz says what is missing) and ask again."
                )
            if self.on_wait is not None:
                self.on_wait(sent_at)
            if self._on_trouble is not None and not is_busy:
                self._on_trouble(f"Talkback at {self.url} gives no answer yet ({trouble}). It is asked again.")
            await self._sleep(wait_s)
            pause_s = min(2 * pause_s, LONGEST_WAIT_S)


def retry_after_s(said: str, otherwise_s: float) -> float:
    """How long to wait by a Retry-After header: seconds, or a date (RFC 9110, 10.2.3); `otherwise_s` where it says
    neither. Never longer than LONGEST_WAIT_S.

    >>> retry_after_s("3", 0.5), retry_after_s("soon", 0.5), retry_after_s("86400", 0.5)
    (3.0, 0.5, 60.0)
    """
    with suppress(ValueError):
        return min(max(float(said), 0.0), LONGEST_WAIT_S) if float(said) == float(said) else otherwise_s
    with suppress(ValueError, TypeError):
        when = parsedate_to_datetime(said)
        when = when if when.tzinfo else when.replace(tzinfo=UTC)
        return min(max((when - datetime.now(UTC)).total_seconds(), 0.0), LONGEST_WAIT_S)
    return otherwise_s


def _object(answer: httpx.Response) -> dict[str, Any] | None:
    """The object that an answer holds; None where it holds none, as a page that a proxy shows while Talkback starts."""
    try:
        return dict(answer.json())
    except (ValueError, TypeError):
        return None


def _said(answer: httpx.Response) -> str:
    """Talkback's own sentence in an error, else what there is."""
    try:
        return str(answer.json()["error"]["message"])
    except (ValueError, KeyError, TypeError):
        return answer.text.strip()[:200] or answer.reason_phrase


def _code(answer: httpx.Response) -> str:
    """What Talkback calls an error, for programs; empty where it says nothing of the kind."""
    try:
        return str(answer.json()["error"]["code"] or "")
    except (ValueError, KeyError, TypeError):
        return ""

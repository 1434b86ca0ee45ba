"""The client against a small Talkback of scripted answers, spoken to through HTTP's own types."""

from __future__ import annotations

import json
import ssl
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from typing import Any

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from environments.client import LONGEST_WAIT_S, Client, Refused, Unreachable, retry_after_s

REPLY: dict[str, Any] = {
    "id": "chatcmpl-1",
    "model": "talkback@3",
    "choices": [{"finish_reason": "stop", "message": {"role": "assistant", "content": "Paris."}}],
    "usage": {"prompt_tokens": 12, "completion_tokens": 3},
}


class FakeTalkback:
    """Answers in the order they were told, and keeps what was asked."""

    def __init__(self, *answers: httpx.Response | Exception) -> None:
        self.answers, self.asked = list(answers), list[httpx.Request]()
        self.waits: list[float] = []

    def client(self, **options: Any) -> Client:
        async def slept(seconds: float) -> None:
            self.waits.append(seconds)

        return Client(
            "http://talkback/v1", "secret", transport=httpx.MockTransport(self._answer), sleep=slept, **options
        )

    async def _answer(self, request: httpx.Request) -> httpx.Response:
        self.asked.append(request)
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(answer, Exception):
            raise answer
        return httpx.Response(answer.status_code, headers=answer.headers, content=answer.content)

    def body(self, number: int = 0) -> dict[str, Any]:
        return dict(json.loads(self.asked[number].content))


def ok(body: dict[str, Any]) -> httpx.Response:
    return httpx.Response(200, json=body)


def no(status: int, sentence: str = "no", **headers: str) -> httpx.Response:
    return httpx.Response(status, json={"error": {"message": sentence}}, headers=headers)


Ask = Callable[[Client], Awaitable[Any]]


async def ask(client: Client, **options: Any) -> Any:
    return await client.complete([{"role": "user", "content": "Capital?"}], max_tokens=9, **options)


async def test_a_reply_comes_back_with_who_wrote_it_and_what_it_cost() -> None:
    talkback = FakeTalkback(ok(REPLY))
    said = await ask(talkback.client(), model="talkback@3", seed=7, session="s-1")
    assert (said.id, said.text, said.finish_reason, said.model) == ("chatcmpl-1", "Paris.", "stop", "talkback@3")
    assert (said.prompt_tokens, said.completion_tokens) == (12, 3)
    assert talkback.body() == {
        "messages": [{"role": "user", "content": "Capital?"}],
        "max_tokens": 9,
        "model": "talkback@3",
        "seed": 7,
    }
    assert str(talkback.asked[0].url) == "http://talkback/v1/chat/completions"  # named with /v1, or without
    assert talkback.asked[0].headers["authorization"] == "Bearer secret"
    assert talkback.asked[0].headers["x-session-id"] == "s-1"


async def test_a_request_that_is_tried_again_keeps_its_name_so_it_is_one_turn() -> None:
    talkback = FakeTalkback(no(503), httpx.ConnectError("gone"), ok(REPLY))
    assert (await ask(talkback.client())).text == "Paris."
    names = {request.headers["idempotency-key"] for request in talkback.asked}
    assert len(talkback.asked) == 3
    assert len(names) == 1
    await ask(talkback.client(), name="arm-1")
    assert talkback.asked[-1].headers["idempotency-key"] == "arm-1"


async def test_retry_after_is_waited_for_and_without_it_waits_double() -> None:
    talkback = FakeTalkback(no(429, **{"Retry-After": "7"}), no(503), no(503), ok(REPLY))
    await ask(talkback.client())
    assert talkback.waits == [7.0, 1.0, 2.0]  # 0.5 doubles with every try, also with one that said for itself


async def test_what_is_refused_is_not_asked_again_and_says_talkbacks_own_sentence() -> None:
    talkback = FakeTalkback(no(404, "There is no model 'x' here."))
    with pytest.raises(Refused, match=r"refused POST /chat/completions: There is no model 'x' here\."):
        await ask(talkback.client())
    assert len(talkback.asked) == 1


async def test_patience_ends_with_what_to_do() -> None:
    talkback = FakeTalkback(httpx.ConnectError("connection refused"))
    with pytest.raises(Unreachable, match=r"within 0 s \(connection refused\)\. See that it runs"):
        await ask(talkback.client(patience_s=0.0))


@pytest.mark.parametrize("url", ["https://talk.example.org", "HTTPS://talk.example.org", "talk.example.org"])
def test_who_answers_is_verified_unless_the_address_says_that_it_is_plain(url, monkeypatch) -> None:
    verified: list[bool] = []
    monkeypatch.setattr("environments.client.httpx.AsyncClient", lambda **options: verified.append(options["verify"]))
    Client(url, "key")
    assert verified == [True]


async def test_a_page_in_place_of_an_answer_is_no_answer() -> None:
    """As a proxy shows one while Talkback is started anew."""
    talkback = FakeTalkback(httpx.Response(200, text="<p>Back soon</p>"), httpx.Response(200, json=[1]), ok(REPLY))
    assert (await ask(talkback.client())).text == "Paris."
    assert len(talkback.asked) == 3


async def test_why_one_waits_is_told_but_for_a_server_that_is_merely_busy() -> None:
    told: list[str] = []
    talkback = FakeTalkback(httpx.ConnectError("no route"), no(429), no(503, "It starts."), ok(REPLY))
    async with talkback.client(on_trouble=told.append) as client:
        await client.with_key("another").complete([{"role": "user", "content": "?"}])
    assert told == [
        "Talkback at http://talkback gives no answer yet (no route). It is asked again.",
        "Talkback at http://talkback gives no answer yet (it answered 503: It starts.). It is asked again.",
    ]


async def test_feedback_says_only_what_is_given() -> None:
    talkback = FakeTalkback(ok({"object": "feedback"}))
    client = talkback.client()
    await client.give("chatcmpl-1", rating="down")
    await client.give("chatcmpl-1", guidance="Shorter, please.")
    await client.give("chatcmpl-1", correction="It rains.")
    assert talkback.body(0) == {"completion_id": "chatcmpl-1", "thumb": "down"}
    assert talkback.body(1) == {"completion_id": "chatcmpl-1", "guidance": "Shorter, please."}
    assert talkback.body(2) == {"completion_id": "chatcmpl-1", "correction": "It rains."}
    with pytest.raises(ValueError, match="say something"):
        await client.give("chatcmpl-1")


async def test_what_is_live_is_what_the_plain_name_leads_to() -> None:
    rows = [("talkback", "talkback@3"), ("talkback@0", "talkback@0"), ("talkback@3", "talkback@3")]
    talkback = FakeTalkback(ok({"data": [{"id": name, "root": root} for name, root in rows]}))
    assert await talkback.client().live() == "talkback@3"


@given(st.text(max_size=40))
def test_no_header_makes_it_wait_for_ever_or_backwards(said: str) -> None:
    assert 0.0 <= retry_after_s(said, 0.5) <= LONGEST_WAIT_S


def test_a_date_is_waited_for() -> None:
    later = datetime.now(UTC) + timedelta(seconds=30)
    assert 25 < retry_after_s(format_datetime(later, usegmt=True), 0.5) <= 30


def test_certificates_are_read_where_the_address_asks_for_them_alone(monkeypatch) -> None:
    read = []
    monkeypatch.setattr(
        ssl, "create_default_context", lambda **how: read.append(how) or ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    )
    Client("http://127.0.0.1:8000", "tb-key")
    assert read == []
    Client("https://talkback.example/v1", "tb-key")
    assert len(read) == 1

"""The API's short way: the threads that keep their connections, and those who are told afterwards."""

from __future__ import annotations

import asyncio
import json
import threading
from typing import Any

import httpx
import pytest
from asgiref.sync import sync_to_async
from django.db import connection, connections
from django.test import AsyncClient

from chat.api_keys import ApiKey
from chat.models import Turn
from core import threads
from core.states import moved
from webapp.asgi import application
from webapp.serving import handler
from webapp.serving.afterwards import Afterwards

pytestmark = pytest.mark.django_db(transaction=True, serialized_rollback=True)


@pytest.fixture
def kept(db, settings):
    """Two kept threads, as in earnest; they and their connections end with the test."""
    settings.DATABASE_THREADS = 2
    threads.context.cache_clear()
    threads.executor.cache_clear()
    yield
    threads.executor().close()
    threads.context.cache_clear()
    threads.executor.cache_clear()


@pytest.fixture
def secret(db, django_user_model) -> str:
    return ApiKey.objects.issue(django_user_model.objects.create_user("ana"), "laptop")[1]


@pytest.fixture
async def http():
    transport = httpx.ASGITransport(application)
    async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
        yield client


async def test_the_short_way_says_the_same_of_itself_as_the_ordinary_one(http, secret):
    headers = {"Authorization": f"Bearer {secret}"}
    short = await http.get("/v1/models", headers=headers)
    ordinary = await AsyncClient().get("/v1/models", headers=headers)

    assert short.json() == ordinary.json()
    told = {name.lower(): value for name, value in ordinary.headers.items()}
    for name in ("content-security-policy", "x-content-type-options", "referrer-policy", "x-frame-options"):
        assert short.headers[name] == told[name]
    assert short.headers["cross-origin-opener-policy"] == told["cross-origin-opener-policy"]


async def test_failures_have_the_apis_shape_on_the_short_way_too(http, settings):
    settings.DATA_UPLOAD_MAX_MEMORY_SIZE = 1000
    large = await http.post("/v1/chat/completions", content=b"x" * 2000)
    nowhere = await http.get("/v1/nothing")
    keyless = await http.post("/v1/chat/completions", json={})
    strange = await http.get("/v1/models", headers={"Host": "elsewhere.example"})

    assert [one.status_code for one in (large, nowhere, keyless, strange)] == [413, 404, 401, 400]
    assert all(one.json()["error"]["message"] for one in (large, nowhere, keyless, strange))
    assert "ALLOWED_HOSTS" in strange.json()["error"]["message"]


@pytest.mark.parametrize("length", [2, 2000])
async def test_a_query_that_is_no_text_is_told_so(secret, settings, length):
    settings.DATA_UPLOAD_MAX_MEMORY_SIZE = 1000
    sent: list[Any] = []
    incoming = [{"type": "http.request", "body": b"x" * length}]

    async def receive():
        return incoming.pop() if incoming else await asyncio.Future()

    async def send(message):
        sent.append(message)

    headers = [(b"host", b"localhost"), (b"authorization", f"Bearer {secret}".encode())]
    scope = {"type": "http", "method": "POST", "path": "/v1/responses", "query_string": b"a=\xff", "headers": headers}
    await asyncio.wait_for(application(scope, receive, send), 10)

    assert sent[0]["status"] == (400 if length == 2 else 413)
    error = json.loads(sent[1]["body"])["error"]
    assert error["message"] == (
        "The query is not UTF-8." if length == 2 else "That is larger than 8 MB. Send less at once."
    )


async def test_a_body_in_parts_without_a_length_has_the_same_limit(http, settings):
    settings.DATA_UPLOAD_MAX_MEMORY_SIZE = 1000

    async def parts():
        for _ in range(20):
            yield b"x" * 100

    assert (await http.post("/v1/chat/completions", content=parts())).status_code == 413


async def test_requests_share_a_few_connections(kept, http, secret, monkeypatch):
    seen = set()

    def noting(self, secret):
        connection.ensure_connection()
        seen.add((threading.current_thread().name, id(connection.connection)))
        return real(self, secret)

    real = type(ApiKey.objects).find_by_secret
    monkeypatch.setattr(type(ApiKey.objects), "find_by_secret", noting)
    headers = {"Authorization": f"Bearer {secret}"}
    answers = await asyncio.gather(*(http.get("/v1/models", headers=headers) for _ in range(12)))

    assert {answer.status_code for answer in answers} == {200}
    assert 1 <= len(seen) <= 2
    assert all(name.startswith("database") for name, _ in seen)


async def test_a_connection_that_broke_is_replaced(kept, http, secret, monkeypatch):
    headers = {"Authorization": f"Bearer {secret}"}
    assert (await http.get("/v1/models", headers=headers)).status_code == 200

    # SQLite's never break, and Django does not ask them.
    monkeypatch.setattr(type(connections["default"]), "is_usable", lambda self: False)

    def break_it() -> None:
        connection.ensure_connection()
        connection.connection.close()
        connection.errors_occurred = True

    for _ in range(4):  # whichever thread takes it: each is likely to have had its turn
        await asyncio.wrap_future(threads.executor().submit(break_it))
    assert (await http.get("/v1/models", headers=headers)).status_code == 200


async def test_a_reader_that_takes_nothing_for_long_has_left(secret, engine, tiny_model, settings, monkeypatch):
    settings.MODEL = str(tiny_model)
    monkeypatch.setattr(handler, "STALL_S", 0.2)
    engine.says("Hello, captain, and welcome.")
    engine.hold(after=1)
    sent: list[str] = []
    body = json.dumps({"messages": [{"role": "user", "content": "Say hello"}], "stream": True}).encode()
    incoming = [{"type": "http.request", "body": body}]

    async def receive():
        return incoming.pop() if incoming else await asyncio.Future()

    async def send(message):
        sent.append(message["type"])
        if len(sent) > 2:
            await asyncio.Future()  # as a socket whose reader does not read

    scope = {
        "type": "http",
        "method": "POST",
        "path": "/v1/chat/completions",
        "query_string": b"",
        "headers": [
            (b"host", b"localhost"),
            (b"authorization", f"Bearer {secret}".encode()),
            (b"content-type", b"application/json"),
        ],
    }
    await asyncio.wait_for(application(scope, receive, send), 10)

    turn = await Turn.objects.aget()
    assert sent == ["http.response.start", "http.response.body", "http.response.body"]
    assert (turn.status, turn.finish_reason) == ("closed", "abort")
    assert engine.aborted == [turn.completion_id]


def test_a_connection_that_was_long_unused_is_looked_at_before_it_is_used(secret, monkeypatch):
    looked = []
    monkeypatch.setattr(type(connections["default"]), "is_usable", lambda self: bool(looked.append(1)))

    def use() -> Any:
        assert ApiKey.objects.count() == 1
        return connection.connection

    pool = threads.Threads(1)
    try:
        first = pool.submit(use).result(10)
        assert pool.submit(use).result(10) is first
        assert not looked
        monkeypatch.setattr(threads, "IDLE_S", 0.0)
        assert pool.submit(use).result(10) is not first
        assert looked
    finally:
        pool.close()


async def test_what_the_api_moves_is_told_afterwards_and_none_of_it_is_lost(
    kept, http, secret, engine, tiny_model, settings
):
    settings.MODEL = str(tiny_model)
    told = []

    def hear(sender, pk, status, **kwargs):
        told.append((sender, status, threading.current_thread().name))

    moved.connect(hear)
    try:
        body = {"messages": [{"role": "user", "content": "Say hello"}]}
        answer = await http.post("/v1/chat/completions", json=body, headers={"Authorization": f"Bearer {secret}"})
        await Afterwards.of_this_loop().told()
    finally:
        moved.disconnect(hear)

    assert answer.status_code == 200
    statuses = [status for sender, status, _ in told if sender is Turn]
    assert statuses == ["answering", "served"]
    turn = await sync_to_async(Turn.objects.get)()
    assert turn.first_token_s is not None
    assert 0 < turn.first_token_s < 30

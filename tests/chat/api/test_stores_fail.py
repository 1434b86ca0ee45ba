"""The disk is full, SQLite is locked, weights are lost: every door says so in its own shape."""

from __future__ import annotations

import asyncio
import json
import sqlite3
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import closing, suppress

import httpx
import pytest
from asgiref.sync import sync_to_async
from django.db import connection, connections
from django.db.backends.signals import connection_created
from django.db.utils import OperationalError

from chat.api_keys import ApiKey
from chat.models import Session, Turn
from checkpoints.checksums import WeightsChanged
from core import stores
from gpu_workers.errors import EngineGarbled
from tests.chat.conftest import ask_in
from webapp.asgi import application

pytestmark = pytest.mark.django_db(transaction=True, serialized_rollback=True)

LONG = "word " * 120
"""With its ids more than what is left of any page of the database, once it is filled."""

DOORS = {
    "/v1/chat/completions": lambda words: {"messages": [{"role": "user", "content": words}]},
    "/v1/responses": lambda words: {"input": words},
    "/v1/messages": lambda words: {"max_tokens": 64, "messages": [{"role": "user", "content": words}]},
}


@pytest.fixture
async def api(key: ApiKey):
    """Ana's key at every door."""
    async with httpx.AsyncClient(
        transport=httpx.ASGITransport(application),
        base_url="http://localhost",
        headers={"Authorization": f"Bearer {key.secret}"},
    ) as client:
        yield client


class Connections:
    """All that this test opens to SQLite, in every thread: each says these pragmas itself before its next statement."""

    def __init__(self) -> None:
        self.pragmas: list[str] = []
        self.said: dict[sqlite3.Connection, int] = {}

    def note(self, sender, connection, **more) -> None:
        if connection.vendor == "sqlite":
            connection.execute_wrappers.append(self.say)

    def say(self, execute, sql, params, many, context):
        own = context["connection"].connection
        for pragma in self.pragmas[self.said.get(own, 0) :]:
            own.execute(f"PRAGMA {pragma}")
        self.said[own] = len(self.pragmas)
        return execute(sql, params, many, context)


@pytest.fixture
async def opened(transactional_db) -> AsyncIterator[Connections]:
    opened = Connections()
    connections.close_all()
    await sync_to_async(connections.close_all)()  # that of the thread in which views ask
    connection_created.connect(opened.note)
    yield opened
    connection_created.disconnect(opened.note)
    opened.pragmas.clear()
    connections.close_all()
    await sync_to_async(connections.close_all)()


@pytest.fixture
def full(ben, engine, opened) -> Iterator[Callable[[], None]]:
    """Has the database take no more, once it is called, and say so in its own words."""

    def fill() -> None:
        with connection.cursor() as cursor:
            if connection.vendor == "sqlite":
                cursor.execute("VACUUM")
                (pages,) = cursor.execute("PRAGMA page_count").fetchone()
            else:
                cursor.execute(
                    "CREATE FUNCTION no_room() RETURNS trigger AS $$ BEGIN RAISE EXCEPTION 'could not extend file: No "
                    "space left on device' USING ERRCODE = 'disk_full'; END $$ LANGUAGE plpgsql"
                )
                cursor.execute("CREATE TRIGGER no_room BEFORE INSERT OR UPDATE ON chat_turn EXECUTE FUNCTION no_room()")
        if connection.vendor == "sqlite":  # and what is left of pages that are begun
            opened.pragmas.append(f"max_page_count = {pages}")
            with suppress(OperationalError):
                while True:
                    ask_in(Session.objects.create(user=ben), [{"role": "user", "content": LONG}])

    yield fill
    if connection.vendor == "postgresql":
        with connection.cursor() as cursor:
            cursor.execute("DROP TRIGGER IF EXISTS no_room ON chat_turn; DROP FUNCTION IF EXISTS no_room")


@pytest.fixture
def locked(opened) -> Iterator[None]:
    """Another program that writes SQLite's file and does not end; no request waits long for it here."""
    opened.pragmas.append("busy_timeout = 50")
    with closing(sqlite3.connect(connection.settings_dict["NAME"], isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        yield
        other.rollback()


def told(answer: httpx.Response) -> tuple[int, str, str, str | None]:
    """Status, type and code of a refusal, and when to ask again; its shape is that of the door it came from."""
    content = answer.json()
    error = content["error"]
    assert error["message"]
    if answer.request.url.path == "/v1/messages":
        assert content["type"] == "error"
    else:
        assert error["param"] is None
    return answer.status_code, error["type"], error["code"], answer.headers.get("Retry-After")


def kind(door: str) -> str:
    return "api_error" if door == "/v1/messages" else "server_error"


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("door", DOORS)
async def test_a_full_disk_is_507_at_every_door_and_nothing_is_stored(api, key, engine, full, door, stream):
    await sync_to_async(full)()

    answer = await api.post(door, json=DOORS[door](LONG) | {"stream": stream})

    assert told(answer) == (507, kind(door), "disk_full", "30")
    assert "disk of this Talkback is full" in answer.json()["error"]["message"]
    assert not await Turn.objects.filter(session__key=key).aexists()
    assert not await Session.objects.filter(key=key).aexists()
    assert engine.calls == []  # no engine computes what cannot be kept


@pytest.mark.parametrize("door", DOORS)
async def test_no_reply_is_begun_where_those_under_way_need_the_room(api, engine, monkeypatch, door):
    monkeypatch.setattr(stores, "free_bytes", lambda folder: stores.LEAST_FREE - 1)
    monkeypatch.setattr(stores, "database_room", lambda: stores.free_bytes(None))

    assert told(await api.post(door, json=DOORS[door]("Hi")))[:3] == (507, kind(door), "disk_full")
    assert (await api.get("/v1/models")).status_code == 200  # what only reads goes on


@pytest.mark.database("sqlite")  # PostgreSQL is never locked as a whole
@pytest.mark.parametrize("door", DOORS)
async def test_a_locked_sqlite_is_503_with_a_time_to_ask_again(api, engine, locked, door):
    answer = await api.post(door, json=DOORS[door]("Hi"))

    expected = "overloaded_error" if door == "/v1/messages" else "server_error"
    assert told(answer) == (503, expected, "database_busy", "5")
    assert "send it again in a few seconds" in answer.json()["error"]["message"]


@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize(
    ("failure", "status", "code"),
    [
        (WeightsChanged("The weights of talkback@7 are gone."), 503, "weights_changed"),
        (EngineGarbled("The engine's stream is not JSON: {torn"), 502, "engine_unreadable"),
    ],
)
async def test_what_is_ours_is_never_the_requests_fault(api, engine, door, failure, status, code):
    engine.goes_down(failure)
    answer = await api.post(door, json=DOORS[door]("Hi"))

    assert told(answer)[0] == status
    assert told(answer)[2:] == (code, "2")
    assert "api_error overloaded_error server_error".count(told(answer)[1]) == 1
    assert answer.json()["error"]["message"] == str(failure)


@pytest.mark.parametrize("door", DOORS)
async def test_a_disk_that_fills_up_amid_a_stream_ends_it_with_its_sentence(api, engine, full, door):
    engine.says(LONG)
    engine.hold(after=1)
    streaming = asyncio.create_task(api.post(door, json=DOORS[door]("Hi") | {"stream": True}))
    await asyncio.to_thread(engine.holding.wait, 10)
    await sync_to_async(full)()
    engine.release()

    answer = await asyncio.wait_for(streaming, 20)

    assert answer.status_code == 200  # it went out long ago
    data = [line.removeprefix("data: ") for line in answer.text.splitlines() if line.startswith("data: {")]
    last = json.loads(data[-1])
    failure = last["response"]["error"] if door == "/v1/responses" else last["error"]
    assert "The disk of this Talkback is full" in failure["message"]


async def test_the_page_says_that_the_disk_is_full_and_the_message_stays(page, engine, full, htmx, session):
    await sync_to_async(full)()
    message = {"text": LONG * 2, "message_id": "7f4cec80-0000-4000-8000-000000000000"}

    quick = await page.post(f"/chats/{session.pk}/say/", message, headers=htmx)
    assert quick.status_code == 507
    assert 'id="complaint"' in quick.content.decode()
    assert "The disk of this Talkback is full" in quick.content.decode()

    whole = await page.post(f"/chats/{session.pk}/say/", message)
    assert whole.status_code == 507
    assert "The disk of this Talkback is full" in whole.content.decode()
    assert (LONG * 2).strip() in whole.content.decode()  # what was written is not lost


@pytest.mark.database("sqlite")
async def test_any_page_says_that_the_database_is_busy(page, htmx, session, locked):
    page.raise_request_exception = False
    whole = await page.post(f"/chats/{session.pk}/rename/", {"title": "Another"})
    assert (whole.status_code, whole.headers["Retry-After"]) == (503, "5")
    assert "<h1 data-failure>The database is busy with something else" in whole.content.decode()

    quick = await page.post(f"/chats/{session.pk}/rename/", {"title": "Another"}, headers=htmx)
    assert (quick.status_code, quick.headers["HX-Reswap"]) == (503, "none")
    assert 'id="complaint"' in quick.content.decode()
    assert "<h1>" not in quick.content.decode()


@pytest.mark.parametrize(
    ("said", "named"),
    [
        ("server closed the connection unexpectedly", stores.DatabaseAway),
        ("database or disk is full", stores.DiskFull),
        ("database is locked", stores.DatabaseBusy),
    ],
)
def test_a_failure_is_known_by_words_where_the_driver_left_no_number(said, named):
    assert isinstance(stores.name_failure(OperationalError(said)), named)


def test_a_fault_of_the_code_has_no_such_name():
    with connection.cursor() as cursor, pytest.raises(Exception) as fault:
        cursor.execute("SELECT 1 FROM no_such_table")
    assert stores.name_failure(fault.value) is None
    assert stores.name_failure(ValueError("a bug")) is None

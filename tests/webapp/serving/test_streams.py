"""Rows leave in parts, in their order, and nothing stays open between two parts."""

from __future__ import annotations

import pytest
from asgiref.sync import sync_to_async
from django.db.models.query import BaseIterable
from django.urls import reverse

from chat.models import Session
from judge.hints import reviews
from tests.webapp.desk_cast import fill
from webapp.console import audit
from webapp.people.own_data import own_export
from webapp.serving import streams

pytestmark = pytest.mark.django_db(transaction=True, serialized_rollback=True)


@pytest.fixture
def no_cursors(monkeypatch):
    """A query that fetches in chunks has a cursor open, which only the thread with its connection can read on
    PostgreSQL."""
    begin = BaseIterable.__init__

    def refuse(self, queryset, chunked_fetch=False, chunk_size=100):
        assert not chunked_fetch, f"a cursor over {queryset.model.__name__} would stay open between two parts"
        begin(self, queryset, chunked_fetch=chunked_fetch, chunk_size=chunk_size)

    monkeypatch.setattr(BaseIterable, "__init__", refuse)


async def lines(answer) -> list[bytes]:
    return b"".join([part async for part in answer.streaming_content]).splitlines()


async def test_a_persons_export_leaves_no_cursor_open(async_client, talker, no_cursors, monkeypatch):
    monkeypatch.setattr(own_export, "PART", 2)
    await sync_to_async(fill)([talker], 3)
    await async_client.aforce_login(talker)
    rows = await lines(await async_client.get("/privacy/export/"))
    assert sum(b'"object":"turn"' in row for row in rows) == 3


@pytest.mark.parametrize(("form", "head"), [("jsonl", 0), ("csv", 1)])
async def test_the_log_of_decisions_leaves_no_cursor_open(
    async_client, talker, operator, no_cursors, monkeypatch, form, head
):
    monkeypatch.setattr(audit, "CHUNK", 2)
    for hint in await sync_to_async(fill)([talker], 3):
        await sync_to_async(reviews.reject)(hint, by=operator)
    await async_client.aforce_login(operator)
    assert len(await lines(await async_client.get(reverse(f"console:audit_{form}")))) == 3 + head


def test_rows_come_in_their_order_and_those_that_went_meanwhile_do_not(talker):
    made = [Session.objects.create(user=talker, title=title) for title in "caebd"]
    rows = streams.by_key(Session.objects.order_by("title"), 2)
    assert next(rows).title == "a"
    made[0].delete()  # "c", of the second two
    assert [row.title for row in rows] == ["b", "d", "e"]

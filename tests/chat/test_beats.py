"""Replies under way say together that they are being written."""

from __future__ import annotations

import asyncio
from datetime import timedelta

import pytest
from django.db import DatabaseError
from django.utils import timezone

from chat.models import Session, Turn
from chat.replying import beats
from chat.replying.beats import Writing
from tests.chat.conftest import open_turn, until, user

pytestmark = pytest.mark.django_db(transaction=True, serialized_rollback=True)

HI = [user("Say hello")]


@pytest.fixture
async def two(ana, engine):
    """Two turns whose last sign of life was long ago."""
    turns = [await open_turn(await Session.objects.acreate(user=ana), HI) for _ in range(2)]
    await Turn.objects.all().aupdate(moved_at=timezone.now() - timedelta(hours=1))
    return turns


async def heard_of(turn: Turn) -> bool:
    return (await Turn.objects.aget(pk=turn.pk)).moved_at > timezone.now() - timedelta(minutes=1)


async def test_each_row_hears_of_its_writer_and_gets_what_was_said(two):
    first, second = two
    async with Writing(first, 0.02, lambda: None) as one, Writing(second, 0.02, lambda: None):
        one.words += ["Hello", ", captain"]

        async def all_known() -> bool:
            rows = [await Turn.objects.aget(pk=turn.pk) for turn in two]
            return [row.text for row in rows] == ["Hello, captain", ""] and all([await heard_of(row) for row in rows])

        await until(all_known, "both rows are fresh")


async def test_one_that_was_stopped_elsewhere_is_told_so_and_the_other_is_not(two):
    first, second = two
    roused = asyncio.Event()
    await Turn.objects.filter(pk=first.pk).aupdate(finish_reason="abort")
    async with Writing(first, 0.02, roused.set) as stopped, Writing(second, 0.02, lambda: None) as other:
        await asyncio.wait_for(roused.wait(), 10)
        assert not stopped.is_wanted
        assert other.is_wanted
    assert not await heard_of(first)


async def test_when_a_reply_has_ended_no_beat_speaks_of_it(two):
    async def first_known() -> bool:
        return await heard_of(two[0])

    async def second_known() -> bool:
        return await heard_of(two[1])

    async with Writing(two[1], 0.01, lambda: None):  # for this one the beats go on
        async with Writing(two[0], 0.01, lambda: None) as writing:
            await until(first_known, "a beat")
            writing.words.append("Hello")
        await Turn.objects.filter(pk=two[0].pk).aupdate(text="the end")
        for _ in range(2):
            await Turn.objects.filter(pk=two[1].pk).aupdate(moved_at=timezone.now() - timedelta(hours=1))
            await until(second_known, "another beat")

    assert (await Turn.objects.aget(pk=two[0].pk)).text == "the end"


async def test_a_reply_that_begins_as_the_last_other_one_ends_is_beaten_for(two):
    first, second = Writing(two[0], 0.01, lambda: None), Writing(two[1], 0.01, lambda: None)
    async with first:
        await asyncio.sleep(0)
    async with second:  # the loop has not come round since

        async def known() -> bool:
            return await heard_of(two[1])

        await until(known, "a beat of the second", 2)


async def test_a_beat_that_fails_is_made_up_for_by_the_next(two, monkeypatch):
    tries = []

    def noted(said):
        tries.append(said)
        if len(tries) == 1:
            raise DatabaseError("locked")
        return real(said)

    real = beats.note_beats
    monkeypatch.setattr(beats, "note_beats", noted)
    async with Writing(two[0], 0.01, lambda: None) as writing:

        async def known() -> bool:
            return await heard_of(two[0])

        await until(known, "a beat after the one that failed")
        assert writing.is_wanted
    assert len(tries) > 1

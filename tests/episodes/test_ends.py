"""How an episode ends: by its lease, with its group, with its key, with its conversation."""

from __future__ import annotations

import asyncio
from datetime import timedelta

import pytest
from asgiref.sync import sync_to_async
from django.db import IntegrityError
from django.utils import timezone

from chat.listing import pages
from chat.models import Session, Turn
from checkpoints.models import Checkpoint
from episodes import lapses
from episodes.models import Action, Episode, Group
from privacy import consent
from tests.episodes.answers import SOLVED, code
from tests.episodes.conftest import HI
from webapp import pipeline

pytestmark = pytest.mark.django_db(transaction=True, serialized_rollback=True)


async def test_all_of_a_group_are_played_by_the_same_weights(ask, begin, say):
    first = await begin()
    live = await sync_to_async(Checkpoint.live)()
    await Checkpoint.objects.filter(pk=live.pk).aupdate(status=Checkpoint.Status.RETIRED)
    await Checkpoint.objects.acreate(
        number=live.number + 1, line_id=live.line_id, status=Checkpoint.Status.LIVE, parent_id=live.pk
    )
    second = await begin(attempt=1)
    assert second["model"] == first["model"] == str(live)
    await say(second)
    assert (await Turn.objects.aget()).checkpoint_id == live.pk


async def test_an_action_happens_once_even_where_two_ask_at_once(ask, begin, say):
    episode = await begin()
    spoken, _ = await say(episode)
    turn = await Turn.objects.aget()
    turn.message = turn.message | {"tool_calls": [{"id": "call_1"}, {"id": "call_2"}]}
    await turn.asave()
    path = f"episodes/{episode['id']}/actions"
    both = await asyncio.gather(*(ask(path, {"turn": spoken, "call": "call_1"}) for _ in range(2)))
    assert sorted(said["first"] for _, said in both) == [False, True]
    assert (await ask(path, {"turn": spoken, "call": "call_2"}))[1]["first"] is True
    assert (await ask(path, {"turn": spoken}))[1]["first"] is True
    assert (await ask(path, {"turn": spoken}))[1]["first"] is False
    assert await Action.objects.acount() == 3
    assert code(await ask(path, {"turn": spoken, "call": "call_3"})) == (404, "action_unknown")
    other = await begin(attempt=1)
    assert code(await ask(f"episodes/{other['id']}/actions", {"turn": spoken})) == (404, "action_unknown")
    with pytest.raises(IntegrityError):
        await Action.objects.acreate(episode_id=episode["id"], turn=turn, call="call_1")


async def test_nothing_happens_in_an_episode_that_is_over(ask, begin, say):
    episode = await begin()
    spoken, _ = await say(episode)
    await ask(f"episodes/{episode['id']}/close", SOLVED)
    assert code(await ask(f"episodes/{episode['id']}/actions", {"turn": spoken})) == (409, "episode_closed")


async def lapse(episode, by_s=1.0):
    """Let time pass: the lease ended `by_s` ago, and whatever was said is older by as much as it lasts."""
    row = await Episode.objects.aget(pk=episode["id"])
    past = timezone.now() - timedelta(seconds=by_s)
    await Episode.objects.filter(pk=row.pk).aupdate(lease_until=past)
    at = past - timedelta(seconds=row.lease_s)
    await Session.objects.filter(pk=row.session_id).aupdate(active_at=at)
    await Turn.objects.filter(session=row.session_id).aupdate(served_at=at)


async def test_a_lease_that_lapses_is_the_worlds_failure(ask, begin, say):
    episode = await begin()
    await say(episode)
    await lapse(episode)
    await sync_to_async(pipeline.sweep)()
    _, shown = await ask(f"episodes/{episode['id']}", method="get")
    assert (shown["state"], shown["status"], shown["outcome"]) == ("void", "infra_error", None)
    assert shown["reason"].startswith("Its player gave no sign of life for 600 s")
    assert code(await ask("chat/completions", {"messages": HI}, secret=episode["key"])) == (401, "invalid_api_key")
    # Its player comes back, and is told: a score that comes too late is not kept.
    status, said = await ask(f"episodes/{episode['id']}/close", SOLVED)
    assert (status, said["error"]["code"]) == (409, "episode_closed")
    assert "no sign of life" in said["error"]["message"]


@pytest.mark.parametrize(
    "sign", ["a request", "the end of a reply", "a reply that is being written", "an action", "its word"]
)
async def test_a_sign_of_life_keeps_the_lease(ask, begin, say, sign):
    episode = await begin()
    spoken, _ = await say(episode)
    await lapse(episode)
    if sign == "a request":
        await say(episode)
    elif sign == "the end of a reply":
        await Turn.objects.aupdate(served_at=timezone.now())
    elif sign == "a reply that is being written":
        await Turn.objects.aupdate(status=Turn.Status.ANSWERING)
    elif sign == "an action":
        await ask(f"episodes/{episode['id']}/actions", {"turn": spoken})
    else:
        status, said = await ask(f"episodes/{episode['id']}/alive")
        assert (status, said["id"]) == (200, episode["id"])
    assert await sync_to_async(lapses.close_lapsed)() == 0
    row = await Episode.objects.aget()
    assert row.status == Episode.Status.PLAYING
    assert row.lease_until > timezone.now() + timedelta(seconds=590)


async def test_an_episode_that_is_over_is_not_kept_alive(ask, begin):
    episode = await begin()
    await ask(f"episodes/{episode['id']}/close", SOLVED)
    assert code(await ask(f"episodes/{episode['id']}/alive")) == (409, "episode_closed")


async def test_a_group_is_complete_when_all_ended_and_two_count(ask, begin):
    episodes = [await begin(attempt=n, attempts=3) for n in range(2)]
    for episode in episodes:
        _, closed = await ask(f"episodes/{episode['id']}/close", {"status": "failed", "outcome": -1})
    assert (closed["group"]["state"], closed["group"]["counted"]) == ("playing", 2)  # one of three is not yet opened
    last = await begin(attempt=2, attempts=3)
    _, closed = await ask(f"episodes/{last['id']}/close", {"status": "infra_error"})
    assert (closed["group"]["state"], closed["group"]["counted"], closed["group"]["reason"]) == ("complete", 2, None)


async def test_a_group_in_which_fewer_than_two_count_is_short_and_says_so(ask, begin):
    episodes = [await begin(attempt=n) for n in range(3)]
    ends = [SOLVED, {"status": "infra_error"}, {"status": "truncated", "truncated_by": "context"}]
    for episode, end in zip(episodes, ends, strict=True):
        _, closed = await ask(f"episodes/{episode['id']}/close", end)
    assert (closed["group"]["state"], closed["group"]["opened"], closed["group"]["counted"]) == ("short", 3, 1)
    assert closed["group"]["reason"] == (
        "Of 3 attempts 1 count, and fewer than 2 cannot be compared: nothing of it teaches."
    )


async def test_a_key_put_off_the_record_takes_its_episodes_with_it(begin, say, key):
    episode = await begin()
    await say(episode)
    assert (await Turn.objects.aget()).learns is True
    await sync_to_async(consent.set_key)(key, False)
    await say(episode, [{"role": "user", "content": "And four?"}])
    assert [turn.learns async for turn in Turn.objects.all()] == [False, False]


async def test_a_deleted_conversation_leaves_its_episodes_figures(ask, begin, say):
    episode = await begin()
    await say(episode)
    await ask(f"episodes/{episode['id']}/close", SOLVED)
    await sync_to_async((await Session.objects.aget()).delete)()
    _, shown = await ask(f"episodes/{episode['id']}", method="get")
    assert (shown["session"], shown["outcome"], await Turn.objects.acount()) == (None, 1.0, 0)


async def test_attempts_are_no_chats_in_the_list_and_open_by_their_address(ask, begin, say, async_client, ana, key):
    """1,000 of them: the list holds the one conversation of a program that is none."""
    episode = await begin()
    await say(episode)
    _, plain = await ask("chat/completions", {"messages": HI, "max_tokens": 4})
    attempts = await sync_to_async(many)(1000, ana, key)

    found = await sync_to_async(pages.list_chats)(ana, pages.API)
    told = await Turn.objects.aget(completion_id=plain["id"])
    assert ([one.pk for one in found.rows], found.more) == ([told.session_id], "")

    await sync_to_async(async_client.force_login)(ana)
    page = await async_client.get(f"/chats/{episode['session']}/")
    assert (page.status_code, "What do three pears cost?" in page.content.decode()) == (200, True)
    assert await Episode.objects.acount() == attempts + 1


def many(number: int, person, key) -> int:
    """So many attempts that ended, as rows."""
    group = Group.objects.get()
    sessions = Session.objects.bulk_create(
        Session(user=person, key=key, external_id=f"e{n}", title=f"attempt {n}") for n in range(number)
    )
    Episode.objects.bulk_create(
        Episode(
            group=group, attempt=n + 1, session=session, status="scored", ending="solved", outcome=1, lease_s=60,
            lease_until=timezone.now(),
        )
        for n, session in enumerate(sessions)
    )  # fmt: skip
    return number

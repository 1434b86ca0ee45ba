"""An open page's socket lasts as long as the right to it, and no frame is sent after."""

from __future__ import annotations

from datetime import timedelta

import pytest
from asgiref.sync import sync_to_async
from channels.layers import get_channel_layer
from django.contrib.auth.models import User
from django.contrib.sessions.models import Session as SignIn
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from chat import live
from chat.models import Session, Turn
from tests.sockets import Tab
from webapp.live_pages import BOARD

pytestmark = pytest.mark.django_db(transaction=True, serialized_rollback=True)

SIGNED_OUT, NOT_YOURS = 4401, 4403


@pytest.fixture
def chat(operator) -> Session:
    return Session.objects.create(user=operator)


def chat_of(chat: Session) -> str:
    return f"/ws/chat/{chat.pk}/"


@sync_to_async
def change(user: User, **fields) -> None:
    """As any code that changes an account does."""
    for name, value in fields.items():
        setattr(user, name, value)
    user.save()


async def say(chat: Session, words: str) -> None:
    """Push a growing reply to every tab on this chat."""
    turn = Turn(session=chat, position=0)
    await live.publish(turn, words)


async def test_signing_out_closes_the_sockets_of_that_browser_at_once_and_of_no_other(operator, chat):
    browser, elsewhere = Client(), Client()
    async with (
        Tab(chat_of(chat), operator, browser=browser) as talk,
        Tab("/ws/console/", browser=browser) as board,
        Tab(chat_of(chat), operator, browser=elsewhere) as other,
    ):
        assert "board-decisions" in await board.hears()

        await sync_to_async(browser.post)(reverse("logout"))

        assert (await talk.ends(), await board.ends()) == (SIGNED_OUT, SIGNED_OUT)
        await say(chat, "A secret")
        assert "A secret" in await other.sees("A secret")
        assert await talk.is_silent()


@pytest.mark.parametrize(
    ("fields", "codes"),
    [
        ({"is_active": False}, (SIGNED_OUT, SIGNED_OUT)),
        ({"password": "another"}, (SIGNED_OUT, SIGNED_OUT)),
        ({"is_staff": False}, (None, NOT_YOURS)),  # the chat is still theirs
    ],
)
async def test_an_account_that_changes_closes_what_it_may_not_see_any_more_at_once(operator, chat, fields, codes):
    async with Tab(chat_of(chat), operator) as talk, Tab("/ws/console/", operator) as board:
        await board.hears()

        await change(operator, **fields)

        assert await board.ends() == codes[1]
        if codes[0] is not None:
            assert await talk.ends() == codes[0]
        await say(chat, "A secret")
        if codes[0] is None:
            assert "A secret" in await talk.sees("A secret")
        else:
            assert await talk.is_silent()


async def test_an_account_that_is_deleted_closes_its_sockets(operator):
    async with Tab("/ws/console/", operator) as board:
        await board.hears()
        await sync_to_async(operator.delete)()
        assert await board.ends() == SIGNED_OUT


async def test_with_nothing_said_of_the_change_the_next_push_is_not_sent(operator, chat):
    """An UPDATE sends no signal, time passes by itself, and Redis may be away: each push looks."""
    async with Tab(chat_of(chat), operator) as talk:
        await say(chat, "Good day")
        await talk.sees("Good day")
        await User.objects.filter(pk=operator.pk).aupdate(is_active=False)
        await say(chat, "A secret")
        assert await talk.ends_without("A secret") == SIGNED_OUT


async def test_a_session_that_has_expired_is_shown_nothing(operator, chat):
    async with Tab(chat_of(chat), operator) as talk:
        await SignIn.objects.aupdate(expire_date=timezone.now() - timedelta(seconds=1))
        await say(chat, "A secret")
        assert await talk.ends_without("A secret") == SIGNED_OUT


async def test_a_chat_that_was_deleted_is_shown_nothing(operator, chat):
    async with Tab(chat_of(chat), operator) as talk:
        await Session.objects.filter(pk=chat.pk).adelete()
        await say(chat, "A secret")
        assert await talk.ends_without("A secret") == NOT_YOURS


async def test_a_board_of_somebody_who_was_demoted_is_sent_nothing_more(operator, make_turn):
    async with Tab("/ws/console/", operator) as board:
        await board.hears()
        await User.objects.filter(pk=operator.pk).aupdate(is_staff=False)
        await sync_to_async(make_turn)(text="A new reply.")
        await get_channel_layer().group_send(BOARD, {"type": "board.changed"})
        assert await board.ends_without("A new reply.") == NOT_YOURS


async def test_a_page_that_comes_back_signed_out_is_told_so_and_not_just_refused(chat):
    # A browser shows its page no code of a handshake that failed, and the page would try again for ever.
    async with Tab(chat_of(chat)) as talk:
        assert talk.is_open
        assert await talk.ends() == SIGNED_OUT

"""Sockets of pages, apart from what they show."""

from __future__ import annotations

import asyncio
import re
from uuid import uuid4

import httpx
import pytest
import websockets
from asgiref.sync import sync_to_async
from channels.generic.websocket import AsyncWebsocketConsumer
from django.test import Client
from django.utils import translation
from uvicorn.protocols.utils import ClientDisconnected

from accounts.models import Account
from chat import session_sockets
from chat.models import Session
from chat.sockets import PageSocket

HIDDEN = ("csrfmiddlewaretoken", "message_id")


class Page(PageSocket):
    def may_see(self, user):
        return True

    def hears(self):
        return ()


async def test_a_reader_that_leaves_amid_a_push_is_no_failure(monkeypatch):
    pushed = []

    async def stays(self):
        return True

    async def leave(self, text_data=None, bytes_data=None, close=False):
        pushed.append(text_data)
        raise ClientDisconnected

    monkeypatch.setattr(PageSocket, "may_stay", stays)
    monkeypatch.setattr(AsyncWebsocketConsumer, "send", leave)

    await Page().send("a fragment")

    assert pushed == ["a fragment"]


@pytest.mark.django_db(transaction=True, serialized_rollback=True)
@pytest.mark.parametrize(
    ("chosen", "asked", "drawn"),
    [("de", "en", "de"), ("", "zh-CN,zh;q=0.9", "zh-hans"), ("en", "de", "en"), ("", "", "en")],
)  # what Settings say comes before what the browser asks for as it opens the socket
async def test_what_is_pushed_is_in_the_language_of_the_page(site, ana, monkeypatch, chosen, asked, drawn):
    monkeypatch.setattr(session_sockets, "RECHECK_S", 0.0)
    render = session_sockets.render_to_string

    def tell(name, context):
        """The fragment, and the language that was spoken where it was drawn."""
        growing = f'<i id="chip-{uuid4()}" data-growing></i>' if name == "chat/_pushed_turn.html" else ""
        return f"<i>{name} in {translation.get_language()}</i>{growing}{render(name, context)}"

    monkeypatch.setattr(session_sockets, "render_to_string", tell)
    await Account.objects.aupdate_or_create(user=ana, defaults={"language": chosen})
    session = await Session.objects.acreate(user=ana)
    browser = Client()
    await sync_to_async(browser.force_login)(ana)
    (cookie,) = browser.cookies.values()
    cookies, speaks = {cookie.key: cookie.value}, {"Accept-Language": asked} if asked else {}
    headers = {"Cookie": f"{cookie.key}={cookie.value}"} | speaks
    address = f"{site.replace('http', 'ws', 1)}/ws/chat/{session.pk}/"
    async with websockets.connect(address, origin=site, additional_headers=headers) as tab:

        async def heard(name: str) -> str:
            while f"<i>{name} in " not in (fragment := await asyncio.wait_for(tab.recv(), 20)):
                pass
            return str(fragment).partition(f"<i>{name} in ")[2].partition("</i>")[0]

        assert await heard("chat/_pushed_chips.html") == drawn  # as it opens
        async with httpx.AsyncClient(base_url=site, cookies=cookies, headers=speaks, timeout=60) as page:
            form = await page.get(f"/chats/{session.pk}/")
            said = {name: re.search(f'name="{name}" value="([^"]+)"', form.text)[1] for name in HIDDEN}
            sent = await page.post(
                f"/chats/{session.pk}/say/", data=said | {"text": "Hi"}, headers={"Referer": f"{site}/"}
            )
            assert sent.status_code == 302, sent.text
        assert await heard("chat/_pushed_turn.html") == drawn  # when the turn has moved
        assert await heard("chat/_pushed_chips.html") == drawn  # by the socket's own task, which looks again

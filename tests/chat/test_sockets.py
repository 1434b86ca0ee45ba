"""Sockets of pages, apart from what they show."""

from __future__ import annotations

from channels.generic.websocket import AsyncWebsocketConsumer
from uvicorn.protocols.utils import ClientDisconnected

from chat.sockets import PageSocket


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

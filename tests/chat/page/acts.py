"""What people do on a chat's page, and what is done beneath it."""

from __future__ import annotations

from channels.layers import get_channel_layer
from playwright.async_api import Page

from chat.models import Turn, group_of
from feedback.models import Feedback


async def say(tab: Page, words: str) -> None:
    await tab.get_by_label("Your message").fill(words)
    await tab.keyboard.press("Enter")


SOCKET = """(() => {
    const Real = WebSocket;
    window.WebSocket = class extends Real {
        constructor(...about) {
            super(...about);
            window.socket = this;
            this.addEventListener("message", ({ data }) => {
                if (!data.includes("beforeend:")) document.body.dataset.caughtUp = "";
            });
        }
    };
})()"""
"""The page's socket, to be had by a test. A page that connects is shown the newest turn, then the chips, and no
more."""


async def stands(kind: str) -> list[Feedback]:
    return [said async for said in Feedback.objects.standing().filter(kind=kind)]


async def draw_again(session) -> None:
    """Push the newest turn whole to all tabs, as when a socket opens late; it is a little different by now."""
    turn = await Turn.objects.filter(session=session).order_by("-position").afirst()
    await Turn.objects.filter(pk=turn.pk).aupdate(finish_reason="length")
    event = {"type": "turn.changed", "turn": str(turn.pk), "status": turn.status}
    await get_channel_layer().group_send(group_of(session.pk), event)

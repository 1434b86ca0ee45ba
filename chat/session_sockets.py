"""Push fragments of one session's turns to a tab over its socket; nothing comes in."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Collection, Iterable, Mapping
from types import MappingProxyType
from typing import Any
from uuid import UUID

from asgiref.sync import sync_to_async
from django.contrib.auth.models import User
from django.db.models import QuerySet
from django.template.loader import render_to_string

from chat import branches
from chat.models import Session, Turn, group_of
from chat.sockets import PageSocket
from chat.tools import calls

EVERYONE = "chats"
"""The channel layer's name for every tab on any chat."""

RECHECK_S = 2.0
"""How often chips are drawn again while one of them shows a figure that grows by itself."""

GROWING = re.compile(r'id="chip-([0-9a-f-]{36})"[^>]*data-growing')
"""A chip that does."""


class ChatConsumer(PageSocket):
    """Push one session's fragments to a tab. Messages are sent by HTTP, so that they arrive even without a socket."""

    recheck: asyncio.Task[None] | None = None
    growing: frozenset[str] = frozenset()
    """The turns of such chips."""
    ended: frozenset[str] = frozenset()
    """Turns that were shown whole: a picture of one still growing comes too late."""
    waiting: Mapping[str, str] = MappingProxyType({})
    """Turns that were shown to wait for the engine, and why each does."""

    @property
    def session(self) -> UUID:
        """The session's number."""
        found: UUID = self.scope["url_route"]["kwargs"]["pk"]
        return found

    def may_see(self, user: User) -> bool:
        return Session.objects.visible_to(user).filter(pk=self.session).exists()

    def hears(self) -> Iterable[str]:
        return (group_of(self.session), EVERYONE)

    async def disconnect(self, code: int) -> None:
        await super().disconnect(code)
        if self.recheck is not None:
            self.recheck.cancel()

    async def opened(self) -> None:
        """Show what moved between the page and the socket: the newest turn if it is in the making, and the chips."""
        newest = await Turn.objects.filter(session=self.session).order_by("-position").afirst()
        if newest is not None and newest.status in (Turn.Status.ANSWERING, Turn.Status.SERVED):
            await self.push(await sync_to_async(self.draw_turn)(newest.pk))
        await self.push(await sync_to_async(self.draw_chips)())

    async def turn_grew(self, event: dict[str, Any]) -> None:
        turn = event["turn"]
        if turn in self.ended:
            return
        html = f'<div id="said-{turn}" hx-swap-oob="innerHTML">{event["html"]}</div>'
        if self.leave_waiting(turn):
            html += f'<div id="waits-{turn}" hx-swap-oob="innerHTML"></div>'
        await self.send(text_data=html)

    async def turn_waits(self, event: dict[str, Any]) -> None:
        """The engine does not answer, or says nothing. Its writer says so again and again; a tab shows each of the two,
        and reads it aloud, once."""
        turn, why = event["turn"], event["why"]
        if turn not in self.ended and self.waiting.get(turn) != why:
            self.waiting = {**self.waiting, turn: why}
            context = {"turn_id": turn, "user": self.scope["user"], "why": why}
            await self.push(await sync_to_async(render_to_string)("chat/_waits.html", context))

    def leave_waiting(self, turn: str) -> bool:
        """Its reply goes on, or is over. Returns whether the tab shows that it waits."""
        was_shown = turn in self.waiting
        self.waiting = {one: why for one, why in self.waiting.items() if one != turn}
        return was_shown

    async def turn_changed(self, event: dict[str, Any]) -> None:
        """A turn appeared, or its reply ended."""
        is_written = event["status"] == Turn.Status.ANSWERING
        self.leave_waiting(event["turn"])
        self.ended = self.ended - {event["turn"]} if is_written else self.ended | {event["turn"]}
        await self.push(await sync_to_async(self.draw_turn)(event["turn"]))

    async def calls_changed(self, event: dict[str, Any]) -> None:
        """Tool calls of a reply are asked about, at work, or over."""
        await self.push(await sync_to_async(self.draw_calls)(event["turn"]))

    async def chips_changed(self, event: dict[str, Any]) -> None:
        """Turns came further in learning, or a person said something of them."""
        await self.push(await sync_to_async(self.draw_chips)(event["turns"]))

    async def live_changed(self, event: dict[str, Any]) -> None:
        """Another checkpoint writes the next reply."""
        context = {"user": self.scope["user"], "pushed": True}
        await self.push(await sync_to_async(render_to_string)("chat/_answers_now.html", context))

    async def push(self, html: str) -> None:
        if html.strip():
            await self.send(text_data=html)
        self.growing |= frozenset(GROWING.findall(html))
        if self.growing and (self.recheck is None or self.recheck.done()):
            self.recheck = asyncio.create_task(self.look_again())

    async def look_again(self) -> None:
        await asyncio.sleep(RECHECK_S)
        growing, self.growing = self.growing, frozenset()  # those that still grow say so again
        html = await sync_to_async(self.draw_chips)(growing)
        self.recheck = None  # this one is over: another may follow
        await self.push(html)

    def draw_turn(self, pk: Any) -> str:
        """The whole turn; of a branch that is not the shown one, for pages alone that have it. Empty when it is not
        there any more."""
        turn = self.turns().select_related("session").filter(pk=pk).first()
        if turn is None:
            return ""
        tree = branches.Tree.of(turn.session)
        if turn.pk not in tree.nodes:
            return ""
        shown = {"turns": branches.draw(tree, [turn.pk]), "elsewhere": turn.pk not in tree.path}
        return render_to_string("chat/_pushed_turn.html", shown | {"user": self.scope["user"]})

    def draw_calls(self, pk: Any) -> str:
        """The tool calls of one turn; empty when it is not there any more."""
        turn = self.turns().filter(pk=pk).only("pk", "error", "finish_reason", "session_id").first()
        if turn is None:
            return ""
        turn.made = calls.of_turns([turn.pk]).get(turn.pk, [])
        turn.at_work = calls.is_at_work(turn.made)
        return render_to_string("chat/tools/_calls.html", {"turn": turn, "user": self.scope["user"], "pushed": True})

    def draw_chips(self, pks: Collection[Any] | None = None) -> str:
        """Chips and thumbs of these turns; of all that a page shows, when none are named. What a person is typing
        stays untouched."""
        turns = self.turns().order_by("-position")
        if pks is not None:
            turns = turns.filter(pk__in=pks)
        shown = turns.select_related("session__key", "checkpoint").defer(*branches.HEAVY, "messages", "next_state")
        shown = shown[: branches.SHOWN]
        return render_to_string("chat/_pushed_chips.html", {"turns": shown, "user": self.scope["user"]})

    def turns(self) -> QuerySet[Turn]:
        return Turn.objects.visible_to(self.scope["user"]).filter(session=self.session)

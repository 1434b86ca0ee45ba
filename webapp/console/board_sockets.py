"""Push changes to pages that are open: the overview, the list of turns, and a run while it learns."""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Iterable
from contextlib import suppress
from typing import Any
from urllib.parse import parse_qs

from channels.db import database_sync_to_async
from django.contrib.auth.models import User

from accounts.roles import may
from chat.sockets import PageSocket
from core.visible import visible
from training.models import Run
from webapp import health
from webapp.console import fragments
from webapp.console.training import run_pages
from webapp.live_pages import BOARD

log = logging.getLogger(__name__)

PAUSE_S = 0.35
"""At most about three looks a second, however much moves."""
TICK_S = 1.5
"""Progress and workers that died announce nothing: an open board looks by itself, too."""
AGE = re.compile(r"(<time [^>]*data-age[^>]*>)[^<]*")
"""Ages grow in the browser: a part that only grew older is not sent, for a swap under a click loses the click."""


class BoardConsumer(PageSocket):
    """One open board: moves come in as nudges, parts of the page go out, each only when it has changed."""

    watch: asyncio.Task[None] | None = None
    hears_engine = True
    """Whether what is shown says that the engine does not answer."""
    is_over = False
    """What is shown now stays as it is."""

    def may_see(self, user: User) -> bool:
        return may(user, "console")

    def hears(self) -> Iterable[str]:
        return (BOARD,)

    async def opened(self) -> None:
        self.changed = asyncio.Event()
        self.watch = asyncio.create_task(self.keep_showing())
        self.watch.add_done_callback(self.end)

    async def disconnect(self, code: int) -> None:
        await super().disconnect(code)
        if self.watch is not None:
            self.watch.cancel()

    def end(self, watch: asyncio.Task[None]) -> None:
        """A board that can no longer look closes, loudly; the page says so and connects again."""
        if not watch.cancelled() and (failure := watch.exception()):
            log.error("the board cannot be shown", exc_info=failure)
            self.closing = asyncio.create_task(self.close(code=1011))

    def parts(self) -> dict[str, str]:
        """What the page shows now, in parts by their names."""
        return fragments.render(self.scope["user"])

    async def board_changed(self, event: dict[str, Any]) -> None:
        self.changed.set()

    async def keep_showing(self) -> None:
        """Send what is different from what the tab holds; look again after a move, or when time has passed."""
        shown: dict[str, str] = {}
        while not self.is_over and await self.may_stay():
            self.changed.clear()
            if self.hears_engine:  # here, where an engine that hangs keeps no thread waiting
                await health.hear_engine()
            read = await database_sync_to_async(self.parts)()
            parts = {name: visible(html) for name, html in read.items()}
            bare = {name: AGE.sub(r"\1", html) for name, html in parts.items()}
            news = [html for name, html in parts.items() if shown.get(name) != bare[name]]
            if news:
                await self.send("\n".join(news))
            shown = bare
            await asyncio.sleep(PAUSE_S)
            with suppress(TimeoutError):
                await asyncio.wait_for(self.changed.wait(), TICK_S)


class TurnsConsumer(BoardConsumer):
    """One open list of turns: the same nudges, and the list as far as it is narrowed."""

    hears_engine = False

    def parts(self) -> dict[str, str]:
        status = parse_qs(self.scope["query_string"].decode()).get("status", [""])[0]
        return fragments.render_turns(status)


class RunConsumer(BoardConsumer):
    """One open page of a run: the same nudges, and the parts of that run until it is over."""

    hears_engine = False

    def may_see(self, user: User) -> bool:
        return may(user, "training") and Run.objects.filter(pk=self.run).exists()

    @property
    def run(self) -> int:
        """The run's number."""
        return self.scope["url_route"]["kwargs"]["pk"]  # type: ignore[no-any-return]

    def parts(self) -> dict[str, str]:
        html, self.is_over = run_pages.parts(self.run)
        return html

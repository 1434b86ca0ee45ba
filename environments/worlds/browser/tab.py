"""One page in one tab: begun from a seed, read, touched, and asked what it awards. For the browser's own thread."""

from __future__ import annotations

import asyncio
import json
import secrets
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from environments.worlds.base import WorldFailed
from environments.worlds.browser import tree
from environments.worlds.browser.pages import ORIGIN, Site, policy

HERE = Path(__file__).parent
LISTENING = (HERE / "listening.js").read_text()
WALKING = (HERE / "walking.js").read_text()
TOUCHING = (HERE / "touching.js").read_text()
START = datetime(2025, 1, 15, 12, tzinfo=UTC)
"""What every page takes for now."""
SETTLE_MS = 600
"""What passes on a page's clock after each action; between two it stands still."""
SETTLE_AGAIN_MS = 2000
"""What passes more while a page says that it is not ready."""
VIEW = {"width": 400, "height": 320}
FOREVER_MS = 2_000_000_000
OPTIONS = {
    "viewport": VIEW,
    "accept_downloads": False,
    "service_workers": "block",
    "reduced_motion": "reduce",
    "locale": "en-US",
    "timezone_id": "UTC",
    "offline": False,
    "permissions": [],
}
PRESSED = (
    *("Enter", "Tab", "Escape", "Backspace", "Delete", "Space", "Home", "End", "PageUp", "PageDown"),
    *("ArrowUp", "ArrowDown", "ArrowLeft", "ArrowRight"),
)
HELD = ("Control", "Shift", "Alt")
DEAD = "chrome-error:"


class Impossible(Exception):
    """The agent asked for what this page does not let it do; the text says why."""


@dataclass(frozen=True)
class View:
    """A page as it stands."""

    text: str
    """Its elements and texts, without the task."""
    scrolled: tuple[int, int]
    goal: str
    reward: float | None
    """-1 to 1, before the page takes time off it; None: the page has not ended."""
    has_left: bool
    """Another document stands where the page stood."""


class Tab:
    """A tab of its own context. All of it raises Playwright's errors; `act` raises Impossible as well."""

    def __init__(self, context: Any, site: Site) -> None:
        self.context, self.site = context, site
        self.nonce = secrets.token_urlsafe(16)
        self.notes: list[str] = []
        """What happened beside the page since it was last asked: dialogs, windows, downloads."""
        self.url = ""
        self.has_begun = False

    async def begin(self, kind: str, seed: int) -> None:
        """Load a page kind and start its task. Raises WorldFailed where the page has none."""
        self.url = self.site.url(kind)
        await self.context.add_init_script(f"({LISTENING})({seed % 2**31})")
        await self.context.route("**/*", self._answer)
        await self.context.clock.install(time=START)
        self.page = await self.context.new_page()
        self.page.set_default_timeout(10_000)
        self.page.on("dialog", self._dismiss)
        self.page.on("download", lambda _: self.notes.append("A download was refused."))
        self.context.on("page", self._close_other)
        await self.page.goto(self.url, wait_until="load")
        self.has_begun = True
        await self.context.clock.pause_at(START.timestamp() + 10)
        is_page = "typeof core === 'object' && typeof genProblem === 'function' && !!document.getElementById('query')"
        if not await self.page.evaluate(is_page):
            raise WorldFailed(f"The page {kind} is not of MiniWoB's form: it has no core, genProblem or #query.")
        await self.page.evaluate(
            "([seed, most]) => { core.EPISODE_MAX_TIME = most; Math.seedrandom(seed);"
            " if (core.cover_div === null) core.startEpisode(); core.startEpisodeReal(); }",
            [json.dumps(seed), FOREVER_MS],
        )
        await self._settle()
        if not await self.page.evaluate("WOB_TASK_READY"):
            await self.context.clock.run_for(SETTLE_AGAIN_MS)
            await self._settle()

    async def look(self) -> View:
        """Read the page. Numbers count from here."""
        if not self.page.url.startswith(self.url):
            return View("", (0, 0), "", None, True)
        done, reward, said = await self.page.evaluate("[WOB_DONE_GLOBAL, WOB_RAW_REWARD_GLOBAL, core.getUtterance()]")
        goal = str(said.get("utterance", said) if isinstance(said, dict) else said)
        if done:
            return View("", (0, 0), goal, as_reward(reward), False)
        seen = await self.page.evaluate(WALKING)
        return View(tree.write(seen["lines"]), tuple(seen["scrolled"]), goal, None, False)

    def take_notes(self) -> list[str]:
        notes, self.notes = self.notes, []
        return notes

    async def picture(self) -> bytes:
        """The page as PNG."""
        return await self.page.screenshot(animations="disabled", caret="hide")

    async def click(self, number: int) -> None:
        """Press the mouse on an element; an option of a list is chosen."""
        said = await self._touch(number, "click")
        if said.get("at"):
            await self.page.mouse.click(*said["at"])
        await self._settle()

    async def type(self, number: int, text: str) -> None:
        """Put a text in place of what stands in a field."""
        said = await self._touch(number, "type", text)
        if said.get("keys"):
            if text:
                await self.page.keyboard.type(text)
            else:
                await self.page.keyboard.press("Delete")
        await self._settle()

    async def key(self, name: str) -> None:
        """Press a key, or keys joined by +."""
        *held, last = name.split("+") if name != "+" else ["+"]
        if any(each not in HELD for each in held) or not (last in PRESSED or len(last) == 1):
            raise Impossible(
                f"there is no key {name!r:.40}: there are characters, {', '.join(PRESSED)}; and Control+, …"
            )
        await self.page.keyboard.press(name)
        await self._settle()

    async def scroll(self, number: int | None, pixels: int) -> None:
        """Scroll an element, or what scrolls around it; without a number, the page. Down is positive."""
        await self._touch(number, "scroll", pixels)
        await self._settle()

    async def back(self) -> None:
        """Go back to where a link of this page led away from."""
        if not await self.page.evaluate("navigation.canGoBack"):
            raise Impossible("there is nothing to go back to.")
        await self.page.evaluate("history.back()")
        await self._settle()

    async def _touch(self, number: int | None, how: str, what: str | int = "") -> dict[str, Any]:
        said: dict[str, Any] = await self.page.evaluate(TOUCHING, [number, how, what])
        if said.get("refused"):
            raise Impossible(said["refused"])
        return said

    async def _settle(self) -> None:
        """Let a page do what an action brought about: its own clock goes on, and the browser draws."""
        for _ in range(2):
            if not self.page.url.startswith(self.url):
                return
            await self.context.clock.run_for(SETTLE_MS // 2)
            await self.page.evaluate(
                "new Promise((done) => window.__seen.frame(() => window.__seen.frame(() => done())))"
            )

    async def _answer(self, route: Any) -> None:
        """Answer from the folder; a second document of any address is answered by nothing, so the page stays."""
        request = route.request
        address = urlsplit(request.url)
        if request.is_navigation_request() and self.has_begun:
            self.notes.append("The page tried to lead elsewhere, and stayed.")
            await route.fulfill(status=204)
            return
        found = None
        if f"{address.scheme}://{address.netloc}" == ORIGIN:
            found = await asyncio.to_thread(self.site.read, address.path, self.nonce)
        if found is None:
            await route.abort()
            return
        headers = {"Content-Type": found[1], "Content-Security-Policy": policy(self.nonce)}
        await route.fulfill(status=200, body=found[0], headers=headers)

    async def _dismiss(self, dialog: Any) -> None:
        self.notes.append(f"The page said {tree.quote(dialog.message)}, and it was dismissed.")
        await dialog.dismiss()

    async def _close_other(self, page: Any) -> None:
        if page is not self.page:
            self.notes.append("A window that opened was closed.")
            await page.close()


def as_reward(said: Any) -> float:
    """A page's raw reward within -1 to 1. Raises WorldFailed where it is no number."""
    if isinstance(said, bool) or not isinstance(said, int | float) or said != said:
        raise WorldFailed(f"The page awarded {said!r:.40}, which is no number.")
    return max(-1.0, min(1.0, float(said)))

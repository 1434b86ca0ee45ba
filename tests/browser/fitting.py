"""What a page comes to: asked until it is so, since one that still loads, or is drawn anew, has nothing to measure."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable
from time import monotonic
from typing import Any

from playwright.async_api import Locator, Page, Route, TimeoutError

from tests.chromium import PATIENCE_MS

FITS = "() => document.readyState === 'complete' && document.documentElement.scrollWidth <= innerWidth"
STILL = f"() => ({FITS})() && document.scrollingElement.scrollTop === 0"
PROBE = "/healthz?is-held"


async def fits(tab: Page) -> None:
    """The page is not scrolled sideways. The caller has waited for something that only the wanted page shows.

    Raises:
        TimeoutError: It stays wider than its window (Playwright's).
    """
    await tab.wait_for_function(FITS)


async def keeps_still(tab: Page) -> None:
    """Nothing is scrolled sideways, and nothing but the list of messages at all."""
    await tab.wait_for_function(STILL)


UNSCROLLED = f"""() => ({FITS})()
  && [...document.querySelectorAll('.table.stacked')].length
  && [...document.querySelectorAll('.table-scroll')].every((one) => one.scrollWidth <= one.clientWidth)"""
APART = """() => {
  const cards = [...document.querySelectorAll('.page.narrow > .card, .page.narrow > .under')];
  const boxes = cards.map((one) => one.getBoundingClientRect());
  return document.readyState === 'complete' && boxes.length > 1
    && boxes.slice(1).every((box, at) => box.top - boxes[at].bottom >= 16);
}"""


async def tables_fit(tab: Page) -> None:
    """No table of the page is to be scrolled sideways."""
    await tab.wait_for_function(UNSCROLLED)


async def cards_stand_apart(tab: Page) -> None:
    """What follows a card of a sign-in page does not touch it."""
    await tab.wait_for_function(APART)


GONE = "gone"
SAME = "([about, wanted]) => JSON.stringify(%s) === JSON.stringify(wanted)"
WATCHED = f"""(element, [about, wanted, patience]) => new Promise((resolve, reject) => {{
  const end = performance.now() + patience;
  const look = () => {{
    const read = JSON.stringify(%s);
    if (read === JSON.stringify(wanted)) resolve("");
    else if (!element.isConnected) resolve("{GONE}");
    else if (performance.now() > end) resolve(read ?? "undefined");
    else requestAnimationFrame(() => {{ try {{ look(); }} catch (error) {{ reject(error); }} }});
  }};
  look();
}})"""
"""Resolves to nothing once it is so, and else to what the page says in its stead."""


async def becomes(place: Page | Locator, script: str, wanted: Any = True, *, about: Any = None) -> None:
    """What a script reads of a page, or of the one element of a locator, comes to be as wanted.

    The page looks again at each frame that it draws. An element that is taken away is looked for anew.
    """
    if isinstance(place, Page):
        try:
            await place.wait_for_function(SAME % f"({script})(about)", arg=[about, wanted], timeout=PATIENCE_MS)
        except TimeoutError:
            read = await place.evaluate(script, about)
            raise AssertionError(f"it stays {read!r}, and is wanted as {wanted!r}: {script}") from None
        return
    end = monotonic() + PATIENCE_MS / 1000
    while read := await place.evaluate(WATCHED % f"({script})(element, about)", [about, wanted, PATIENCE_MS]):
        stays = f"it stays {read}, and is wanted as {wanted!r}: {script}"
        assert read == GONE, stays
        assert monotonic() < end, stays


async def hold(
    tab: Page, where: str | re.Pattern[str], keep: Callable[[Route], Awaitable[None]], *, first: int | None = None
) -> None:
    """From now on requests to `where` are kept: all of them, or the `first` few.

    `Page.route` returns before the page asks its way, so that a request which a key sets going at once slips past: here
    one has been seen to be kept. And with its `times` all keeping ends with the last of them, where another request
    that is on its way just then may be lost.
    """
    kept = 0

    async def keep_or_pass(route: Route) -> None:
        nonlocal kept
        kept += 1
        await (keep(route) if first is None or kept <= first else route.continue_())

    await tab.route(where, keep_or_pass)
    await tab.route(re.compile(re.escape(PROBE)), lambda route: route.fulfill(status=204))
    await tab.wait_for_function("(path) => fetch(path).then(({ status }) => status === 204)", arg=PROBE)

"""Whether a page fits its window: asked until it does, since a page that still loads has nothing to measure."""

from __future__ import annotations

from playwright.async_api import Page

FITS = "() => document.readyState === 'complete' && document.documentElement.scrollWidth <= innerWidth"
STILL = f"() => ({FITS})() && document.scrollingElement.scrollTop === 0"


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

"""axe finds nothing against WCAG 2.2 AA on any page, and no text is too small: light, dark, and as wide as a phone."""

from __future__ import annotations

import re

import pytest
from asgiref.sync import sync_to_async
from django.urls import get_resolver, reverse

from accounts.models import Role
from accounts.roles import give
from tests.browser.test_teaching_in_browser import chat
from tests.webapp.console.test_navigation import names

pytest.importorskip("playwright.async_api", reason="playwright is not installed: pip install -e '.[browser]'")
axe = pytest.importorskip("axe_playwright_python.async_playwright", reason="axe is not installed: make test-tools")

__all__ = ["chat"]

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True, serialized_rollback=True)]

RULES = {"runOnly": ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa"], "resultTypes": ["violations"]}
SMALL_TEXT = """() => {
    const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
    const found = new Set();
    for (let node = walker.nextNode(); node; node = walker.nextNode()) {
        const [at, words] = [node.parentElement, node.textContent.trim()];
        if (!words || at.closest("script, style, svg, .visually-hidden") || !at.checkVisibility()) continue;
        const size = parseFloat(getComputedStyle(at).fontSize);
        if (size && size < 14) found.add(`${size} px: ${at.className || at.tagName}: ${words.slice(0, 40)}`);
    }
    return [...found];
}"""
"""What is written in less than 14 px. Charts are pictures, which grow and shrink; their figures stand in tables."""

NO_PAGE = re.compile(
    r"\.(json|webmanifest)$|/(healthz|readyz|metrics|admin)|logout|console/raw|notices/waiting|/(more|erasing|pick)/"
)
"""Addresses that answer with no page, or send their reader elsewhere."""


def addresses() -> list[str]:
    """Of every page that takes no argument."""
    found = {reverse(name) for name, _ in names(get_resolver().url_patterns)}
    return sorted(one for one in found if not NO_PAGE.search(one))


@pytest.mark.timeout(600)
@pytest.mark.parametrize("look", ["light", "dark", "phone"])
async def test_axe_finds_nothing_on_any_page(open_tab, site, engine, ana, chat, look):
    await sync_to_async(give)(ana, Role.ADMINISTRATOR)
    turn = await chat.turns.afirst()
    pages = [*addresses(), reverse("chat:session", args=[chat.pk]), reverse("console:turn", args=[turn.pk])]
    pages += [reverse("console:checkpoint", args=[0]), reverse("people:one", args=[ana.pk]), "/no/such/page"]
    tab = await open_tab("/")
    await tab.emulate_media(color_scheme="dark" if look == "dark" else "light", reduced_motion="reduce")
    if look == "phone":
        await tab.set_viewport_size({"width": 390, "height": 844})
    faults, looked = [], 0
    for page in pages:
        answer = await tab.request.get(site + page)
        if answer.status == 405 or "text/html" not in answer.headers.get("content-type", ""):
            continue
        await tab.goto(site + page)
        found = await axe.Axe().run(tab, options=RULES)
        looked += 1
        faults += [(page, small) for small in await tab.evaluate(SMALL_TEXT)]
        faults += [(page, one["id"], one["nodes"][0]["html"][:160]) for one in found.response["violations"]]
    assert looked >= 45
    assert faults == [], "\n".join(map(str, faults))

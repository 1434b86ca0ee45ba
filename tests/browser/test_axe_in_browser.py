"""axe finds nothing against WCAG 2.2 AA on any page, and no text is too small: light, dark, and as wide as a phone."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

import pytest
from asgiref.sync import sync_to_async
from django.urls import get_resolver, reverse

from accounts.models import Role
from accounts.roles import give
from installation.places import ROOT
from tests.browser.conftest import chat
from tests.webapp.console.test_navigation import names

pytest.importorskip("playwright.async_api", reason="playwright is not installed: pip install -e '.[browser]'")
axe = pytest.importorskip("axe_playwright_python.async_playwright", reason="axe is not installed: make test-tools")

__all__ = ["chat"]

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True, serialized_rollback=True)]

WCAG: dict[str, Any] = {"runOnly": ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa"]}
COLOURS: dict[str, Any] = {"runOnly": {"type": "rule", "values": ["color-contrast", "link-in-text-block"]}}
"""All rules of these that look at colours."""

HASTE: dict[str, Any] = {"resultTypes": ["violations"], "preload": {"assets": ["media"], "timeout": 10_000}}
"""No rule of these asks for what the style sheets say, which axe would read anew for each look."""

PARTS = 3
"""So that workers share the pages."""

PICTURES = (
    Path(os.environ.get("PICTURES_IN", ROOT / "artefacts")) / "pages" if os.environ.get("PAGES_PICTURES") else None
)
"""Where a picture of each page in each look is kept, <look>/<name>.png, when they are asked for."""
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


class Looks:
    """One page as it was loaded, looked at in each way: what the sheet does when the colours or the width change is
    what it does from the start, and the scripts that ask for either, those of plots, draw again."""

    def __init__(self, tab, name: str) -> None:
        self.tab, self.name = tab, name
        self.faults: list[tuple[str, ...]] = []

    async def look(self, looks: tuple[str, ...]) -> list[tuple[str, ...]]:
        """What axe finds, and what is too small: light, dark (where but colours are other), as wide as a phone."""
        await self.tab.evaluate(axe.Axe().axe_script)
        if "light" in looks:
            await self.see("light", "light", (1200, 800), WCAG)
        if "dark" in looks:
            await self.see("dark", "dark", (1200, 800), COLOURS)
        if "phone" in looks:
            await self.see("phone", "light", (390, 844), WCAG)
        return self.faults

    async def see(self, look: str, scheme: str, size: tuple[int, int], rules: dict[str, Any]) -> None:
        await self.tab.set_viewport_size({"width": size[0], "height": size[1]})
        await self.tab.emulate_media(color_scheme=scheme, reduced_motion="reduce")
        found = await self.tab.evaluate("(rules) => axe.run(rules)", rules | HASTE)
        self.faults += [(look, self.name, small) for small in await self.tab.evaluate(SMALL_TEXT)]
        self.faults += [(look, self.name, one["id"], one["nodes"][0]["html"][:160]) for one in found["violations"]]
        if PICTURES:
            await self.tab.screenshot(path=PICTURES / look / f"{self.name}.png", full_page=True)


@pytest.mark.timeout(600)
@pytest.mark.parametrize("part", range(PARTS))
@pytest.mark.parametrize(
    "looks", [("light", "dark"), pytest.param(("phone",), marks=pytest.mark.repeats)], ids=["desktop", "phone"]
)
async def test_axe_finds_nothing_on_any_page_light_dark_or_on_a_phone(open_tab, site, engine, ana, chat, part, looks):
    await sync_to_async(give)(ana, Role.ADMINISTRATOR)
    turn = await chat.turns.afirst()
    pages = {(one.strip("/").replace("/", "-") or "new-chat"): one for one in addresses()} | {
        "chat": reverse("chat:session", args=[chat.pk]),
        "console-turn": reverse("console:turn", args=[turn.pk]),
        "console-checkpoint": reverse("console:checkpoint", args=[0]),
        "console-person": reverse("people:one", args=[ana.pk]),
        "not-found": "/no/such/page",
    }
    tab = await open_tab("/")
    faults, looked = [], 0
    for name, page in sorted(pages.items())[part::PARTS]:
        answer = await tab.request.get(site + page)
        if answer.status == 405 or "text/html" not in answer.headers.get("content-type", ""):
            continue
        await tab.set_viewport_size({"width": 1200, "height": 800})
        await tab.emulate_media(color_scheme="light", reduced_motion="reduce")
        await tab.goto(site + page)
        faults += await Looks(tab, name).look(looks)
        looked += 1
    assert looked >= 45 // PARTS
    assert faults == [], "\n".join(map(str, faults))

"""axe finds nothing on pages with much to show, which an installation that was just made has nothing of."""

from __future__ import annotations

import pytest
from django.urls import reverse

from benchmarks.seeding.amounts import Amounts
from benchmarks.seeding.whole import seed
from judge.models import Hint
from tests.browser.test_axe_in_browser import Looks

pytest.importorskip("playwright.async_api", reason="playwright is not installed: pip install -e '.[browser]'")
from playwright.async_api import expect

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True, serialized_rollback=True)]

PAGES = {
    "console:hint": ".legend .down-4",
    "console:checkpoints": "tbody tr:nth-child(2) th a",
    "console:engines": "dd .badge + .badge, .chip.bad",
    "console:storage": "[aria-labelledby=gone-title] .badge + .badge",
    "console:cleanings": ".table-scroll tbody tr",
    "console:audit": "tbody tr",
    "connect:keys": "tbody tr",
}
"""What each is looked at for: where it is not shown, axe says nothing of it."""


@pytest.fixture
def ana(transactional_db, settings, tmp_path):
    """The administrator of a year's work, and of checkpoints enough that the oldest weights are gone."""
    settings.DATA_DIR = tmp_path
    return seed(Amounts(turns=120, chats=6, checkpoints=24, people=6, episodes=8, deeds=30)).administrator


@pytest.mark.timeout(600)
async def test_axe_finds_nothing_on_full_pages_light_dark_or_on_a_phone(open_tab, site, engine, ana):
    hint = await Hint.objects.filter(status="waiting").afirst()
    faults, tab = [], await open_tab("/")
    for name, shown in PAGES.items():
        await tab.set_viewport_size({"width": 1200, "height": 800})
        await tab.emulate_media(color_scheme="light", reduced_motion="reduce")
        await tab.goto(site + reverse(name, args=[hint.pk] if name == "console:hint" else []))
        await expect(tab.locator(shown).first).to_be_visible()
        faults += await Looks(tab, "full-" + name.partition(":")[2]).look(("light", "dark", "phone"))
    assert faults == [], "\n".join(map(str, faults))

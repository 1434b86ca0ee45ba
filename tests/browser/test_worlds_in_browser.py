"""An attempt is played back in a real browser: by keyboard, from the step that an address names, and as a list."""

from __future__ import annotations

import pytest

from benchmarks.played_episodes import seed
from episodes.models import Episode

pytest.importorskip("playwright.async_api", reason="playwright is not installed: pip install -e '.[browser]'")
from playwright.async_api import expect

from tests.browser.fitting import fits

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True, serialized_rollback=True)]


@pytest.fixture
def failed(ana) -> Episode:
    """One of eight attempts of Ana's; each has five steps."""
    seed(ana, 8)
    found = Episode.objects.filter(ending="failed").first()
    assert found is not None
    return found


async def test_an_attempt_is_played_back_by_keyboard_from_the_step_that_is_named(open_tab, failed):
    tab = await open_tab(f"/worlds/episodes/{failed.pk}/#step-2")

    async def shows(*numbers):
        for n in range(1, 6):
            step = expect(tab.locator(f"#step-{n}"))
            await (step.to_be_visible() if n in numbers else step.to_be_hidden())

    where = tab.locator("[data-where]")
    await expect(where).to_have_text("Step 2 of 5")
    await shows(2)
    for key, number in (("ArrowRight", 3), ("End", 5), ("ArrowRight", 5), ("ArrowLeft", 4), ("Home", 1)):
        await tab.keyboard.press(key)
        await expect(where).to_have_text(f"Step {number} of 5")
        await shows(number)
    await tab.get_by_role("navigation", name="Steps").get_by_role("link", name="4").click()
    await shows(4)
    assert tab.url.endswith("#step-4")
    await tab.get_by_role("button", name="All steps").click()
    await shows(1, 2, 3, 4, 5)


async def test_no_page_of_worlds_is_pushed_sideways_on_a_phone(open_tab, failed):
    tab = await open_tab("/worlds/")
    await tab.set_viewport_size({"width": 390, "height": 844})
    for path in ("", "attempts/", "tasks/", "groups/", f"groups/{failed.group_id}/", f"episodes/{failed.pk}/"):
        await tab.goto(f"{tab.url.split('/worlds/')[0]}/worlds/{path}")
        await fits(tab)


async def test_without_scripts_an_attempt_is_a_list(open_tab, failed):
    tab = await open_tab(f"/worlds/episodes/{failed.pk}/")
    plain = await tab.context.browser.new_context(java_script_enabled=False)
    await plain.add_cookies(await tab.context.cookies())
    page = await plain.new_page()
    await page.goto(tab.url)
    for n in range(1, 6):
        await expect(page.locator(f"#step-{n}")).to_be_visible()
    await expect(page.locator("[data-player]")).to_be_hidden()
    await plain.close()

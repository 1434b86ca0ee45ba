"""Tools in a chat, in a real browser: choose one, be asked, allow it, see the call and the answer; desk and phone."""

from __future__ import annotations

import pytest
from asgiref.sync import sync_to_async

from accounts.models import Role
from accounts.roles import give
from chat.replying import live_replies
from chat.tools import leases, takeovers
from chat.tools.calls import ToolCall, ToolLease

pytest.importorskip("playwright.async_api", reason="playwright is not installed: pip install -e '.[browser]'")
from playwright.async_api import expect

from tests.browser.fitting import keeps_still
from tests.chat.composing.test_composing_in_browser import shoot
from tests.chat.page.acts import say
from tests.chat.tools.conftest import calling, let_use, mark_safe

RULES = {"runOnly": ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa"], "resultTypes": ["violations"]}

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True, serialized_rollback=True)]


SIZES = pytest.mark.parametrize(
    "size",
    [{"width": 1280, "height": 800}, pytest.param({"width": 390, "height": 844}, marks=pytest.mark.repeats)],
    ids=["desk", "phone"],
)


@SIZES
async def test_a_tool_is_chosen_allowed_and_seen_and_the_model_answers(open_tab, engine, session, shop, size):
    tab = await open_tab(f"/chats/{session.pk}/")
    await tab.set_viewport_size(size)
    await tab.get_by_label("Chat settings").click()
    await tab.get_by_text("12 tools").click()
    await tab.get_by_role("checkbox", name="price").check()
    await shoot(tab, "choose-tools", size)
    await tab.get_by_role("button", name="Save").click()
    other = await open_tab(f"/chats/{session.pk}/")

    engine.says(calling(("price", {"item": "bread"})))
    engine.says("Bread costs 4.")
    await say(tab, "What does bread cost?")
    for each in (tab, other):
        await expect(each.get_by_text("May price of shop be called with this?")).to_be_visible()
        await expect(each.locator(".call pre").first).to_contain_text('"item": "bread"')
    await expect(tab.get_by_role("button", name="Send")).to_be_visible()
    await shoot(tab, "asked-first", size)
    await keeps_still(tab)

    await tab.get_by_role("button", name="Allow once").click()
    for each in (tab, other):
        await expect(each.locator(".turn .prose").last).to_have_text("Bread costs 4.")
        await expect(each.locator(".call .chip")).to_have_text("done")
        await expect(each.get_by_role("button", name="Allow once")).to_have_count(0)
        await expect(each.get_by_role("button", name="Good reply")).to_have_count(1)
    await expect(tab.locator(".said")).to_have_count(1)
    summary = tab.locator(".call summary")
    if not await tab.locator(".call").evaluate("call => call.open"):
        await summary.click()
    await expect(tab.locator(".call pre").last).to_have_text("4")
    await shoot(tab, "called", size)
    await keeps_still(tab)
    await tab.reload()
    await expect(tab.locator(".call .chip")).to_have_text("done")
    await expect(tab.locator(".call pre").last).to_be_hidden()


async def test_a_tool_at_work_is_shown_live_and_stopped(open_tab, engine, session, shop):
    await let_use(session, shop, "sleep")
    await mark_safe(shop, "sleep")
    tab = await open_tab(f"/chats/{session.pk}/")
    engine.says(calling(("sleep", {})))
    await say(tab, "Sleep")
    await expect(tab.locator(".call .chip")).to_have_text("at work")
    await expect(tab.get_by_role("button", name="Send")).to_be_hidden()
    await tab.get_by_role("button", name="Stop").click()
    await expect(tab.locator(".call .chip")).to_have_text("stopped")
    await expect(tab.get_by_role("button", name="Send")).to_be_visible()
    assert await ToolCall.objects.filter(status="stopped").acount() == 1


async def test_escape_stops_a_tool_and_refuse_is_by_keyboard(open_tab, engine, session, shop):
    await let_use(session, shop, "sleep")
    tab = await open_tab(f"/chats/{session.pk}/")
    engine.says(calling(("sleep", {})), times=2)
    await say(tab, "Sleep")
    await tab.get_by_role("button", name="Always in this chat").press("Enter")
    await expect(tab.locator(".call .chip")).to_have_text("at work")
    await tab.locator("h1").first.click()
    await tab.keyboard.press("Escape")
    await expect(tab.locator(".call .chip")).to_have_text("stopped")


async def test_an_open_page_shows_what_another_process_makes_of_a_killed_ones_tools(
    open_tab, engine, session, shop, other, settings, data_dir
):
    settings.DATA_DIR = data_dir
    await let_use(session, shop, "sleep")
    tab = await open_tab(f"/chats/{session.pk}/")
    engine.says(calling(("sleep", {})))
    await say(tab, "Sleep")
    await expect(tab.get_by_role("button", name="Allow once")).to_be_visible()
    call = await ToolCall.objects.select_related("turn").aget()
    await ToolCall.objects.aupdate(status="running")  # as the other process has it in hand
    await ToolLease.objects.acreate(turn=call.turn, holder=other.name)
    await live_replies.publish_calls(call.turn)
    await expect(tab.locator(".call .chip")).to_have_text("at work")
    assert await sync_to_async(leases.lost)() == []

    other.dies()
    engine.says("I did not sleep.", to="Talkback was stopped while this tool was at work")
    (lost,) = await sync_to_async(leases.lost)()
    assert await takeovers.take_up(lost, engine)

    await expect(tab.locator(".call .chip")).to_have_text("broken off")
    await expect(tab.locator(".turn .prose").last).to_have_text("I did not sleep.")
    await expect(tab.get_by_role("button", name="Send")).to_be_visible()


@SIZES
async def test_the_page_of_servers_fits_and_axe_finds_nothing_on_it_nor_in_a_chat_with_calls(
    open_tab, engine, session, shop, ana, size
):
    axe = pytest.importorskip("axe_playwright_python.async_playwright", reason="axe is not installed: make test-tools")
    await sync_to_async(give)(ana, Role.OPERATOR)
    await let_use(session, shop, "price", "put in")
    await mark_safe(shop, "price")
    tab = await open_tab("/console/tools/")
    await tab.set_viewport_size(size)
    await expect(tab.get_by_role("checkbox", name="price only reads")).to_be_checked()
    await tab.get_by_role("checkbox", name="die is on").uncheck()
    await tab.get_by_role("button", name="Save").click()
    await expect(tab.get_by_role("checkbox", name="die is on")).not_to_be_checked()
    await shoot(tab, "servers", size)
    await keeps_still(tab)
    faults = [one["id"] for one in (await axe.Axe().run(tab, options=RULES)).response["violations"]]
    engine.says(calling(("price", {"item": "bread"})))
    engine.says(calling(("put_in", {"item": "bread"})))
    await tab.goto(tab.url.replace("/console/tools/", f"/chats/{session.pk}/"))
    await say(tab, "Buy bread")
    await expect(tab.get_by_role("button", name="Allow once")).to_be_visible()
    await tab.locator(".call.done summary").click()
    faults += [one["id"] for one in (await axe.Axe().run(tab, options=RULES)).response["violations"]]
    await shoot(tab, "two-calls", size)
    await keeps_still(tab)
    assert faults == []

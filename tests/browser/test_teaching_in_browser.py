"""The moment of teaching, in a real browser: nothing moves, what opens is in view, and what will not teach says so."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from chat.models import Session, Turn
from checkpoints.models import Checkpoint
from feedback.models import Feedback
from judge.models import Hint, Judgement
from training.models import Sample

pytest.importorskip("playwright.async_api", reason="playwright is not installed: pip install -e '.[browser]'")
from playwright.async_api import Locator, Page, expect

from tests.browser.fitting import becomes, hold

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True, serialized_rollback=True)]

DESKTOP, PHONE = {"width": 1280, "height": 860}, {"width": 390, "height": 844}
LONG = "\n\n".join(
    f"A rainbow is an arc of light in {n} colours. Rain and sun make it together, and the eye sees it in the sky."
    for n in range(1, 4)
)


def say_in(session: Session, position: int, **fields: Any) -> Turn:
    fields = {"status": "served", "finish_reason": "stop", "text": LONG, "response_ids": [1, 2]} | fields
    messages = [{"role": "user", "content": f"What is a rainbow? ({position + 1})"}]
    return Turn.objects.create(
        session=session,
        position=position,
        follows=session.turns.last(),
        checkpoint=Checkpoint.live(),
        messages=messages,
        **fields,
    )


def judge(turn: Turn, reward: int | None, *, lesson: bool = True, **fields: Any) -> Judgement:
    """A verdict by votes, with the sample it made."""
    sample = None
    if lesson:
        ids = {"prompt_ids": [5], "response_ids": [1, 2], "behaviour_logprobs": [-1.0, -1.0]}
        sample = Sample.objects.create(checkpoint=turn.checkpoint, reward=float(reward or 0), **ids)
    Turn.objects.filter(pk=turn.pk).update(status="judged")
    return Judgement.objects.create(turn=turn, reward=reward, reward_from="votes", sample=sample, **fields)


@pytest.fixture
def chat(ana, monkeypatch) -> Session:
    """Twenty turns, all on one page: some liked, some not, one cut short, one off the record, and one of which a judge
    guessed a wish."""
    monkeypatch.setattr("chat.branches.SHOWN", 20)
    session = Session.objects.create(user=ana, title="Rainbows")
    turns = [say_in(session, n, text=LONG if n % 3 else "A rainbow is an arc of light.") for n in range(20)]
    judge(turns[2], 1)
    judge(turns[4], -1)
    judge(turns[5], None, lesson=False, reason_code="unclear", reason="unclear")
    guess = judge(turns[6], -1, hint="Add type hints.", hint_from="votes")
    Hint.objects.create(
        turn=guess.turn, status="accepted", source="user", proposed=guess.hint, text=guess.hint, confidence=1.0
    )
    Turn.objects.filter(pk=turns[8].pk).update(finish_reason="length")
    Turn.objects.filter(pk=turns[9].pk).update(learns=False)
    Feedback.objects.create(turn=turns[3], by=ana, kind="thumb", value=-1, tags=["too long"])
    Feedback.objects.create(turn=turns[3], by=ana, kind="guidance", text="Answer in one or two short sentences.")
    Feedback.objects.create(turn=turns[7], by=ana, kind="rewrite", text="An arc of colours in the sky.")
    Feedback.objects.create(turn=turns[12], by=ana, kind="marks", spans=[[0, 9, 1]])
    return session


async def article(tab: Page, position: int) -> Locator:
    return tab.locator("#turns > article").nth(position)


BOXES = """(turn) => [...turn.querySelectorAll(".about > .journey > summary, .controls button, .record-turn button")]
    .filter((one) => one.offsetParent)
    .map((one) => {
        const { x, y } = one.getBoundingClientRect();
        const row = turn.getBoundingClientRect();
        return [one.id || one.title, Math.round(x - row.x), Math.round(y - row.y)];
    })"""
"""Where each control of a turn is, measured from the turn."""

SCROLLED = """() => [document.scrollingElement.scrollTop, document.scrollingElement.scrollLeft, document.body.scrollTop,
    document.querySelector(".scroll").scrollLeft, document.querySelector(".chats").scrollLeft,
    document.scrollingElement.scrollHeight - window.innerHeight]"""
"""How far anything but the list of messages is scrolled, or could be."""

SEEN = """(element) => {
    const [box, frame] = [element, document.querySelector(".scroll")].map((one) => one.getBoundingClientRect());
    const most = Math.min(box.height, frame.height);
    const seen = Math.min(box.bottom, frame.bottom) - Math.max(box.top, frame.top);
    if (box.height > 0 && box.left >= 0 && box.right <= window.innerWidth && seen >= most - 60) return true;
    return JSON.stringify([element.id, element.closest("article")?.ariaLabel, box, frame]);
}"""
"""Whether all of it is seen, or as much as the list has room for; else where it is."""


async def stays(tab: Page) -> None:
    await becomes(tab, SCROLLED, [0] * 6)


async def sees(tab: Page, what: Locator) -> None:
    await expect(what).to_be_visible()
    await becomes(what, SEEN)
    await stays(tab)


@pytest.mark.parametrize("size", [DESKTOP, pytest.param(PHONE, marks=pytest.mark.repeats)], ids=["desktop", "phone"])
async def test_nothing_but_the_list_of_messages_scrolls_and_no_control_moves(open_tab, chat, size):
    tab = await open_tab(f"/chats/{chat.pk}/")
    await tab.set_viewport_size(size)
    await stays(tab)
    for position in (*range(10), 12, 19):  # each kind of turn in `chat`, and the last one; the others are as the first
        turn = await article(tab, position)
        await turn.scroll_into_view_if_needed()
        # the chip, and what is behind it
        await turn.locator(".journey > summary").first.click()
        await sees(tab, turn.locator(".journey .panel").first)
        await tab.keyboard.press("Escape")
        # Teach opens and closes by the same button, and moves no other one
        before = await turn.evaluate(BOXES)
        teach = turn.locator(".opener.teach").first
        await teach.click()
        await expect(teach).to_have_attribute("aria-expanded", "true")
        box = turn.locator(".correction").first
        await sees(tab, box)
        await becomes(turn, BOXES, before)
        for label in ("It should have said", "Next time, do"):
            await box.locator(".tabs label").get_by_text(label).click()
            await sees(tab, box)
        await teach.click()
        await expect(box).to_be_hidden()
        await expect(teach).to_have_attribute("aria-expanded", "false")
        # so does the button of the marks
        marks = turn.locator(".controls .opener").nth(1)
        await marks.click()
        await sees(tab, turn.locator(".marking").first)
        await becomes(turn, BOXES, before)
        await marks.click()
        await becomes(turn, BOXES, before)
        # a thumb up, its reasons, and back
        if position % 4 == 0:
            await turn.get_by_role("button", name="Good reply").click()
            await sees(tab, turn.locator(".reasons"))
            await turn.locator(".reasons label").nth(1).click()
            await stays(tab)
            await turn.get_by_role("button", name="Bad reply").click()
            await expect(turn.locator(".reasons legend")).to_have_text("What was wrong?")
            await sees(tab, box)
            await turn.locator(".reasons label").nth(2).click()
            await expect(turn.locator(".saved")).to_have_text("Saved")
            await turn.get_by_role("button", name="Undo: take back your thumb").click()
            await expect(turn.locator(".reasons label")).to_have_count(0)
        await stays(tab)


@pytest.mark.parametrize("held", ["what is sent", "the answer"])
async def test_the_last_thumb_that_was_pressed_stands_however_late_the_one_before_it_is(open_tab, chat, held):
    tab = await open_tab(f"/chats/{chat.pk}/")
    turn = await article(tab, 0)
    arrives = asyncio.Event()

    async def late(route) -> None:
        answer = await route.fetch() if held == "the answer" else None
        await arrives.wait()
        await route.fulfill(response=answer) if answer else await route.continue_()

    await hold(tab, "**/feedback/", late, first=1)
    up, down = (turn.get_by_role("button", name=name) for name in ("Good reply", "Bad reply"))
    await up.click()
    if held == "the answer":
        await expect(up).to_have_attribute("aria-pressed", "true")  # pushed: the form still waits for its answer
    await down.click()
    arrives.set()
    await expect(down).to_have_attribute("aria-pressed", "true")
    await expect(turn.locator(".reasons legend")).to_have_text("What was wrong?")
    assert await thumbs_of(chat, 0) == [-1]


async def test_a_reason_that_arrives_after_another_thumb_does_not_turn_it(open_tab, chat):
    tab = await open_tab(f"/chats/{chat.pk}/")
    turn = await article(tab, 0)
    arrives = asyncio.Event()

    async def late(route) -> None:
        await arrives.wait()
        await route.continue_()

    await turn.get_by_role("button", name="Good reply").click()
    await expect(turn.locator(".reasons legend")).to_have_text("What was good?")
    await hold(tab, "**/feedback/", late, first=1)
    await turn.locator(".reasons label").nth(1).click()
    down = turn.get_by_role("button", name="Bad reply")
    async with tab.expect_response(lambda answer: "tags=" in (answer.request.post_data or "")):
        await down.click()
        await expect(turn.locator(".reasons legend")).to_have_text("What was wrong?")
        arrives.set()
    await expect(down).to_have_attribute("aria-pressed", "true")
    assert await thumbs_of(chat, 0) == [-1]


async def test_an_answer_to_a_thumb_that_comes_after_the_bar_was_drawn_anew_finds_its_places(open_tab, chat):
    """Its own button was pushed anew, and then its form: what the page complains of fails the test."""
    tab = await open_tab(f"/chats/{chat.pk}/")
    turn = await article(tab, 18)
    arrives = asyncio.Event()

    async def late(route) -> None:
        answer = await route.fetch()
        await arrives.wait()
        await route.fulfill(response=answer)

    await hold(tab, "**/feedback/", late, first=1)
    down = turn.get_by_role("button", name="Bad reply")
    async with tab.expect_event("requestfinished", lambda request: "kind=thumb" in (request.post_data or "")):
        await down.click()
        await expect(down).to_have_attribute("aria-pressed", "true")  # pushed
        await turn.get_by_label("What should it do next time?").fill("Begin with the answer.")
        await tab.keyboard.press("Enter")
        await expect(turn.locator(".opener.teach")).to_have_attribute("data-given", "")
        arrives.set()
    await tab.evaluate("() => new Promise(requestAnimationFrame)")
    await expect(down).to_have_attribute("aria-pressed", "true")


async def thumbs_of(chat: Session, position: int) -> list[int]:
    rows = Feedback.objects.standing().filter(turn__session=chat, turn__position=position, kind="thumb")
    return [value async for value in rows.values_list("value", flat=True)]


async def test_a_thumb_down_asks_at_once_and_one_tap_asks_for_the_same_again(open_tab, chat):
    tab = await open_tab(f"/chats/{chat.pk}/")
    first, second = await article(tab, 18), await article(tab, 19)
    await first.get_by_role("button", name="Bad reply").click()
    box = first.get_by_label("What should it do next time?")
    await expect(box).to_be_focused()
    await tab.keyboard.type("Begin with the answer.")
    await tab.keyboard.press("Enter")
    await expect(first.locator(".saved")).to_have_text("Saved")
    await expect(first.locator(".correction")).to_be_hidden()
    await expect(first.locator(".opener.teach")).to_have_attribute("data-given", "")

    # What was just said is offered under every other reply, before what was said earlier.
    await second.get_by_role("button", name="Bad reply").click()
    chips = second.locator("[data-lately] button")
    await expect(chips).to_have_text(["Begin with the answer.", "Answer in one or two short sentences."])
    await chips.first.click()
    await expect(second.locator(".saved")).to_have_text("Saved")
    said = Feedback.objects.standing().filter(kind="guidance", text="Begin with the answer.")
    assert {row.turn_id async for row in said} == {
        turn.pk async for turn in Turn.objects.filter(session=chat, position__in=(18, 19))
    }
    await stays(tab)


async def test_a_thumb_that_is_taken_back_takes_an_untouched_question_along(open_tab, chat):
    tab = await open_tab(f"/chats/{chat.pk}/")
    turn = await article(tab, 19)
    down = turn.get_by_role("button", name="Bad reply")
    await down.click()
    await expect(down).to_have_attribute("aria-pressed", "true")
    await down.click()
    await expect(turn.locator(".correction")).to_be_hidden()
    await expect(down).to_have_attribute("aria-pressed", "false")
    await down.click()
    await turn.get_by_label("What should it do next time?").fill("Half a")
    await expect(down).to_have_attribute("aria-pressed", "true")
    await down.click()
    await expect(down).to_have_attribute("aria-pressed", "false")
    await expect(turn.get_by_label("What should it do next time?")).to_have_value("Half a")
    await expect(turn.locator(".correction")).to_be_visible()


async def test_enter_saves_and_shift_enter_is_a_new_line_in_both_boxes(open_tab, chat):
    tab = await open_tab(f"/chats/{chat.pk}/")
    turn = await article(tab, 18)
    for tab_name, label, kind in (
        ("Next time, do", "What should it do next time?", "guidance"),
        ("It should have said", "What should it have said?", "rewrite"),
    ):
        await turn.locator(".opener.teach").click()
        await turn.locator(".tabs label").get_by_text(tab_name).click()
        keys = turn.locator(".send-keys:visible")
        await expect(keys).to_have_text("Enter saves, Shift+Enter for a new line")
        await turn.get_by_label(label).fill("One.")
        await tab.keyboard.press("End")
        await tab.keyboard.press("Shift+Enter")
        await tab.keyboard.type("Two.")
        await tab.keyboard.press("Enter")
        await expect(turn.locator(".correction")).to_be_hidden()
        assert [row.text async for row in Feedback.objects.standing().filter(turn__position=18, kind=kind)] == [
            "One.\nTwo."
        ]


async def test_a_comment_and_a_reason_say_that_they_were_saved(open_tab, chat):
    tab = await open_tab(f"/chats/{chat.pk}/")
    turn = await article(tab, 19)
    await turn.get_by_role("button", name="Good reply").click()
    await turn.locator(".reasons label").get_by_text("clear").click()
    await expect(turn.locator(".saved")).to_have_text("Saved")
    await turn.locator(".saved").evaluate("sign => sign.replaceChildren()")
    await turn.get_by_label("Anything else about this reply").fill("Just right.")
    await tab.keyboard.press("Enter")
    await expect(turn.locator(".saved")).to_have_text("Saved")
    await expect(tab.locator("#announcer")).to_have_text("Saved.")


async def test_what_a_judge_guessed_is_refused_in_one_tap_in_the_chip(open_tab, chat):
    tab = await open_tab(f"/chats/{chat.pk}/")
    turn = await article(tab, 6)
    await turn.locator(".journey > summary").click()
    await expect(turn.locator(".journey q")).to_have_text("Add type hints.")
    await turn.get_by_role("button", name="That is not what I meant").click()
    await expect(turn.locator(".journey q")).to_have_count(0)
    hint = await Hint.objects.aget()
    assert (hint.status, hint.decided_by_id) == ("rejected", chat.user_id)
    await stays(tab)


async def test_older_replies_are_quiet_until_they_are_pointed_at_or_reached(open_tab, chat):
    tab = await open_tab(f"/chats/{chat.pk}/")
    await tab.mouse.move(5, 5)
    turn, last = await article(tab, 18), await article(tab, 19)
    teach = turn.locator(".opener.teach")
    await expect(teach).to_have_css("opacity", "0")
    await expect(last.locator(".opener.teach")).to_have_css("opacity", "1")
    await turn.hover()
    await expect(teach).to_have_css("opacity", "1")
    await tab.mouse.move(5, 5)
    await expect(teach).to_have_css("opacity", "0")
    await turn.get_by_role("button", name="Good reply").focus()
    await expect(teach).to_have_css("opacity", "1")


async def test_no_style_is_refused_by_the_security_policy(open_tab, chat):
    tab = await open_tab(f"/chats/{chat.pk}/")
    await tab.evaluate("""() => {
        window.refused = [];
        const note = (event) => window.refused.push(event.violatedDirective);
        document.addEventListener("securitypolicyviolation", note);
    }""")
    turn = await article(tab, 19)
    await turn.locator(".opener.teach").click()
    box = turn.get_by_label("What should it do next time?")
    await box.evaluate("box => { box.style.height = '160px'; }")  # as a drag of its corner does
    await box.fill("Be brief.")
    await tab.keyboard.press("Enter")
    await expect(turn.locator(".saved")).to_have_text("Saved")
    await expect(turn.locator(".chip").first).to_have_text("being judged")
    assert await tab.evaluate("window.refused") == []


async def test_earlier_messages_come_in_above_by_scrolling_and_what_is_read_stays(open_tab, chat, monkeypatch):
    monkeypatch.setattr("chat.branches.SHOWN", 8)
    tab = await open_tab(f"/chats/{chat.pk}/")
    turns = tab.locator("#turns > article")
    await expect(turns).to_have_count(8)
    before = await turns.first.get_attribute("id")
    await tab.evaluate(
        """(id) => new Promise((done) => {
            const [list, one] = [document.querySelector(".scroll"), document.getElementById(id)];
            const seen = [];
            window.places = seen;
            const note = () => {
                seen.push(Math.round(one.getBoundingClientRect().y - list.getBoundingClientRect().y));
                requestAnimationFrame(note);
            };
            list.scrollTop = 300;
            requestAnimationFrame(() => { note(); done(); });
        })""",
        before,
    )
    await expect(turns).to_have_count(16)
    await tab.evaluate("() => new Promise((done) => setTimeout(done, 0))")
    places = await tab.evaluate("window.places")
    assert max(places) - min(places) <= 1  # in no frame was it elsewhere
    await stays(tab)


async def test_earlier_messages_come_in_above_by_a_link_until_there_are_none(open_tab, chat, monkeypatch):
    monkeypatch.setattr("chat.branches.SHOWN", 8)
    tab = await open_tab(f"/chats/{chat.pk}/")
    turns = tab.locator("#turns > article")
    link = tab.get_by_role("link", name="Earlier messages")
    await link.evaluate("link => link.focus({ preventScroll: true })")
    await tab.keyboard.press("Enter")
    await expect(turns).to_have_count(16)
    await expect(tab.get_by_label("Turn 12", exact=True)).to_be_focused()  # 13 to 20 stood there: it came last
    await tab.evaluate("refresh()")
    await expect(turns).to_have_count(16)
    await link.evaluate("link => link.click()")
    await expect(turns).to_have_count(20)
    await expect(link).to_have_count(0)
    await stays(tab)


async def test_more_chats_come_in_below(open_tab, chat, monkeypatch):
    monkeypatch.setattr("chat.listing.pages.LISTED", 3)
    for n in range(5):
        await Session.objects.acreate(user_id=chat.user_id, title=f"Chat {n}")
    tab = await open_tab(f"/chats/{chat.pk}/")
    names = tab.locator(".chats .name")
    await expect(names).to_have_count(3)
    await tab.get_by_role("link", name="Older chats").click()
    await expect(names).to_have_text(["Chat 4", "Chat 3", "Chat 2", "Chat 1", "Chat 0", "Rainbows"])
    await expect(tab.get_by_role("link", name="Older chats")).to_have_count(0)

"""What replies and messages hold beside words, in a real browser: copied, coloured, drawn, and never run."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from chat.models import Session

pytest.importorskip("playwright.async_api", reason="playwright is not installed: pip install -e '.[browser]'")
from playwright.async_api import Page, expect

from tests.browser.fitting import becomes, fits

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True, serialized_rollback=True)]

DESKTOP, PHONE = {"width": 1280, "height": 860}, {"width": 390, "height": 844}

CODE = 'def area(r):\n    return 3.14 * r ** 2  # of a circle\n\nprint("area", area(2))'
REPLY = rf"""The area is $\pi r^2$; in full

$$A = \int_0^r 2 \pi t \, dt = \pi r^2$$

\[ \begin{{cases}} 1 & x > 0 \\ 0 & \text{{otherwise}} \end{{cases}} \]

```python
{CODE}
```

It costs $5 or $6, and \(\boxed{{42}}\) is **all**."""


@pytest.fixture
def session(ana) -> Session:
    return Session.objects.create(user=ana)


async def say(tab: Page, words: str) -> None:
    await tab.get_by_label("Your message").fill(words)
    await tab.keyboard.press("Enter")
    await expect(tab.get_by_label("Your message")).to_have_value("")  # until it was taken a second one stays there


async def replied(tab: Page, count: int = 1) -> None:
    await expect(tab.locator(".turn.served, .turn.judged")).to_have_count(count)


async def picture(tab: Page, name: str) -> None:
    """Kept where SHOTS says, and nowhere by default."""
    if folder := os.environ.get("SHOTS"):
        await tab.screenshot(path=Path(folder) / f"{name}.png", caret="initial")


PLACES = """() => [...document.querySelectorAll(".turn button, .turn .chip, .turn .prose > *")]
    .map((one) => one.getBoundingClientRect()).map(({ x, y }) => [x, y])"""
HAVE_PLACES = f"() => ({PLACES})().every(([x]) => x > 0)"


async def clipboard(tab: Page) -> str:
    return await tab.evaluate("navigator.clipboard.readText()")


@pytest.mark.parametrize(
    ("size", "scheme"),
    [
        (DESKTOP, "light"),
        (PHONE, "dark"),
        pytest.param(PHONE, "light", marks=pytest.mark.repeats),
        pytest.param(DESKTOP, "dark", marks=pytest.mark.repeats),
    ],
)
async def test_code_has_colours_and_mathematics_is_drawn_on_every_screen(open_tab, engine, session, size, scheme):
    engine.says(REPLY)
    tab = await open_tab()
    asked: list[str] = []
    tab.on("request", lambda request: asked.append(request.url))
    await tab.set_viewport_size(size)
    await tab.emulate_media(color_scheme=scheme)
    await say(tab, "**Area?** Use `python`:\n```python\nreturn 1\n```")
    await replied(tab)

    reply = tab.locator(".reply > .prose")
    await expect(reply.locator("math")).to_have_count(4)
    await expect(reply).to_contain_text("It costs $5 or $6")
    for part in (reply, tab.locator(".said .words")):
        await becomes(part, "it => it.scrollWidth <= it.clientWidth + 1")
        ground, words, keyword = await part.evaluate("""it => [it.querySelector("pre"), it.querySelector("code"),
            it.querySelector(".code-keyword")]
            .map((one, at) => getComputedStyle(one)[at ? "color" : "backgroundColor"])""")
        assert keyword != words
        assert contrast(ground, keyword) >= 4.5
    await fits(tab)
    # A drawn fraction line or integral is taller than a line of text, what is not drawn is not.
    assert await reply.locator("math[display=block]").first.evaluate("it => it.getBoundingClientRect().height") > 28
    await picture(tab, f"prose-{scheme}-{size['width']}")
    assert not [url for url in asked if not url.startswith(tab.url.partition("/chats/")[0])]


def contrast(one: str, other: str) -> float:
    """WCAG's ratio of two colours, as a browser computes them: `rgb(…)`."""
    lights = []
    for colour in (one, other):
        parts = [int(part) / 255 for part in colour.removeprefix("rgb(").removesuffix(")").split(",")]
        linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
        lights.append(sum(weight * part for weight, part in zip((0.2126, 0.7152, 0.0722), linear, strict=True)))
    return (max(lights) + 0.05) / (min(lights) + 0.05)


async def test_mathematics_and_colours_are_there_while_a_reply_is_written(open_tab, engine, session):
    engine.says("So $x^2$ and\n\n```py\nreturn 1\n```\nand more")
    engine.hold(after=len("So $x^2$ and\n\n```py\nreturn"))
    tab = await open_tab()
    await say(tab, "Say it")
    await expect(tab.locator(".turn.answering .prose math msup")).to_have_count(1)
    await expect(tab.locator(".turn.answering .code-keyword")).to_have_text("return")
    engine.release()
    await replied(tab)
    await expect(tab.locator(".reply > .prose math msup")).to_have_count(1)


async def test_a_reply_is_copied_as_markdown_and_a_block_as_code(open_tab, engine, session):
    engine.says(REPLY)
    tab = await open_tab()
    await tab.context.grant_permissions(["clipboard-read", "clipboard-write"])
    await say(tab, "Area?")
    await replied(tab)

    button = tab.get_by_role("button", name="Copy this reply")
    before = await tab.evaluate(PLACES)
    await button.click()
    await expect(button).to_have_attribute("data-copied", "yes")
    await expect(tab.locator("#announcer")).to_have_text("Copied.")
    assert await clipboard(tab) == REPLY
    await becomes(tab, PLACES, before)

    await tab.get_by_role("button", name="Copy this code").focus()
    await tab.keyboard.press("Enter")
    await expect(tab.locator(".reply figure .copy")).to_have_attribute("data-copied", "yes")
    assert await clipboard(tab) == CODE + "\n"
    await expect(tab.locator("[data-copied]")).to_have_count(0)  # the sign goes


async def test_a_reply_is_copied_where_the_clipboard_is_closed_to_pages(open_tab, engine, session):
    tab = await open_tab()
    await tab.context.grant_permissions(["clipboard-read"])
    await say(tab, "Say hello")
    await replied(tab)
    await tab.evaluate("Object.defineProperty(navigator.clipboard, 'writeText', { value: () => Promise.reject() })")
    button = tab.get_by_role("button", name="Copy this reply")
    await button.click()
    await expect(button).to_have_attribute("data-copied", "yes")
    await expect(button).to_be_focused()
    assert await clipboard(tab) == "I see."


async def test_a_reply_that_was_stopped_is_copied(open_tab, engine, session):
    engine.says("Hello, captain, and welcome.")
    engine.hold(after=6)
    tab = await open_tab()
    await tab.context.grant_permissions(["clipboard-read", "clipboard-write"])
    await say(tab, "Say hello")
    await expect(tab.locator(".turn .prose").last).to_contain_text("Hello")
    await tab.keyboard.press("Escape")
    await expect(tab.locator(".turn .chip")).to_have_text("stopped")
    engine.release()
    await tab.get_by_role("button", name="Copy this reply").click()
    await expect(tab.locator("[data-copied=yes]")).to_have_count(1)
    assert (await clipboard(tab)).startswith("Hello")


async def test_controls_of_older_replies_show_when_pointed_at_or_focused_and_nothing_moves(open_tab, engine, session):
    engine.says("One\n\n```py\nx = 1\n```")
    tab = await open_tab()
    await say(tab, "first")
    await replied(tab)
    await say(tab, "second")
    await replied(tab, 2)
    first, last = tab.locator(".turn").first, tab.locator(".turn").last
    copy, code = first.get_by_role("button", name="Copy this reply"), first.locator("figure .copy")
    await tab.mouse.move(1, 1)
    await expect(copy).to_have_css("opacity", "0")
    await expect(code).to_have_css("opacity", "0")
    await expect(last.get_by_role("button", name="Copy this reply")).to_have_css("opacity", "1")
    await becomes(tab, HAVE_PLACES, True)  # what the newest reply gets last, too
    before = await tab.evaluate(PLACES)
    await first.locator(".reply .prose").hover()
    await expect(copy).to_have_css("opacity", "1")
    await first.locator("figure").hover()
    await expect(code).to_have_css("opacity", "1")
    await becomes(tab, PLACES, before)
    await tab.mouse.move(1, 1)
    await expect(copy).to_have_css("opacity", "0")
    await code.focus()
    await expect(copy).to_have_css("opacity", "1")
    await expect(code).to_have_css("opacity", "1")
    await becomes(tab, PLACES, before)


async def test_on_a_touch_screen_every_control_is_always_there(open_tab, engine, session):
    engine.says("One\n\n```py\nx = 1\n```")
    tab = await open_tab()
    for count in (1, 2):
        await say(tab, "Say it")
        await replied(tab, count)
    path = tab.url.partition("/chats/")[2]
    context = await tab.context.browser.new_context(viewport=PHONE, has_touch=True, is_mobile=True)
    await context.add_cookies(await tab.context.cookies())
    phone = await context.new_page()
    await phone.goto(tab.url.partition("/chats/")[0] + "/chats/" + path)
    # Chips and thumbs are pushed anew while a reply is judged: all are looked at in one moment.
    await phone.wait_for_function("""() => {
        const all = [...document.querySelectorAll(".turn:first-child :is(.copy, .opener, .thumbs button)")];
        const isThere = (it) => getComputedStyle(it).opacity === "1" && it.getBoundingClientRect().height >= 40;
        return all.length === 6 && all.every(isThere);
    }""")
    await picture(phone, "touch")
    await context.close()


PAYLOADS = (
    "<script>alert(1)</script>",
    "<img src=x onerror=alert(1)>",
    '"><svg onload=alert(1)>',
    r"$\text{<img src=x onerror=alert(1)>}$",
    r"$$\mbox{</math><script>alert(1)</script>}$$",
    r"\(\href{javascript:alert(1)}{x}\)",
    r"\[\text{<style>@import 'http://example.org/x'</style>}\]",
    r"$\style{background:url(http://example.org/x)}{x}$",
    "```html\n<script>alert(1)</script><img src=x onerror=alert(1)>\n```",
    '```"><script>alert(1)</script>\nx\n```',
    "[x](javascript:alert(1)) ![y](http://example.org/y.png)",
    "<div hx-get='/privacy/' hx-trigger='load'>x</div>",
    "<b data-copy-reply onclick=alert(1)>x</b>",
)


async def test_no_payload_runs_or_loads_in_messages_code_and_mathematics(open_tab, engine, session):
    """A dialog, an error or a complaint about the policy fails the test (open_tab); a request elsewhere does here."""
    engine.says("\n\n".join(PAYLOADS))
    tab = await open_tab()
    asked: list[str] = []
    tab.on("request", lambda request: asked.append(request.url))
    await say(tab, "\n\n".join(PAYLOADS))
    await replied(tab)
    await tab.reload()
    assert not [url for url in asked if "example.org" in url or "/privacy/" in url]
    for part in (".reply > .prose", ".said .words"):
        found = await tab.locator(part).evaluate("""it => [...it.querySelectorAll("*")].flatMap((one) => [
            /^(script|img|svg|style|iframe|div|b)$/i.test(one.tagName) ? one.tagName : "",
            ...[...one.attributes].map(({ name, value }) =>
                /^on|^style$|^hx-|^src$/.test(name) || /javascript:/.test(value) ? name : ""),
        ]).filter(Boolean)""")
        assert found == []
        await expect(tab.locator(part)).to_contain_text("<script>alert(1)</script>")


async def test_ones_own_message_is_shown_as_markdown_and_recalled_as_written(open_tab, engine, session):
    words = "# Title\n\n- **one**\n- `two` & <three>\n\nend $x^2$"
    tab = await open_tab()
    await say(tab, words)
    await replied(tab)
    said = tab.locator(".said .words")
    await expect(said.locator("li strong")).to_have_text("one")
    await expect(said.locator("math msup")).to_have_count(1)
    await tab.keyboard.press("ArrowUp")
    await expect(tab.get_by_label("Your message")).to_have_value(words)

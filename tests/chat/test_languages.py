"""Who reads German is spoken to in German; rows and programs keep English."""

from __future__ import annotations

import json
import re
from uuid import uuid4

import pytest
from babel.messages.catalog import Catalog
from babel.messages.mofile import write_mo
from django.utils import translation

from accounts.models import Account
from chat.models import Turn
from chat.rendering import markdown
from chat.replying import live_replies
from feedback.models import Feedback
from tests.chat.conftest import open_turn, reply_to, until, user

pytestmark = pytest.mark.django_db(transaction=True, serialized_rollback=True)

BROKE = "Something went wrong while this reply was written."
TOO_LONG = (
    "This model's maximum context length is %(window)d tokens. However, you requested %(asked)d tokens. "
    "Shorten the messages, or start a new conversation. MODEL= sets a model with a larger window; "
    "OpenClaw's own prompt fits a small one with tools.allow and without skills."
)
GERMAN = {
    "Copy this code": "Diesen Code kopieren",
    "Marked as good": "Als „gut“ markiert",
    BROKE: "Beim Schreiben dieser Antwort ging etwas schief.",
    TOO_LONG: "Es passen %(window)d Tokens hinein, dies sind %(asked)d.",
    "Good reply: %(reasons)s.": "Gute Antwort: %(reasons)s.",
}


@pytest.fixture(autouse=True)
def german(tmp_path, settings, ana):
    """A catalogue with some words, and Ana, who reads them."""
    catalogue = Catalog("de")
    for english, words in GERMAN.items():
        catalogue.add(english, words, flags=["python-format"] if "%(" in english else [])
    catalogue.add("clear", "verständlich", context="a reply")
    folder = tmp_path / "de" / "LC_MESSAGES"
    folder.mkdir(parents=True)
    with (folder / "django.mo").open("wb") as file:
        write_mo(file, catalogue)
    settings.LOCALE_PATHS = [tmp_path]
    Account.objects.update_or_create(user=ana, defaults={"language": "de"})


def test_a_rendering_that_is_kept_speaks_the_readers_language():
    text = "Now:\n\n```python\nprint(1)\n```"
    drawn = {}
    for language in ("en", "de", "en"):
        with translation.override(language):
            kept = markdown.render_marked(text, ((0, 3, 1),)) + markdown.render_said(text)
            drawn[language] = re.findall(r'title="([^"]+)"', kept)
    assert drawn["en"] == ["Marked as good", "Copy this code", "Copy this code"]
    assert drawn["de"] == ["Als „gut“ markiert", "Diesen Code kopieren", "Diesen Code kopieren"]


async def test_why_a_reply_broke_is_kept_in_english_and_read_in_german(page, session, engine):
    engine.goes_down(RuntimeError("a wire is loose"))
    await page.post(f"/chats/{session.pk}/say/", {"text": "Say hello", "message_id": str(uuid4())})

    async def is_over() -> bool:
        return not live_replies._speaking

    await until(is_over, "the reply")
    assert (await Turn.objects.aget()).error == BROKE
    html = (await page.get(f"/chats/{session.pk}/")).content.decode()
    assert GERMAN[BROKE] in html
    assert BROKE not in html


async def test_a_reason_is_kept_in_english_and_read_in_german(page, session, engine, htmx):
    turn = await reply_to(await open_turn(session, [user("Say hello")]), engine)
    thumb = {"kind": "thumb", "value": "1"}
    await page.post(f"/turns/{turn.pk}/feedback/", thumb, headers=htmx)
    answer = await page.post(f"/turns/{turn.pk}/feedback/", thumb | {"tags": ["clear", "my own word"]}, headers=htmx)
    html = answer.content.decode()
    assert (await Feedback.objects.standing().aget()).tags == ["clear", "my own word"]
    assert re.search(r'value="clear" checked> verständlich<', html)
    assert "Gute Antwort: verständlich, my own word." in html


async def test_a_refusal_is_german_on_a_page_and_english_to_a_program(page, async_client, session, key, htmx, engine):
    words = "word " * 3000
    sent = {"text": words, "message_id": str(uuid4())}
    said = (await page.post(f"/chats/{session.pk}/say/", sent, headers=htmx)).content.decode()
    assert re.search(r"Es passen 2048 Tokens hinein, dies sind \d+\.", said)

    headers = {"Authorization": f"Bearer {key.secret}", "Accept-Language": "de"}
    body = {"model": "talkback", "messages": [user(words)]}
    answer = await async_client.post(
        "/v1/chat/completions", json.dumps(body), content_type="application/json", headers=headers
    )
    assert answer.json()["error"]["message"].startswith("This model's maximum context length is 2048 tokens.")

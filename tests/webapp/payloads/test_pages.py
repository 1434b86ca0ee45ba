"""Whatever is written into any field, pages, fragments, mails and tables show it as text, in each language."""

from __future__ import annotations

import re
from urllib.parse import urlencode

import pytest
from django.contrib.auth.models import User
from django.test import Client
from django.urls import reverse
from django.utils import translation

from accounts.models import Account
from accounts.roles import may
from benchmarks.page_paths import Rows, addresses
from benchmarks.seeding.amounts import Amounts
from benchmarks.seeding.whole import seed
from chat.rendering import markdown
from chat.session_sockets import ChatConsumer
from judge.models import GoldReading
from tests.webapp.payloads import rows, texts
from tests.webapp.payloads.markup import Page
from training.models import Run
from webapp.console import fragments
from webapp.console.training import run_pages

AMOUNTS = Amounts(turns=60, chats=5, checkpoints=8, people=6, episodes=16, deeds=15)
OF_MARKDOWN = (
    {(tag, name) for tag in markdown.TAGS for name in ("", *markdown.ATTRIBUTES.get(tag, ()))}
    | {(tag, name) for tag, names in markdown.WORDS.items() for name in ("", *names)}
    | {("a", "rel"), ("input", "aria-invalid"), ("textarea", "aria-invalid")}  # forms refuse a name that is too long
)


def more() -> dict[str, str]:
    """Pages whose address names what was written: of one's own rules, of a judge."""
    reading = GoldReading.objects.earliest("pk")
    judge = urlencode({"name": reading.judge, "version": reading.prompt_version})
    return {"own client": "/console/clients/own-client/", "a judge": f"{reverse('console:judge')}?{judge}"}


@pytest.fixture
def model(tiny_model, settings, tmp_path):
    settings.MODEL, settings.DATA_DIR = str(tiny_model), tmp_path


def looked_at(person: User, paths: dict[str, str]) -> dict[str, str]:
    """The pages that this person is shown, by their names."""
    browser = Client()
    browser.force_login(person)
    found = {}
    for name, path in paths.items():
        answer = browser.get(path)
        assert answer.status_code in (200, 302, 403, 404, 405), (name, answer.status_code)
        if answer.status_code == 200 and answer["Content-Type"].startswith("text/html"):
            found[name] = answer.content.decode()
    return found


def drawn(person: User) -> dict[str, str]:
    """What this person's open pages are sent, by the socket that sends it."""
    chat = Rows(person).chat
    socket = ChatConsumer()
    socket.scope = {"user": person, "url_route": {"kwargs": {"pk": chat.pk}}}
    turns = chat.turns.order_by("-position")[:5]
    of_turns = [draw(turn.pk) for turn in turns for draw in (socket.draw_turn, socket.draw_calls)]
    said = {"the chat": [*of_turns, socket.draw_chips()]}
    if may(person, "console"):
        said["the overview"] = [*fragments.render(person).values()]
        said["the turns"] = [*fragments.render_turns().values()]
        said["a run"] = [
            html for run in Run.objects.order_by("-pk")[:4] for html in run_pages.parts(run.pk)[0].values()
        ]
    return {f"socket of {name}": "\n".join(parts) for name, parts in said.items()}


@pytest.mark.django_db
def test_no_text_of_any_field_becomes_markup_a_script_or_an_address_on_any_page(engine, model):
    people = seed(AMOUNTS)
    known, paths = set(OF_MARKDOWN), {}
    for person in (people.administrator, people.talker):
        before = looked_at(person, addresses(person) | more())
        paths[person] = {name: path for name, path in addresses(person).items() if name in before}
        known = known.union(*(Page(markup).shapes for markup in (before | drawn(person)).values()))
    seen: set[str] = set()
    faults, looked = [], 0
    for start, language in zip(texts.STARTS, ("en", "de"), strict=True):
        written = rows.spoil(start)
        if language == "de":
            rows.fail()
        Account.objects.update(language=language)
        for person, of_person in paths.items():
            reader = User.objects.get(pk=person.pk)
            with translation.override(language):
                shown = looked_at(reader, of_person | more()) | drawn(reader)
            for name, markup in shown.items():
                page = Page(markup)
                faults += [f"{name} ({language}): {fault}" for fault in page.faults]
                faults += [f"{name} ({language}): {one} is on no page else" for one in page.shapes - known]
                seen |= set(re.findall(rf"{texts.MARK}([\w.]+);", markup))
            looked += len(shown)
    assert faults == [], "\n".join(dict.fromkeys(faults))
    assert looked > 280  # 314, with the sockets' fragments
    assert len(seen & written) >= 70  # fields that pages show: 72 when this was written

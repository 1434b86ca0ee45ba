"""A "?" beside a term opens its entry of the glossary, which is drawn from the docs, and no copy of it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from django.template import Context, Template
from django.test import RequestFactory
from django.urls import reverse

from tests.webapp.conftest import text_of
from webapp import glossary
from webapp.console import navigation

TEMPLATES = Path(__file__).parents[3] / "templates"


def used() -> set[str]:
    """The words for which a template has a "?"."""
    text = "\n".join(page.read_text(encoding="utf-8") for page in TEMPLATES.rglob("*.html"))
    tags = re.findall(r"{% (?:explain|words) ((?:\"[^\"]+\" ?)+)%}", text)
    return {name for tag in tags for name in re.findall(r'"([^"]+)"', tag)}


def test_every_word_with_a_question_mark_is_in_the_glossary():
    named = used() | {place.term for _, _, places in navigation.ENTRIES for place in places if place.term}
    assert not {name for name in named if name.lower() not in glossary.terms()}
    assert named >= {"checkpoint", "candidate", "gate", "hint", "reward", "vote", "LoRA", "KL"}


def test_every_entry_of_the_docs_is_on_the_page(client, talker):
    client.force_login(talker)
    page = text_of(client.get(reverse("help:glossary")))
    entries = re.findall(r"^- \*\*", glossary.PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    assert page.split("<main")[1].split("</main>")[0].count("<dt>") == len(entries) > 80
    assert '<div id="gate"><dt>gate</dt><dd>the examination between a candidate and a person\'s yes.</dd></div>' in page


def test_what_an_entry_says_for_writers_is_left_out():
    for term in glossary.terms().values():
        assert "Code:" not in term.meaning
        assert "Not <em>" not in term.meaning
    assert glossary.terms()["sample"].meaning == "one turn made ready to learn from."


def test_two_entries_do_not_share_an_address():
    slugs = [term.slug for part in glossary.parts() for term in part.terms]
    assert len(set(slugs)) == len(slugs)


def test_a_stranger_is_asked_to_sign_in(client, db):
    assert client.get(reverse("help:glossary")).status_code == 302


def test_on_one_page_an_entry_stands_once_and_each_button_opens_it(rf: RequestFactory):
    page = Template('{% load shell %}{% explain "gate" %}{% words "gate" "KL" %}')
    shown = page.render(Context({"request": rf.get("/")}))
    assert shown.count('popovertarget="about-gate"') == 2
    assert shown.count('id="about-gate"') == 1
    assert 'aria-label="What is “KL”?"' in shown


@pytest.mark.parametrize("page", ["console:hints", "console:rewards", "console:checkpoints", "console:judges"])
def test_a_page_explains_the_word_that_it_is_about(console, page):
    shown = text_of(console.get(reverse(page)))
    term = navigation.term_of(page)
    assert f'id="about-{term}"' in shown
    assert f'href="{reverse("help:glossary")}#{term}"' in shown

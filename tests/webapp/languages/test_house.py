"""The house, its pages and its tables in the reader's language; what rows and programs read stays English."""

from __future__ import annotations

import re
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from django.template import Context, Template
from django.urls import reverse
from django.utils import timezone, translation

from accounts.models import Deed
from checkpoints.models import Decision
from checkpoints.notice_rows import Notice
from feedback.models import Feedback
from judge.models import Hint, Ruling
from tests.webapp.conftest import text_of
from tests.webapp.languages.conftest import CONTEXT
from webapp import health
from webapp.console import deed_words, fragments
from webapp.console.decisions import DECISIONS, EXPORTS
from webapp.templatetags.review import hint_status, reason_shown

GERMAN = {"HTTP_ACCEPT_LANGUAGE": "de"}
SOURCES = Path(__file__).parents[3]


def test_one_look_at_health_is_told_to_each_reader_in_their_language(console, german, monkeypatch):
    missing = health.Check(False, "No judge worker has been heard for %(seconds)s s: see its log, or start it again.",
                           {"seconds": "90"})  # fmt: skip
    monkeypatch.setattr(health, "_seen", (time.monotonic() + 60, {"judge worker": missing}))
    monkeypatch.setattr(health, "_missing", frozenset())
    german({missing.words: "Seit %(seconds)s s still.", "judge worker": "richter"})
    page = text_of(console.get(reverse("console:health"), **GERMAN))
    assert "Seit 90 s still." in page
    assert '<th scope="row">Richter</th>' in page
    assert "No judge worker has been heard for 90 s" in text_of(console.get(reverse("console:health")))
    # /readyz is for programs: English, whatever is asked for.
    told = console.get(reverse("readyz"), **GERMAN).json()["checks"]["judge worker"]
    assert told == {
        "ok": False,
        "sentence": "No judge worker has been heard for 90 s: see its log, or start it again.",
    }


def test_the_rail_and_the_menu_follow_the_reader(console, german):
    german({"Engines": "Maschinen", "Glossary": "Wörterbuch"})
    page = reverse("console:notices")
    shown = text_of(console.get(page, **GERMAN))
    assert ">Maschinen</a>" in shown
    assert ">Wörterbuch</a>" in shown
    # The tables are made once: they must not keep the language of who came first.
    assert ">Engines</a>" in text_of(console.get(page))


def test_an_age_is_said_as_its_language_says_it(console, german):
    Notice.objects.create(text="The disk is filling up.", at=timezone.now() - timedelta(minutes=3))
    german({"%(span)s ago": "vor %(span)s", "%(n)s min": "%(n)s Minuten"})
    assert ">vor 3 Minuten</time>" in text_of(console.get(reverse("console:notices"), **GERMAN))
    assert ">3 min ago</time>" in text_of(console.get(reverse("console:notices")))


def test_the_parts_of_the_overview_are_drawn_anew_for_each_language(operator, german):
    german({f"stop{CONTEXT}Judge": "Urteil", "Nothing to judge yet.": "Noch nichts."})
    with translation.override("de"):
        stations = fragments.render(operator)["stations"]
    assert "Urteil" in stations
    assert "Noch nichts." in stations
    assert "Nothing to judge yet." in fragments.render(operator)["stations"]


def test_the_audit_log_says_verbs_in_the_readers_language_and_keeps_them_in_english(console, german):
    german({f"deed{CONTEXT}notice read": "gelesen"})
    notice = Notice.objects.create(text="The disk is filling up.")
    console.post(reverse("console:notice_read", args=[notice.pk]), **GERMAN)
    assert Deed.objects.get().verb == "notice read"
    assert "<strong>gelesen</strong>" in text_of(console.get(reverse("console:audit"), **GERMAN))
    assert "<strong>notice read</strong>" in text_of(console.get(reverse("console:audit")))


def written_verbs() -> set[str]:
    """Every verb that a row of the audit log can have, as the sources write it."""
    found = {verb for _kind, verb, _about in DECISIONS.values()} | {verb for verb, _about in EXPORTS.values()}
    found |= set(Ruling.Verb.values) | set(Decision.Verb.values)
    written = re.compile(r'deeds\.note\(\s*"[a-z-]+",\s*"([^"{]+)"')
    for path in (SOURCES / "webapp").rglob("*.py"):
        found |= set(written.findall(path.read_text("utf-8")))
    return found


def test_every_verb_of_the_audit_log_has_words():
    verbs = written_verbs()
    assert {"key made", "own data downloaded", "learning started"} <= verbs
    assert not verbs - deed_words.WORDS.keys()


@pytest.mark.parametrize("verb", ["sign-in failed, locked for 60 s", "a verb of an older version"])
def test_a_verb_with_a_number_and_one_that_is_not_known_are_shown(verb):
    assert deed_words.of(verb) == verb


def test_a_date_with_words_is_written_as_its_language_writes_it(console, german):
    Notice.objects.create(
        text="NT", at=datetime(2026, 3, 9, 8, 5, tzinfo=UTC), read_at=datetime(2026, 3, 9, 9, 0, tzinfo=UTC)
    )
    german({"j M H:i": "d.m. H:i"})
    assert "09.03. 08:05, " in text_of(console.get(reverse("console:notices"), **GERMAN))
    assert "of 9 Mar 08:05, read by" in text_of(console.get(reverse("console:notices")))


NAMED_PARTS = re.compile(r"""date:(["'])(?!Y-m-d)[^"']*[DlMFNbE][^"']*\1|dateformat\.format\([\w.]+, ["']""")
"""A date's form with names of days or months in it, by itself: "29 十一月 2026" is no Chinese."""


def test_dates_with_names_of_months_have_a_form_of_each_language():
    files = [path for folder in ("templates", "webapp", "training") for path in (SOURCES / folder).rglob("*.*")
             if path.suffix in {".html", ".py"}]  # fmt: skip
    bare = [f"{path.name}: {found[0]}" for path in files for found in NAMED_PARTS.finditer(path.read_text("utf-8"))]
    assert bare == []
    assert NAMED_PARTS.search('{{ at|date:"j M Y" }}')  # what it finds


@pytest.mark.parametrize(("language", "said"), [("de", "4. März, 14:00"), ("zh-hans", "3月4日 14:00")])
def test_the_day_until_which_new_weights_are_guarded_is_said_as_each_language_says_it(language, said):
    at = datetime(2026, 3, 4, 14, tzinfo=UTC)
    with translation.override(language):
        assert Template('{% load i18n %}{{ at|date:_("j F, H:i") }}').render(Context({"at": at})) == said


def test_a_known_reason_is_said_in_the_readers_language_and_ones_own_as_it_is(german):
    german({f"a reply{CONTEXT}too long": "zu lang", f"feedback{CONTEXT}Thumb": "Daumen"})
    with translation.override("de"):
        assert (reason_shown("too long"), reason_shown("my own word")) == ("zu lang", "my own word")
        assert Feedback.Kind("thumb").label == "Daumen"


def test_what_stands_with_a_hint_has_the_gender_of_hints_in_spanish():
    # a pista is feminine, and a checkpoint, which is rejected too, is not
    with translation.override("es"):
        assert (hint_status("rejected"), translation.gettext("rejected")) == ("rechazada", "rechazado")
        assert [hint_status(one) for one in Hint.Status.values if hint_status(one) == one] == []

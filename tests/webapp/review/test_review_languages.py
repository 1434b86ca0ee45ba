"""Pages of review and judging in another language than English: all that they say goes through the catalogue."""

from __future__ import annotations

import re

import pytest
from django.urls import reverse
from django.utils.html import strip_tags
from django.utils.translation import trans_real

from chat.models import Turn
from judge.hints import reviews
from judge.models import Hint, Ruling
from judge.samples import ledger
from tests.webapp.desk_cast import make_hint
from tests.webapp.languages.bare_words import Reader
from webapp import glossary


class Bracketed:
    """A language in which everything stands in «»."""

    def gettext(self, message):
        return f"«{message.rpartition(trans_real.CONTEXT_SEPARATOR)[2]}»"

    def ngettext(self, one, more, number):
        return self.gettext(one if number == 1 else more)

    def to_language(self):
        return "de"


@pytest.fixture
def in_german(console, monkeypatch):
    """What a page says that no translation reaches, to a reader who asks for German."""
    monkeypatch.setitem(trans_real._translations, "de", Bracketed())

    def in_german(at, *args, **query):
        page = console.get(reverse(f"console:{at}", args=args), query, headers={"accept-language": "de"})
        assert page.status_code == 200
        text = page.content.decode().partition("<main")[2].partition("</main>")[0]
        assert "«" in text
        while text != (less := re.sub("«[^«»]*»", "", text)):
            text = less
        reader = Reader()
        reader.feed(f"<main{text}")
        reader.close()
        return {words for _, words in reader.found}

    return in_german


SAID = {"asked": "1 + 1", "answered": "2 3 4 5", "came_back": "6"}
"""No word of a person's, so that each word on a page is one of ours."""

NAMES = {"ana", "ben", "adapter", "judge", "talkback@0", "cases", "trained"}

ELSEWHERE = re.compile(
    r"What is “|Glossary|Words here:|Of \d+ tokens the hint|\d+ of \d+ lessons|What a person says outranks|Inferred by"
    r"|[Jj]udged |being judged|What came back is being judged"
)
"""What other rooms say on these pages: the glossary's frame, charts, batches, whose word counts, a turn's journey."""


def is_ours(words):
    if ELSEWHERE.match(words) or words in ledger.SENTENCES or "\\boxed" in words:  # codes, and the judge's own words
        return False
    if any(words in (*term.names, strip_tags(term.meaning)) for term in glossary.terms().values()):
        return False
    return bool(set(re.findall(r"[^\W\d_][\w@]+", re.sub(r"\w+-\w+", "", words))) - NAMES)


@pytest.fixture
def desk(talker, operator, engine):
    waiting = make_hint(talker, "8 8 8", source="tool", scores=(1, -1, None), **SAID)
    accepted = make_hint(talker, "7 7 7 7", **SAID)
    reviews.accept(accepted, by=operator)
    return waiting, accepted


@pytest.mark.parametrize(
    ("page", "query"),
    [
        *(("hints", {}), ("hints", {"status": "all"}), ("hints", {"search": "99"}), ("rewards", {})),
        *(("reviewers", {}), ("hint", {"status": "all"}), ("hint", {"likely": "99"}), ("reward", {}), ("turn", {})),
    ],
)
def test_pages_of_review_say_nothing_in_english_alone(in_german, desk, page, query):
    for hint in desk:
        args = {"hint": [hint.pk], "reward": [hint.turn_id], "turn": [hint.turn_id]}.get(page, [])
        assert [words for words in in_german(page, *args, **query) if is_ours(words)] == []


def test_pages_of_judging_say_nothing_in_english_alone(in_german, desk, settings):
    settings.JUDGES = '[{"kind": "adapter"}]'
    Turn.objects.filter(pk=desk[0].turn_id).update(status="observed")  # it is being judged
    for page, query in [("ledger", {}), ("ledger", {"code": "judging"}), ("judges", {}), ("second_looks", {})]:
        args = ["hint"] if page == "second_looks" else []
        assert [words for words in in_german(page, *args, **query) if is_ours(words)] == []
    assert [words for words in in_german("judge", name="adapter", version="trained-1") if is_ours(words)] == []


def test_rows_keep_english_whatever_the_language_of_the_page(in_german, console, desk):
    """A hint set aside and the ruling on another read the same in the audit log for all."""
    chosen, other = desk[0], make_hint(desk[0].turn.session.user, "9 9 9 9", **SAID)
    Hint.objects.filter(pk=other.pk).update(turn=chosen.turn)
    url = reverse("console:hint_decide", args=[chosen.pk, "accept"])
    page = console.post(url, headers={"accept-language": "de"}, follow=True)
    assert "«Accepted»" in page.content.decode()
    assert Hint.objects.get(pk=other.pk).waits_because == "Another hint of its turn was chosen."
    assert Ruling.objects.latest("pk").verb == "accept"

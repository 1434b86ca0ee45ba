"""The log of decisions, through the front door."""

from __future__ import annotations

import csv
import io
import json

import pytest
from asgiref.sync import async_to_sync
from django.contrib.auth import get_user_model
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.urls import reverse

from judge.hints import reviews, undoing
from judge.models import Ruling
from tests.webapp.conftest import text_of
from tests.webapp.desk_cast import fill, make_hint
from webapp.console import audit


def body(response):
    async def read():
        return [part async for part in response.streaming_content]

    return b"".join(async_to_sync(read)()).decode()


@pytest.fixture
def other(db):
    return get_user_model().objects.create_user("cleo", is_staff=True)


@pytest.fixture
def decided(talker, operator, other):
    """Ana edits one hint and takes it back, Cleo overturns its reward."""
    hint = make_hint(talker)
    edited = reviews.edit(hint, "Name the city, and nothing else.", by=operator, reason="clearer")
    undoing.undo(edited, by=operator)
    reviews.overturn(hint.turn, 1, by=other, reason="it is right")
    return hint


def test_without_a_decision_the_log_says_so(console):
    assert "No decision about a hint or a reward yet." in text_of(console.get(reverse("console:audit")))


def test_each_decision_says_who_did_what_from_what_to_what_and_why(console, decided):
    page = text_of(console.get(reverse("console:audit")))
    assert "<strong>edit</strong>" in page
    assert "clearer" in page
    assert 'waiting <span aria-label="became">→</span> edited' in page
    assert 'Answer in one sentence. <span aria-label="became">→</span> Name the city, and nothing else.' in page
    assert "taken back later" in page
    assert '– <span aria-label="became">→</span> +1' in page
    assert page.index("it is right") < page.index("clearer")  # newest first
    assert reverse("console:turn", args=[decided.turn_id]) in page


@pytest.mark.parametrize(
    ("narrow", "verbs"),
    [
        ({"person": "cleo"}, {"overturn"}),
        ({"person": "ana"}, {"edit", "undo"}),
        ({"verb": "edit"}, {"edit"}),
        ({"person": "none"}, set()),
        ({"turn": "00000000-0000-4000-8000-000000000000"}, set()),
        ({"turn": "no number"}, {"edit", "undo", "overturn"}),
        ({"verb": "praise"}, {"edit", "undo", "overturn"}),
    ],
)
def test_the_log_narrows_by_person_verb_and_turn(console, decided, narrow, verbs):
    page = text_of(console.get(reverse("console:audit"), narrow))
    assert {verb for verb in ("edit", "undo", "overturn") if f"<strong>{verb}</strong>" in page} == verbs
    lines = body(console.get(reverse("console:audit_jsonl"), narrow)).splitlines()
    assert {json.loads(line)["verb"] for line in lines} == verbs
    if not verbs:
        assert "No decision matches." in page


def test_older_decisions_come_a_page_at_a_time(console, talker, operator):
    for hint in fill([talker], audit.PAGE + 5):
        reviews.reject(hint, by=operator)
    url, seen = reverse("console:audit"), []
    for number in range(2):
        page = console.get(url, headers={"HX-Request": "true"} if number else {}).content.decode()
        seen += [int(part.split('"')[0]) for part in page.split('id="ruling-')[1:]]
        url = page.partition('<tr id="more"')[2].partition('href="')[2].partition('"')[0].replace("&amp;", "&")
    assert seen == sorted(Ruling.objects.values_list("pk", flat=True), reverse=True)
    assert url == ""


def test_both_downloads_hold_every_decision_oldest_first(console, decided):
    response = console.get(reverse("console:audit_jsonl"))
    assert response["Content-Disposition"].startswith('attachment; filename="talkback-audit-')
    told = [json.loads(line) for line in body(response).splitlines()]
    assert [one["verb"] for one in told] == ["edit", "undo", "overturn"]
    assert told[0]["before"]["text"] == "Answer in one sentence."
    assert told[0]["after"]["text"] == "Name the city, and nothing else."
    assert told[1]["undoes"] == told[0]["number"]
    rows = list(csv.DictReader(io.StringIO(body(console.get(reverse("console:audit_csv"))))))
    assert [row["verb"] for row in rows] == ["edit", "undo", "overturn"]
    assert json.loads(rows[0]["after"])["status"] == "edited"


def test_no_cell_of_the_table_runs_in_a_spreadsheet(console, talker, operator):
    reviews.reject(make_hint(talker), by=operator, reason="=HYPERLINK(1)")
    rows = list(csv.DictReader(io.StringIO(body(console.get(reverse("console:audit_csv"))))))
    assert rows[0]["reason"] == "'=HYPERLINK(1)"


def test_the_log_outlives_the_conversation_and_stays_readable(console, decided):
    decided.turn.session.delete()
    page = text_of(console.get(reverse("console:audit")))
    assert "its conversation was deleted" in page
    assert len(body(console.get(reverse("console:audit_jsonl"))).splitlines()) == 3


def test_hostile_words_stay_words(console, talker, operator):
    evil = "<script>alert(1)</script>"
    reviews.edit(make_hint(talker), f"Say {evil} to people.", by=operator, reason=evil)
    assert "<script>alert" not in console.get(reverse("console:audit")).content.decode()


def test_as_many_questions_for_one_decision_as_for_fifty(console, talker, operator):
    made, asked = fill([talker], 50), []
    for few in (made[:1], made[1:]):
        for hint in few:
            reviews.reject(hint, by=operator)
        with CaptureQueriesContext(connection) as queries:
            assert console.get(reverse("console:audit")).status_code == 200
        asked.append(len(queries))
    assert asked[0] == asked[1]

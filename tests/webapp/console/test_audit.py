"""The log of decisions, through the front door."""

from __future__ import annotations

import csv
import io
import json
import re

import pytest
from asgiref.sync import async_to_sync
from django.contrib.auth import get_user_model
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.urls import get_resolver, reverse
from django.utils import translation

from accounts import deeds
from accounts.models import Deed
from checkpoints import notices
from judge.hints import reviews, undoing
from judge.models import Ruling
from tests.webapp.conftest import text_of
from tests.webapp.desk_cast import fill, make_hint
from tests.webapp.people.test_routes import filled, routes
from webapp.console import audit, decisions, deed_words


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
    assert "Nothing was decided yet." in text_of(console.get(reverse("console:audit")))


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
    assert [row["verb"] for row in rows] == ["edit", "undo", "overturn", "audit log downloaded"]  # the JSONL, just now
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


# ---------- one log ----------


def test_the_log_is_one_list_of_all_that_people_decided(console, decided, operator, talker, make_checkpoint):
    """Hints, checkpoints and all else in the order in which they happened, with who, to whom and from where."""
    make_checkpoint(1).decide("approved", by=operator, reason="shorter")
    console.post(reverse("people:role", args=[talker.pk]), {"role": "reviewer"}, REMOTE_ADDR="192.0.2.5")
    console.post(reverse("console:pause"), {"reason": "lunch"})
    console.post(reverse("console:notice_read", args=[notices.tell("k", "The disk fills.").pk]))
    page = text_of(console.get(reverse("console:audit")))
    happened = ["notice read", "training paused", "role changed", "approve", "overturn", "undo", "edit"]
    places = [page.index(f"<strong>{verb}</strong>") for verb in happened]
    assert places == sorted(places)
    assert "ben</a> talker to reviewer" in page
    assert "192.0.2.5" in page
    assert "shorter" in page


@pytest.mark.parametrize(
    ("narrow", "verbs"),
    [
        ({"kind": "people"}, {"role changed"}),
        ({"kind": "approval"}, {"approve"}),
        ({"kind": "review"}, {"edit", "undo", "overturn"}),
        ({"kind": "training"}, set()),
        ({"kind": "poetry"}, {"role changed", "approve", "edit", "undo", "overturn"}),
        ({"person": "ben"}, {"role changed"}),  # it was done to him
        ({"person": "cleo"}, {"overturn"}),
        ({"until": "2020-01-01"}, set()),
        ({"since": "2020-01-01"}, {"role changed", "approve", "edit", "undo", "overturn"}),
        ({"since": "yesterday"}, {"role changed", "approve", "edit", "undo", "overturn"}),
    ],
)
def test_the_log_narrows_by_kind_person_and_time(console, decided, operator, talker, make_checkpoint, narrow, verbs):
    make_checkpoint(1).decide("approved", by=operator)
    console.post(reverse("people:role", args=[talker.pk]), {"role": "reviewer"})
    page = text_of(console.get(reverse("console:audit"), narrow))
    all_of_them = ("role changed", "approve", "edit", "undo", "overturn")
    assert {verb for verb in all_of_them if f"<strong>{verb}</strong>" in page} == verbs
    told = [json.loads(line) for line in body(console.get(reverse("console:audit_jsonl"), narrow)).splitlines()]
    assert {one["verb"] for one in told} == verbs


def test_pages_of_several_tables_show_each_row_once(console, talker, operator):
    for number, hint in enumerate(fill([talker], 40)):
        reviews.reject(hint, by=operator)
        deeds.note("people", f"deed {number}", by=operator)
    url, seen = reverse("console:audit"), []
    for number in range(2):
        page = console.get(url, headers={"HX-Request": "true"} if number else {}).content.decode()
        seen += re.findall(r'<tr id="((?:ruling|deed)-\d+)"', page)
        url = page.partition('<tr id="more"')[2].partition('href="')[2].partition('"')[0].replace("&amp;", "&")
    assert len(seen) == len(set(seen)) == 80
    assert url == ""


def test_what_is_refused_is_written_as_refused(console, make_run):
    run = make_run("finished")
    console.post(reverse("console:cancel", args=[run.pk]))
    deed = Deed.objects.get(verb="run cancelled")
    assert (deed.outcome, deed.about) == ("refused", f"run {run.pk}")


def test_every_route_that_decides_is_written_somewhere():
    """Each route of the console that takes a POST is in one of the four lists of webapp/console/decisions.py."""
    posted = set()
    for name, path in routes():
        if name.startswith(("console:", "people:", "account:")):
            view = get_resolver().resolve(filled(path)).func
            while hasattr(view, "__wrapped__"):
                view = view.__wrapped__
                posted |= {name} if "POST" in (methods_of(view) or ()) else set()
    listed = {*decisions.DECISIONS, *decisions.TOLD_ELSEWHERE, *decisions.TRIES}
    assert len(posted) > 40
    assert posted - listed == set()
    assert listed <= {name for name, _ in routes()}
    assert {kind for kind, _, _ in decisions.DECISIONS.values()} <= set(deeds.KINDS)


def methods_of(view):
    """The methods that `require_http_methods` lets through to this view; None where it is not what guards it."""
    for name, value in zip(view.__code__.co_freevars, view.__closure__ or (), strict=True):
        if name == "request_method_list":
            return value.cell_contents
    return None


@pytest.mark.parametrize(
    ("about", "german"),
    [
        ("reviewer to operator", "Prüfer wird Betreiber"),
        ("talker to administrator, by OpenID Connect", "Nutzer wird Administrator, durch OpenID Connect"),
        ("run 12", "Lauf 12"),
        ("turn 0b7c9a52-2c53-4b0e-9f0e-6a4f5f3f8d11", "Wortwechsel 0b7c9a52-2c53-4b0e-9f0e-6a4f5f3f8d11"),
        ("line run 12", "Linie run 12"),  # a name that a person gave stays
        ("invitation ab12cd…, reviewer", "Einladung ab12cd…, Prüfer"),
        ("passkey", "Passkey"),
        ("browsers: 3", "Browser: 3"),
        ("laptop (tb-1234…), for chat, feedback", "laptop (tb-1234…), für chat, feedback"),
        ("Ana to Ben", "Ana to Ben"),
        ("live", "live"),
    ],
)
def test_what_a_row_is_about_is_read_in_german_and_kept_in_english(console, about, german):
    deeds.note("people", "role changed", about=about)
    page = text_of(console.get(reverse("console:audit"), headers={"Accept-Language": "de"}))
    assert f">{german}<" in re.sub(r"\s*([<>])\s*", r"\1", page)
    assert Deed.objects.get().about == about


def test_every_route_says_what_it_is_about_in_words_that_languages_have():
    said = [about for _, _, about in decisions.DECISIONS.values()]
    said += [about for _, about in decisions.EXPORTS.values()]
    values = {"pk": "7", "number": "7", "name": "ours", "desk": "hint"}
    with translation.override("de"):
        told = [deed_words.subject(about.format(**values)) for about in said if "{" in about]
    assert told
    assert not {about.format(**values) for about in said} & set(told)  # none of them is the same in German


def test_keys_and_privacy_are_in_the_log(client, talker):
    client.force_login(talker)
    client.post(reverse("connect:new"), {"name": "laptop", "scopes": ["chat"]})
    client.post(reverse("connect:revoke", args=[talker.api_keys.get().pk]))
    client.post(reverse("privacy:default"), {"learns": "off"})
    body(client.get(reverse("privacy:export")))
    client.post(reverse("privacy:delete"), {"sure": "delete"})
    told = [(one.kind, one.verb) for one in Deed.objects.filter(by=talker).order_by("pk")]
    assert told == [
        ("key", "key made"), ("key", "key revoked"), ("erasure", "new chats may not teach"),
        ("export", "own data downloaded"), ("erasure", "all conversations deleted"),
    ]  # fmt: skip

"""The overview says one thing that changed with what to do now, then what waits for a person, and no mechanics."""

from __future__ import annotations

import re
from datetime import timedelta

import pytest
from asgiref.sync import sync_to_async
from django.db import connection
from django.template.loader import render_to_string
from django.test.utils import CaptureQueriesContext
from django.urls import reverse
from django.utils import timezone

from checkpoints.models import Checkpoint
from core import stores
from judge.models import Judgement
from tests.sockets import Tab
from tests.webapp.conftest import text_of
from tests.webapp.console.test_console_board import NOW, facts, run
from training.batches import Filling
from training.hours import Wait
from webapp import health
from webapp.console import board_sockets, overview
from webapp.console.board import Board
from webapp.console.loop.stations import stations
from webapp.console.review import waiting

PASSED = Checkpoint(number=4, status="passed", moved_at=NOW)


def board(**changes) -> Board:
    known = facts(**changes)
    return Board(known, stations(known))


def headline(**changes) -> str:
    whole = board(**changes)
    context = {"board": whole, "facts": whole.facts, "now": overview.now(whole), "waits": []}
    return " ".join(render_to_string("console/_headline.html", context).split())


def page_of(console) -> str:
    return text_of(console.get(reverse("console:board")))


def part(page: str, name: str) -> str:
    return page[page.index(f'id="board-{name}"') :].split("</section>")[0]


@pytest.mark.parametrize(
    ("kind", "changes"),
    [
        ("engine", {"is_engine_away": True, "turns": {"observed": 1}, "silences": {"judge": 40.0, "learn": 0.0}}),
        ("stuck", {"turns": {"observed": 1}, "silences": {"judge": 40.0, "learn": 0.0}, "passed": PASSED}),
        ("candidate", {"passed": PASSED, "checkpoints": {"passed": 1}, "run": run("running", heartbeat_at=NOW)}),
        ("learning", {"run": run("running", heartbeat_at=NOW, progress={"share": 0.25}), "stopped": True}),
        ("examining", {"candidate": Checkpoint(number=4, status="candidate", moved_at=NOW), "run": run("failed")}),
        ("judges", {"stopped": True, "run": run("failed")}),
        ("failed", {"run": run("failed", error="The gradient is zero."), "wait": Wait("paused", None)}),
        ("held", {"batch": Filling(16, 16), "wait": Wait("it may run from 22:00", None)}),
        ("lessons", {"batch": Filling(16, 9)}),
    ],
)
def test_of_all_that_could_be_said_the_headline_says_what_weighs_most(kind, changes):
    assert overview.now(board(**changes)).kind == kind


def test_the_bar_is_how_far_the_run_is_and_else_how_full_the_next_training_is():
    learning = overview.now(board(run=run("running", heartbeat_at=NOW, progress={"share": 0.25})))
    assert (learning.done, learning.total) == (25, 100)
    lessons = overview.now(board(batch=Filling(16, 9)))
    assert (lessons.done, lessons.total) == (9, 16)
    assert overview.now(board(passed=PASSED)).total == 0


def test_each_headline_has_one_button():
    for changes in ({"passed": PASSED}, {"stopped": True}, {"run": run("failed")}, {"batch": Filling(16, 9)}, {}):
        shown = headline(**changes)
        assert len(re.findall(r'class="button', shown)) == 1, shown


def test_a_headline_speaks_of_lessons_and_not_of_mechanics():
    shown = headline(
        run=run(
            "running", heartbeat_at=NOW, progress={"phase": "learning", "share": 0.4, "eta_s": 170, "loss": 0.7144}
        ),
        samples={"claimed": 9},
    )
    assert "Your model is learning from 9 lessons. Learning, about 3 min to go. You can go on chatting." in re.sub(
        r"</?strong>", "", shown
    )
    assert "0.7144" not in shown


@pytest.mark.django_db(transaction=True, serialized_rollback=True)
async def test_an_overview_says_first_that_the_engine_does_not_answer(operator, console, engine, monkeypatch):
    monkeypatch.setattr(board_sockets, "TICK_S", 0.05)
    monkeypatch.setattr(health, "FRESH_S", 0.0)
    away = 'id="board-headline" class="now engine stuck"'
    async with Tab("/ws/console/", operator) as tab:
        assert away not in await tab.sees('id="board-headline"')
        engine.goes_down()
        for shown in (await tab.sees(away), await sync_to_async(page_of)(console)):
            assert away in shown
            assert "<strong>The engine does not answer.</strong> Replies wait until it is back." in shown
            assert '<a class="button primary" id="to-engines" href="/console/engines/">' in shown
        engine.comes_back()
        assert away not in await tab.sees('id="board-headline"')


def test_a_candidate_asks_for_a_look_and_a_decision(console, make_checkpoint):
    make_checkpoint(1)
    page = page_of(console)
    said = part(page, "headline")
    assert "talkback@1 has learned and passed its exam. Look at what changed, then say yes or no." in said
    assert '<a class="button primary" id="decide" href="/console/checkpoints/1/">See what changed</a>' in said


def test_lessons_that_are_ready_are_learned_from_by_the_one_button(console, make_lesson):
    make_lesson()
    page = page_of(console)
    assert page.count("Learn now from 1 lesson") == 1
    assert 'action="/console/learn-now/"' in part(page, "headline")


def test_beside_a_candidate_lessons_that_are_ready_are_listed(console, make_checkpoint, make_lesson):
    make_checkpoint(1)
    make_lesson()
    assert re.findall(r'href="([^"]*)"', part(page_of(console), "waits")) == ["/console/forecast/"]


def test_what_went_live_today_is_news_and_yesterdays_is_none(console, make_checkpoint):
    live = make_checkpoint(1, "retired")
    Checkpoint.objects.filter(number=0).update(status="retired")
    Checkpoint.objects.filter(pk=live.pk).update(status="live", moved_at=timezone.now())
    assert "talkback@1 is live: it writes every new reply." in part(page_of(console), "headline")
    Checkpoint.objects.filter(pk=live.pk).update(moved_at=timezone.now() - timedelta(days=2))
    assert "is live: it writes" not in part(page_of(console), "headline")


def test_what_waits_is_listed_with_its_count_and_a_link(console, make_lesson, make_run, make_turn, monkeypatch):
    judged = make_turn("judged")
    Judgement.objects.create(turn=judged, reward=None, reason="unclear", reason_code="unclear")
    make_run("failed", error="No room.")
    monkeypatch.setattr(stores, "learning_room", lambda: -5 * stores.MIB)
    waits = part(page_of(console), "waits")
    assert re.findall(r'href="([^"]*)"', waits) == ["/console/storage/", "/console/rewards/"]  # the run is the headline
    assert '<span class="count">1</span> reply is unclear to the judge' in waits
    assert "The disk is full" in waits


def test_two_candidates_are_counted_beside_the_headline():
    waits = overview.waiting(board(passed=PASSED, checkpoints={"passed": 2}), hints=3, unclear=0)
    assert [(one.kind, one.count) for one in waits] == [("candidate", 2), ("hints", 3)]
    assert overview.waiting(board(passed=PASSED, checkpoints={"passed": 1}), hints=0, unclear=0) == []


def test_of_two_stops_that_are_stuck_the_second_is_listed():
    silent = run("running", heartbeat_at=NOW - timedelta(seconds=80))
    stuck = board(turns={"observed": 1}, silences={"judge": 40.0, "learn": 0.0}, run=silent)
    [one] = overview.waiting(stuck, hints=0, unclear=0)
    assert (one.kind, one.stop.key) == ("stuck", "learn")


def test_where_nothing_waits_there_is_no_list(console):
    assert 'id="waits-title"' in part(page_of(console), "waits")
    assert re.search(r'id="board-waits"[^>]* hidden>', page_of(console))


def test_the_overview_costs_the_same_however_many_turns_there_are(make_lesson, console):
    def queries():
        with CaptureQueriesContext(connection) as captured:
            console.get("/console/")
        return len(captured)

    make_lesson()
    one = queries()
    for _ in range(12):
        make_lesson()
    assert queries() == one
    # session, person, states, heartbeat, checkpoints, run, recipe, 3 of the batch, pause, review, decisions, notices,
    # and until the first lesson is over 2 of the welcome
    assert one <= 17


def test_what_waits_for_a_reviewer_is_counted_in_one_query(db, make_turn, django_assert_num_queries):
    Judgement.objects.create(turn=make_turn("judged"), reward=None, reason="unclear", reason_code="unclear")
    with django_assert_num_queries(1):
        found = waiting.count()
    assert (found.hints, found.unclear) == (0, 1)


def test_the_list_of_replies_has_an_address_of_its_own_and_its_old_one_leads_there(console, make_turn):
    make_turn("served", text="A reply.")
    assert console.get("/console/?status=served").url == "/console/turns/?status=served"
    assert "A reply." in text_of(console.get("/console/turns/?status=served"))
    assert "A reply." not in text_of(console.get("/console/turns/?status=judged"))

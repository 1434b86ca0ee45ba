"""The operator's pages, through the front door."""

from __future__ import annotations

import pytest
from django.urls import reverse

from checkpoints.models import Checkpoint, Decision
from feedback.models import Feedback
from tests.webapp.conftest import text_of, unfolded
from training.models import Run, Sample

PAGES = ("console:board", "console:checkpoints")


@pytest.mark.parametrize("page", PAGES)
def test_a_stranger_is_asked_to_sign_in(client, db, page):
    response = client.get(reverse(page))
    assert response.status_code == 302
    assert response.url.startswith(reverse("login"))


@pytest.mark.parametrize("page", PAGES)
def test_a_talker_is_told_no(client, talker, page):
    client.force_login(talker)
    assert client.get(reverse(page)).status_code == 403


@pytest.mark.parametrize("action", ["approve", "reject"])
def test_a_talker_decides_nothing(client, talker, make_checkpoint, action):
    make_checkpoint(1)
    client.force_login(talker)
    assert client.post(reverse(f"console:{action}", args=[1]), {"reason": "mine"}).status_code == 403
    assert Checkpoint.objects.get(number=1).status == "passed"


def test_an_action_asks_for_the_token(operator, make_checkpoint):
    from django.test import Client

    make_checkpoint(1)
    strict = Client(enforce_csrf_checks=True)
    strict.force_login(operator)
    assert strict.post(reverse("console:approve", args=[1])).status_code == 403


@pytest.mark.parametrize("path", ["checkpoints/99/", "turns/00000000-0000-4000-8000-000000000000/", "runs/99/"])
def test_what_does_not_exist_is_not_found(console, path):
    assert console.get(f"/console/{path}").status_code == 404


def test_an_empty_house_says_how_to_begin(console):
    page = text_of(console.get(reverse("console:board")))
    assert "Nothing is waiting for you." in page
    assert "Talk to the model and teach it. 0 of 16 lessons. Training starts at 16." in page
    assert "No conversation yet." in text_of(console.get(reverse("console:turns")))


def test_the_list_of_turns_says_what_was_asked_and_how_far_each_is(console, make_lesson):
    make_lesson()
    page = text_of(console.get(reverse("console:turns")))
    assert "What is the capital of France?" in page
    assert "lesson 1 of 16</span>" in page
    assert 'judged <span class="number">1</span>' in page


def test_the_board_is_there_while_redis_is_away(console, make_turn, workers):
    make_turn("observed")
    workers.away = True
    page = text_of(console.get(reverse("console:board")))
    assert "Waiting for Redis, which does not answer: what is due is sent again once it is back." in page


def test_the_list_of_turns_narrows_to_a_state(console, make_turn):
    make_turn("served", "the served one")
    make_turn("closed", "the closed one")
    page = text_of(console.get(reverse("console:board"), {"status": "closed"}, follow=True))
    assert "the closed one" in page
    assert "the served one" not in page


def test_a_hostile_reply_stays_text(console, make_turn):
    turn = make_turn(text="<script>alert(1)</script>")
    for page in (reverse("console:turns"), reverse("console:turn", args=[turn.pk])):
        assert "<script>alert" not in console.get(page).content.decode()


def test_learn_now_starts_a_run_with_what_is_ready(console, make_lesson):
    make_lesson()
    make_lesson()
    page = text_of(console.post(reverse("console:learn_now"), follow=True))
    run = Run.objects.get()
    assert f"Run {run.pk} learns from 2 lessons." in page
    assert Sample.objects.filter(status="claimed", run=run).count() == 2


def test_what_a_run_would_take_can_be_asked_first(console, make_lesson):
    make_lesson()

    said = text_of(console.get(reverse("console:forecast")))
    fragment = console.get(reverse("console:forecast"), headers={"HX-Request": "true"}).content.decode()

    assert "1 lesson, 4 updates" in said
    assert fragment.lstrip().startswith('<p class="small quiet" id="forecast"')
    assert not Run.objects.exists()


def test_learn_now_twice_starts_one_run(console, make_lesson):
    make_lesson()
    console.post(reverse("console:learn_now"))
    page = text_of(console.post(reverse("console:learn_now"), follow=True))
    assert "There is no lesson yet" in page
    assert Run.objects.count() == 1


def test_a_candidate_is_shown_beside_live_with_its_evidence(console, make_checkpoint, make_lesson):
    candidate = make_checkpoint(1)
    make_lesson("trained", run=candidate.run)
    page = unfolded(console, 1)
    assert "It passed the gate and waits for you." in page
    assert 'It is blue<mark class="gone">, you see</mark>.' in page
    assert "Long enough." in page
    assert "Say it in one word." in page  # what taught it
    assert "loss: from 0.5 to 0.4 in 2 updates" in page
    assert "batch_size" in page  # the recipe


def test_approving_swaps_at_once_and_says_so(console, make_checkpoint, operator, engine):
    candidate = make_checkpoint(1)
    page = text_of(console.post(reverse("console:approve", args=[1]), {"reason": "shorter"}, follow=True))
    assert "talkback@1 is live: it writes every new reply." in page
    assert Checkpoint.live() == candidate
    assert candidate.adapter in engine.loaded
    decisions = [(d.verb, d.by, d.reason) for d in Decision.objects.order_by("pk")]
    assert decisions == [("approve", operator, "shorter"), ("promote", operator, "")]


def test_a_second_click_changes_nothing_and_says_what_happened(console, make_checkpoint):
    make_checkpoint(1)
    console.post(reverse("console:approve", args=[1]))
    page = text_of(console.post(reverse("console:approve", args=[1]), follow=True))
    assert "talkback@1 is already live" in page
    assert Decision.objects.count() == 2


def test_an_approval_stands_while_the_engine_is_away(console, make_checkpoint, engine):
    make_checkpoint(1)
    engine.goes_down()
    page = text_of(console.post(reverse("console:approve", args=[1]), follow=True))
    assert "Approved; it goes live once the engine is back." in page
    assert Checkpoint.objects.get(number=1).status == "approved"
    assert Checkpoint.live().number == 0


def test_a_failed_probe_is_told_to_who_approved(console, make_checkpoint, engine):
    make_checkpoint(1)
    honest = engine.logprobs
    engine.logprobs = lambda prompt, response, adapter: honest(prompt, response, None)
    page = text_of(console.post(reverse("console:approve", args=[1]), follow=True))
    assert "as if the adapter were not there" in page
    assert "Rejected." in page
    assert Checkpoint.live().number == 0


def test_a_rejection_needs_a_reason(console, make_checkpoint):
    make_checkpoint(1)
    page = text_of(console.post(reverse("console:reject", args=[1]), {"reason": "  "}, follow=True))
    assert "Say in a few words why" in page
    assert Checkpoint.objects.get(number=1).status == "passed"

    page = text_of(console.post(reverse("console:reject", args=[1]), {"reason": "it lost the point"}, follow=True))
    assert "it lost the point" in page
    assert Checkpoint.objects.get(number=1).status == "rejected"


def test_roll_back_is_one_click(console, make_checkpoint):
    make_checkpoint(1)
    console.post(reverse("console:approve", args=[1]))
    assert "Roll back to talkback@0" in text_of(console.get(reverse("console:board")))

    page = text_of(console.post(reverse("console:roll_back"), {"to": "0", "instead_of": "1"}, follow=True))

    assert "talkback@0 is live again: it writes the next reply." in page
    assert Checkpoint.live().number == 0


def test_a_roll_back_from_a_page_that_is_out_of_date_changes_nothing(console, make_checkpoint):
    make_checkpoint(1)
    make_checkpoint(2)
    console.post(reverse("console:approve", args=[1]))
    console.post(reverse("console:approve", args=[2]))
    page = text_of(console.post(reverse("console:roll_back"), {"to": "0", "instead_of": "1"}, follow=True))
    assert "talkback@1 is not live any more, talkback@2 is: nothing was changed." in page
    assert Checkpoint.live().number == 2


def test_a_turn_shows_what_was_said_of_it_why_and_what_its_test_wrote(console, make_turn, talker):
    turn = make_turn("served")
    Feedback.objects.give(turn, by=talker, kind="thumb", value=-1, tags=["too long", "<b>own</b>"])
    Feedback.objects.give(turn, by=talker, kind="verdict", value=-1, text="<script>alert(1)</script>", exit_code=3)
    Feedback.objects.give(turn, by=talker, kind="guidance", text="Be brief.")
    Feedback.objects.withdraw(turn, by=talker, kind="guidance")
    page = text_of(console.get(reverse("console:turn", args=[turn.pk])))
    for words in (
        "Bad reply <span",
        "too long",
        "&lt;b&gt;own",
        "A test failed",
        "exit code 3",
        "&lt;script&gt;alert(1)",
    ):
        assert words in page
    assert "Be brief." in page.split("utterance withdrawn")[1]
    assert "<script>alert" not in page


def test_a_turn_shows_its_whole_journey(console, make_lesson, make_checkpoint):
    trained = make_checkpoint(1)
    lesson = make_lesson("trained", run=trained.run)
    page = text_of(console.get(reverse("console:turn", args=[lesson.turn_id])))
    assert "raw 0" in page
    assert "unreadable: no score in the reply" in page
    assert "the evidence" in page
    assert "Of 3 tokens the hint would raise 1 and lower 1." in page
    assert 'class="token down-4" title="−3.00"' in page  # −4.0 under the hint, −1.0 as served
    assert f"run {trained.run.pk}" in page
    assert "talkback@1" in page


def test_a_run_shows_its_progress_and_can_be_stopped(console, make_run):
    run = make_run("running", progress={"phase": "learning", "share": 0.1875, "eta_s": 70})
    page = text_of(console.get(reverse("console:run", args=[run.pk])))
    assert "19 %" in page
    assert "about 70 s to go" in page

    console.post(reverse("console:cancel", args=[run.pk]))

    run.refresh_from_db()
    assert run.cancel_asked
    assert "It stops after the current sample" in text_of(console.get(reverse("console:run", args=[run.pk])))


def test_a_run_that_is_over_cannot_be_stopped(console, make_run):
    run = make_run("finished")
    page = text_of(console.post(reverse("console:cancel", args=[run.pk]), follow=True))
    assert "there is nothing to stop" in page


def test_a_page_that_waits_is_loaded_whole_when_there_is_nothing_more_to_wait_for(console, make_checkpoint):
    make_checkpoint(1, "candidate")
    page = reverse("console:checkpoint", args=[1])
    assert "HX-Refresh" not in console.get(page, headers={"HX-Request": "true"})
    Checkpoint.objects.filter(number=1).update(status="passed")
    assert console.get(page, headers={"HX-Request": "true"})["HX-Refresh"] == "true"


def test_the_list_tells_where_each_checkpoint_came_from(console, make_checkpoint, make_lesson):
    candidate = make_checkpoint(1)
    make_lesson("trained", run=candidate.run)
    page = text_of(console.get(reverse("console:checkpoints")))
    assert "1 sample on talkback@0" in page
    assert page.index("talkback@1</a>") < page.index("talkback@0</a>")


def test_a_turns_page_shows_marks_a_rewrite_and_what_was_said_beside_a_thumb(console, make_turn, talker):
    turn = make_turn("served", text="Two and two are five.")
    Feedback.objects.give(turn, by=talker, kind="marks", spans=[[16, 20, -1]])
    Feedback.objects.give(turn, by=talker, kind="rewrite", text="Two and two are four.")
    Feedback.objects.give(turn, by=talker, kind="thumb", value=-1, text="The sum is wrong.")
    page = text_of(console.get(reverse("console:turn", args=[turn.pk])))
    assert '<span class="chip bad">bad</span> <q>five</q>' in page
    assert "Two and two are <del>five</del><ins>four</ins>." in page
    assert "The sum is wrong." in page


@pytest.mark.parametrize("page", ["/console/turns/", "/console/clients/", "/console/turns/{}/"])
@pytest.mark.parametrize("of", ["turn", "session"])
def test_no_page_shows_a_word_of_what_is_off_the_record(console, make_turn, talker, page, of):
    secret = "Seventy thousand."
    came = [{"role": "user", "content": f"Thanks. {secret}"}]
    asked = [{"role": "user", "content": f"{secret} Too little?"}]
    turn = make_turn("served", secret, messages=asked, next_state=came, rule="generic/main")
    Feedback.objects.create(turn=turn, by=talker, kind="thumb", value=1, text=secret)
    address = page.format(turn.pk)
    assert secret in text_of(console.get(address))
    row = turn if of == "turn" else turn.session
    row.learns = False
    row.save()
    answer = console.get(address)
    assert answer.status_code == 200
    assert secret not in text_of(answer)
    assert "ff the record" in text_of(answer)

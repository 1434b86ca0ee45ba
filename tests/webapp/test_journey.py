"""How far a turn has come, in words a person reads."""

from __future__ import annotations

import pytest
from django.template.loader import render_to_string

from chat.models import Turn
from checkpoints.models import Checkpoint
from judge.models import Judgement, Vote
from judge.samples.sample_rows import Reason
from judge.votes import precedence
from tests.rows import made_by
from training import line_recipes
from training.models import Run, Sample
from webapp.journeys import known as journeys
from webapp.journeys.ballots import Ballot, tally
from webapp.journeys.known import journey

STAGES = [
    (("answering", {}), "writing", "writing"),
    (("served", {}), "served", "not taught yet"),
    (("served", {"finish_reason": "length"}), "served", "not taught yet"),
    (("served", {"line": "side"}), "unused", "side request"),
    (("served", {"learns": False}), "unused", "off the record"),
    (("observed", {}), "judging", "being judged"),
    (("closed", {"finish_reason": "abort"}), "closed", "stopped"),
    (("closed", {"finish_reason": "error"}), "closed", "failed"),
    (("closed", {}), "closed", "not taught"),
]


@pytest.mark.parametrize(("state", "stage", "label"), STAGES)
def test_each_state_has_its_words(make_turn, state, stage, label):
    status, fields = state
    told = journey(make_turn(status, **fields))
    assert (told.stage, told.label) == (stage, label)
    assert told.detail


def test_votes_are_counted_while_they_come_in(make_turn, settings):
    settings.JUDGE_VOTES = 3
    turn = make_turn("observed")
    for index in range(2):
        Vote.objects.create(turn=turn, question="score", index=index, judge="j", prompt_version="1", score=1)
    told = journey(turn)
    assert (told.done, told.total) == (2, 6)
    assert "2 of up to 6 votes" in told.detail


def test_a_vote_that_was_asked_for_again_counts_once(make_turn):
    turn = make_turn("judged")
    Judgement.objects.create(turn=turn, reward=1, reward_from="votes", reason="neutral, and no hint")
    for score, failure in ((None, "unreadable"), (1, "")):
        Vote.objects.create(
            turn=turn, question="score", index=0, judge="j", prompt_version="1", score=score, failure=failure
        )
    assert "(1 good)" in journey(turn).detail


def test_a_verdict_without_a_sample_says_why(make_turn):
    turn = make_turn("judged")
    Judgement.objects.create(turn=turn, reward=0, reward_from="votes", reason="neutral, and no hint")
    told = journey(turn)
    assert (told.stage, told.label) == ("unused", "judged neutral")
    assert told.detail.endswith("Not learned: neutral, and no hint.")


@pytest.mark.parametrize("status", ["served", "judged"])
def test_a_reply_that_was_cut_says_what_of_it_would_teach(make_turn, status):
    turn = make_turn(status, finish_reason="length")
    if status == "judged":
        reason, code = Reason.TRUNCATED, Reason.TRUNCATED.code
        Judgement.objects.create(turn=turn, reward=-1, reward_from="thumb", reason=reason, reason_code=code)
    told = journey(turn)
    assert told.stage == {"served": "served", "judged": "unused"}[status]
    assert "cut off at its length limit" in told.detail
    assert "What you ask for, or write in its place, teaches." in told.detail


def test_a_place_in_the_next_batch(make_lesson):
    first, second = make_lesson(), make_lesson()
    size = line_recipes.current().batch_size
    told = [journey(lesson.turn) for lesson in (first, second)]
    assert [one.label for one in told] == [f"lesson 1 of {size}", f"lesson 2 of {size}"]
    assert told[0].stage == "batch"
    assert told[0].detail.startswith("Judged bad by the judge (2 bad, 1 failed). It teaches your guidance.")


def test_where_people_rewrite_a_full_batch_says_in_one_line_why_training_waits(make_lesson):
    lessons = [make_lesson() for _ in range(line_recipes.current().batch_size)]  # 16, 8 of them to be rewrites
    Sample.objects.filter(pk=lessons[0].sample_id).update(rewrite_ids=[1, 2])
    Sample.objects.exclude(pk=lessons[0].sample_id).update(voted=True)
    told = journey(lessons[1].turn)
    assert (told.stage, told.label, told.done, told.total) == ("batch", "lesson 2 of 16", 16, 16)
    assert told.detail.endswith(
        "It is a lesson. 16 of 16 lessons. Training can start now. The recipe waits for 7 more rewrites, for 15 more "
        "lessons from people, or for 80 more of any kind."
    )


def test_what_a_run_left_aside_says_so_and_has_no_place(make_lesson):
    left, next_one = make_lesson(), make_lesson()
    run = Run.objects.create(recipe={}, status="finished")
    Sample.objects.filter(pk=left.sample_id).update(passed_by=run)
    told = journey(left.turn)
    assert (told.stage, told.label) == ("batch", "set aside")
    assert told.detail.endswith(f"Run {run.pk} left it aside: “Learn now” in the console takes it up.")
    assert journey(next_one.turn).label == f"lesson 1 of {line_recipes.current().batch_size}"


def test_of_more_than_a_run_takes_each_says_how_many_are_before_it(make_lesson):
    size = line_recipes.current().batch_size
    lessons = [make_lesson() for _ in range(size + 2)]  # while learning is paused, say
    told = journey(lessons[-1].turn)
    assert (told.label, told.done) == (f"lesson {size + 2} of {size + 2}", size)
    assert told.detail.endswith(f"{size} of {size} lessons, and 2 more after them. Training can start now.")


def test_a_run_shows_how_far_it_is(make_lesson):
    run = Run.objects.create(recipe={}, status="running", progress={"share": 0.4, "eta_s": 90})
    told = journey(make_lesson("claimed", run=run).turn)
    assert (told.stage, told.label, told.done, told.total) == ("learning", "training 40 %", 40, 100)
    assert "About 2 min to go." in told.detail


def test_a_queued_run_waits_for_the_learner(make_lesson):
    run = Run.objects.create(recipe={}, status="queued")
    assert journey(make_lesson("claimed", run=run).turn).label == "waits for training"


@pytest.mark.parametrize("status", Checkpoint.Status.values)
def test_what_was_learned_names_its_checkpoint_and_where_that_stands(make_lesson, status):
    run = Run.objects.create(recipe={}, status="finished")
    if status == "live":
        Checkpoint.live().move("retired")
    made_by(run, Checkpoint.objects.create(number=7, status=status, adapter="talkback-7-x"))
    told = journey(make_lesson("trained", run=run).turn)
    assert (told.stage, told.label) == ("trained", "taught to talkback@7")
    assert "@7" in told.detail
    assert told.tone == "bad"  # the reply was judged bad, whatever became of the checkpoint


def test_a_stale_sample_says_why(make_lesson):
    told = journey(make_lesson("stale").turn)
    assert (told.stage, told.label) == ("unused", "not taught")


def test_many_turns_ask_no_more_than_one(make_lesson, django_assert_num_queries):
    turns = [make_lesson().turn for _ in range(5)]
    turns = list(Turn.objects.select_related("session").filter(pk__in=[turn.pk for turn in turns]))
    with django_assert_num_queries(4):  # judgements with samples and recipes, votes, hints, what waits for the batch
        assert len(journeys.journeys(turns)) == 5


def test_votes_are_told_in_words():
    assert tally(Ballot()) == "no votes"
    assert tally(Ballot([0, -1, -1], asked=3)) == "2 bad, 1 neutral"


@pytest.mark.parametrize(
    ("source", "by", "beside"),
    [
        ("thumb", "by your thumb.", "A person’s word"),
        ("marks", "by your marks.", "A person’s word"),
        ("reviewer", "by a reviewer.", "A person’s word"),
        ("test", "by a test.", "Checked, not guessed"),
        ("rule", "by a visible rule.", "Checked, not guessed"),
        ("votes", "by the judge (", "Inferred by votes"),
    ],
)
def test_beside_a_verdict_stands_whose_word_it_is_and_whose_outranks_it(make_turn, source, by, beside):
    turn = make_turn("judged")
    Judgement.objects.create(turn=turn, reward=-1, reward_from=source, reason="not asked for")
    told = journey(turn)
    assert by in told.detail
    assert told.beside.startswith(beside)
    assert told.beside in render_to_string("chat/_chip.html", {"turn": turn, "journey": told})


def test_every_source_of_a_reward_stands_in_one_list():
    assert [source.name for source in precedence.REWARDS] == [
        "reviewer",
        "thumb",
        "marks",
        "test",
        "world",
        "rule",
        "votes",
    ]
    for source in precedence.REWARDS:
        assert precedence.of_reward(source.name) is source

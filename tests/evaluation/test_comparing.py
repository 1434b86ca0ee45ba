"""Two checkpoints on the same prompts: both are asked, people choose blindly, and what they choose is counted."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.contrib.auth import get_user_model
from django.utils import timezone
from hypothesis import given
from hypothesis import strategies as st

from checkpoints.models import Checkpoint
from core.errors import IllegalMove
from core.statistics import Tally
from evaluation import comparing
from evaluation.comparing import ComparisonRefused
from evaluation.models import Choice, Comparison
from gpu_workers.errors import EngineUnavailable
from gpu_workers.learner import distances
from tests.races import at_once
from training.provenance import retention

pytestmark = pytest.mark.django_db

PROMPTS = ["What is a rainbow?", "What is tea?"]
DAY = timedelta(days=1)


@pytest.fixture
def other(engine):
    made = Checkpoint.objects.create(
        number=1, status="passed", parent=Checkpoint.live(), adapter="talkback-1-a", path="c/1"
    )
    engine.loaded[made.adapter] = str(made.folder)
    return made


@pytest.fixture
def asked(other, person):
    return comparing.ask(Checkpoint.live(), other, PROMPTS, by=person)


@pytest.fixture
def answer(engine, renderer, monkeypatch):
    monkeypatch.setattr(distances, "by_layer", lambda first, second, base: [])  # there are no files here

    def answer(comparison: Comparison) -> Comparison:
        comparing.answer(comparison.pk, engine=engine, renderer=renderer)
        comparison.refresh_from_db()
        return comparison

    return answer


def say_four(engine):
    for text, to in (("Light.", "rainbow"), ("Light in rain.", "rainbow"), ("A drink.", "tea"), ("Leaves.", "tea")):
        engine.says(text, to=to)


def test_both_are_asked_the_same_and_each_keeps_its_own_words(engine, asked, answer):
    say_four(engine)

    replies = answer(asked).replies

    assert asked.status == "answered"
    assert [reply["prompt"] for reply in replies] == PROMPTS
    assert {replies[0]["first"], replies[0]["second"]} == {"Light.", "Light in rain."}
    assert {replies[1]["first"], replies[1]["second"]} == {"A drink.", "Leaves."}


def test_an_engine_that_goes_away_leaves_what_was_answered_and_nothing_is_asked_twice(engine, asked, answer, renderer):
    say_four(engine)
    really, calls = comparing._answer, []

    def once(comparison, place, *rest):
        calls.append(place)
        if len(calls) == 2:
            raise EngineUnavailable("gone")
        really(comparison, place, *rest)

    comparing._answer = once
    try:
        with pytest.raises(EngineUnavailable):
            answer(asked)
        asked.refresh_from_db()
        assert (asked.status, len(asked.replies)) == ("queued", 1)
        answer(asked)
    finally:
        comparing._answer = really

    assert calls == [0, 1, 1]
    assert (asked.status, len(asked.replies)) == ("answered", 2)


@pytest.mark.parametrize("side", ["left", "right", "same"])
def test_a_choice_counts_for_whom_it_was_shown_of(engine, asked, answer, person, side):
    say_four(engine)
    answer(asked)

    comparing.choose(asked, 0, side, by=person)

    left = "second" if asked.replies[0]["is_swapped"] else "first"
    right = "first" if left == "second" else "second"
    assert Choice.objects.get().picked == {"left": left, "right": right, "same": "same"}[side]


def test_who_knows_which_is_which_chooses_no_more_and_others_still_do(engine, asked, answer, person):
    say_four(engine)
    answer(asked)
    ben = get_user_model().objects.create_user("ben")

    comparing.choose(asked, 0, "left", by=person)
    comparing.choose(asked, 0, "right", by=person)  # they changed their mind
    assert Choice.objects.count() == 1
    comparing.reveal(asked, person)
    with pytest.raises(IllegalMove, match="which is which"):
        comparing.choose(asked, 1, "left", by=person)
    comparing.choose(asked, 1, "left", by=ben)

    assert comparing.open_places(asked, ben) == [0]
    assert Choice.objects.count() == 2


def test_choices_between_the_same_two_add_up_whichever_was_called_the_first(other, person):
    live = Checkpoint.live()
    for first, second, picked in ((live, other, "second"), (other, live, "first"), (other, live, "same")):
        made = Comparison.objects.create(first=first, second=second, status="answered", replies=[{}])
        Choice.objects.create(comparison=made, place=0, picked=picked, by=person)

    assert comparing.tally_between(live, other) == Tally(first=0, second=2, same=1)


@pytest.mark.parametrize(
    ("prompts", "why"),
    [(["x"] * 25, "At most 24 prompts"), (["x" * 2001], "at most 2000 characters")],
)
def test_what_cannot_be_compared_is_refused_with_a_sentence(other, prompts, why):
    with pytest.raises(ComparisonRefused, match=why):
        comparing.ask(Checkpoint.live(), other, prompts, by=None)
    with pytest.raises(ComparisonRefused, match="two different"):
        comparing.ask(other, other, ["x"], by=None)
    assert not Comparison.objects.exists()


@given(st.integers(0, 200), st.integers(0, 200))
def test_what_is_said_to_be_needed_is_what_tells(first, second):
    tally = Tally(first, second)
    mirrored = Tally(second, first)
    assert (tally.needed, tally.evidence) == (mirrored.needed, pytest.approx(mirrored.evidence))
    assert (tally.needed == 0) == tally.is_known
    if first and not second and tally.needed:
        assert Tally(first + tally.needed).is_known  # all for one side: whole choices, no rounding


@pytest.fixture
def unheld(other, settings, tmp_path):
    """The other one, with files that no rule keeps."""
    settings.DATA_DIR, settings.RETAIN_DAYS = tmp_path, 0
    other.folder.mkdir(parents=True)
    Checkpoint.objects.filter(pk=other.pk).update(status="rejected", moved_at=timezone.now() - DAY)
    return other


def test_weights_stay_while_a_comparison_waits_for_them(unheld, asked):
    (held,) = retention.plan()
    assert held.reasons == ["it is being compared with another"]
    assert retention.let_go(unheld) == 0
    assert unheld.folder.is_dir()

    asked.move("failed", error="The engine refused it.")
    retention.let_go(Checkpoint.objects.get(pk=unheld.pk))
    assert not unheld.folder.exists()
    for ask in (
        lambda: comparing.ask(Checkpoint.live(), asked.second, PROMPTS, by=None),  # read while they were there
        lambda: comparing.again(asked),
    ):
        with pytest.raises(ComparisonRefused, match="talkback@1 are not on this disk any more"):
            ask()
    assert not Comparison.objects.filter(status="queued").exists()


@pytest.mark.django_db(transaction=True, serialized_rollback=True)
@pytest.mark.database("postgresql")  # SQLite lets one writer in at a time: nothing can race
def test_of_a_comparison_and_the_sweep_that_begin_at_once_one_gives_way(unheld):
    live = Checkpoint.live()

    def ask():
        try:
            return comparing.ask(live, unheld, PROMPTS, by=None)
        except ComparisonRefused:
            return None

    asked, _ = at_once(ask, lambda: retention.let_go(Checkpoint.objects.get(pk=unheld.pk)))

    assert unheld.folder.is_dir() == (asked is not None)

"""What a person keeps asking for, those wishes together that are one."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.contrib.auth import get_user_model
from django.utils import timezone

from chat.models import Session
from checkpoints.models import Checkpoint
from judge.hints import decisions, hint_words, reviews, standing_hints, undoing
from judge.models import Hint, Judgement
from tests.rows import made_by
from training.models import Run, Sample


@pytest.fixture
def ask(serve):
    """A standing hint on a turn of its own, so many days ago."""

    def ask(text, days=0, *, source="user", status="accepted", **fields):
        turn = serve(status="judged", **({"session": fields.pop("session")} if "session" in fields else {}))
        return Hint.objects.create(
            turn=turn,
            source=source,
            status=status,
            proposed=text,
            text=text,
            created_at=timezone.now() - timedelta(days=days),
            **fields,
        )

    return ask


@pytest.fixture
def learn():
    def learn(hint, number=None, status="trained"):
        """A sample with this hint; learned by a checkpoint of this number."""
        run = None
        if status == "trained":
            run = Run.objects.create(recipe={})
            parent = Checkpoint.live()
            made_by(
                run, Checkpoint.objects.create(number=number, parent=parent, adapter=f"a{number}", path=f"c/{number}")
            )
        sample = Sample.objects.create(
            checkpoint=hint.turn.checkpoint,
            prompt_ids=[5],
            response_ids=[6],
            behaviour_logprobs=[-1.0],
            teacher_prompt_ids=[5, 7],
            status=status,
            run=run,
        )
        Judgement.objects.create(turn=hint.turn, sample=sample, hint=hint.text)
        return sample

    return learn


def test_wishes_that_say_the_same_stand_together_with_how_often_and_since_when(ask, person):
    first = ask("Keep it short.", days=9)
    ask("Use bullet points.", days=5)
    ask("keep it short", days=3)
    ask("Please use fewer words.", days=4)
    last = ask("Keep it short.", days=1)
    short, fewer, lists = standing_hints.of(person)
    assert (short.wording, short.times, short.others) == ("Keep it short.", 3, ["keep it short"])
    assert (short.since, short.last) == (first.created_at, last.created_at)
    assert (fewer.wording, fewer.times) == ("Please use fewer words.", 1)  # the same, and yet not surely so
    assert (lists.wording, lists.times) == ("Use bullet points.", 1)


def test_only_what_stands_is_listed_and_a_merged_hint_in_the_words_it_was_merged_into(ask, person):
    target = ask("Answer in one sentence.", days=2)
    ask("One sentence only.", days=1, status="merged", merged_into=target)
    ask("Use emojis.", status="waiting")
    ask("Use tables.", status="rejected")
    waiting = ask("Be formal, please.", status="waiting")
    ask("Formal, please.", status="merged", merged_into=waiting)
    (only,) = standing_hints.of(person)
    assert (only.wording, only.times, only.others) == ("Answer in one sentence.", 2, [])
    assert standing_hints.waiting(person) == 2


def test_rewrites_say_how_one_reply_should_have_been(ask, person):
    ask(hint_words.worded(rewrite="Vienna."), source="person")
    ask(hint_words.worded("Name the city only.", "Vienna."), source="person")
    (only,) = standing_hints.of(person)
    assert only.wording == "Name the city only."
    assert only.is_own_words
    assert standing_hints.rewrites(person) == 2


def test_it_says_which_checkpoints_hold_it_and_what_waits(ask, learn, person):
    one, two, three = ask("Keep it short."), ask("Keep it short!"), ask("keep it short")
    learn(one, 3)
    learn(two, 5)
    learn(three, status="ready")
    (only,) = standing_hints.of(person)
    assert (only.learned, only.checkpoints, only.waiting) == (2, [3, 5], 1)


def test_the_live_line_is_the_live_checkpoint_and_what_it_was_trained_from(person):
    base = Checkpoint.live()
    one = Checkpoint.objects.create(number=1, parent=base, adapter="a1", path="c/1")
    Checkpoint.objects.create(number=2, parent=base, adapter="a2", path="c/2")
    three = Checkpoint.objects.create(number=3, parent=one, adapter="a3", path="c/3", status="approved")
    three.go_live()
    assert standing_hints.live_line(person) == {0, 1, 3}


def test_contradictions_name_each_other_and_which_is_newer(ask, person):
    ask("Use bullet points.", days=2)
    ask("No lists, please.", days=1)
    newer, older = standing_hints.of(person)
    assert [(one.wording, one.is_newer) for one in newer.opposites] == [("Use bullet points.", False)]
    assert [(one.wording, one.is_newer) for one in older.opposites] == [("No lists, please.", True)]


def test_what_is_off_the_record_or_anothers_is_not_there(ask, person):
    other = get_user_model().objects.create_user("ben")
    ask("Keep it short.", session=Session.objects.create(user=other))
    ask("Use emojis.", session=Session.objects.create(user=person, learns=False))
    hidden = ask("Use tables.")
    reviews.never_learn(hidden.turn, by=other)
    assert standing_hints.of(person) == []
    assert [(one.username, one.standing) for one in standing_hints.people()] == [("ben", 1)]


def test_not_any_more_takes_all_of_it_back_and_undo_brings_all_of_it_again(ask, learn, person):
    chosen = [ask("Keep it short."), ask("Use fewer words.", source="person")]
    sample = learn(chosen[0], status="ready")
    before = [decisions.state(hint) for hint in chosen]

    done, refused = standing_hints.forgo(chosen, by=person)

    assert (len(done), refused) == (2, [])
    sample.refresh_from_db()
    assert sample.status == "stale"
    assert standing_hints.of(person) == []
    (ruling,) = standing_hints.forgone(person)
    assert ruling.before["text"] in ("Keep it short.", "Use fewer words.")

    undoing.undo(ruling, by=person)
    assert [decisions.state(Hint.objects.get(pk=hint.pk)) for hint in chosen] == before
    assert standing_hints.forgone(person) == []
    assert {hint.turn.status for hint in Hint.objects.all()} == {"observed"}

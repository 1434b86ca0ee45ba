"""What a person gives teaches their own line; the shared one learns it where they said so, and no longer than that."""

import pytest
from django.contrib.auth import get_user_model

from chat import turns
from chat.api_keys import ApiKey
from chat.models import Session
from checkpoints import lines
from checkpoints.lines import LineRefused
from checkpoints.models import SHARED, Checkpoint, Member
from judge.models import Judgement
from judge.samples import pooling, sample_rows
from privacy import consent, membership
from tests.rows import made_by
from training import batches, line_recipes
from training.config import Recipe
from training.models import Run, Sample

RECIPE = Recipe(batch_size=1)


@pytest.fixture
def ben(db):
    return get_user_model().objects.create_user("ben")


@pytest.fixture
def line(person):
    """Ana's own."""
    line = lines.make("Ana")
    membership.join(line, person)
    return line


@pytest.fixture
def taught(serve, say, judge_it, engine):
    """A turn with a thumb, judged."""

    def taught(value=1, **fields):
        engine.says(r"\boxed{1}", times=None)
        turn = serve(next_state="Thanks.", **fields)
        say(turn, "thumb", value=value)
        assert judge_it(turn)
        return turn

    return taught


def waiting(line):
    return set(Sample.objects.filter(status="ready", line=line).values_list("origin", flat=True))


def test_a_thumb_teaches_the_line_of_who_gave_it_and_no_other(taught, line, person, ben):
    membership.join(lines.make("Ben"), ben)
    hers, his = taught(), taught(session=Session.objects.create(user=ben))
    assert (waiting("ana"), waiting("ben"), waiting(SHARED)) == ({hers.pk}, {his.pk}, set())
    assert [run.line_id for run in (batches.fill(RECIPE, "ben"), batches.fill(RECIPE, "ana"))] == ["ben", "ana"]
    assert batches.fill(RECIPE) is None
    assert Run.objects.get(line="ana").samples.get().origin == hers.pk


def test_without_a_word_nothing_of_a_private_line_is_in_the_shared_batch_and_with_it_it_is(taught, line, person):
    before = taught()
    membership.pool(person, may=True)
    after = taught()
    assert (waiting("ana"), waiting(SHARED)) == ({before.pk, after.pk}, {after.pk})
    own, second = Sample.objects.filter(origin=after.pk).order_by("pk")
    assert Judgement.objects.get(turn=after).sample == own
    assert [getattr(own, name) for name in ("reward", "prompt_ids", "behaviour_logprobs", "checkpoint")] == [
        getattr(second, name) for name in ("reward", "prompt_ids", "behaviour_logprobs", "checkpoint")
    ]
    run = batches.fill(RECIPE)
    assert run.samples.get() == second
    assert pooling.judged(run).get().turn == after  # the shared line's exam reads its hint and its thumb


def test_what_was_pooled_is_stale_once_it_is_taken_back_and_stays_in_its_own_line(taught, line, person):
    membership.pool(person, may=True)
    turn = taught()
    assert membership.pool(person, may=False) == 1
    second = Sample.objects.get(origin=turn.pk, line=SHARED)
    assert (second.status, second.drop_reason, second.prompt_ids) == ("stale", membership.TAKEN_BACK, [])
    assert (waiting("ana"), waiting(SHARED)) == ({turn.pk}, set())
    assert batches.fill(RECIPE) is None
    assert taught().pk in waiting("ana")
    assert waiting(SHARED) == set()


def test_what_a_run_holds_when_it_is_taken_back_goes_as_soon_as_the_run_lets_go(
    taught, line, person, django_capture_on_commit_callbacks
):
    membership.pool(person, may=True)
    turn = taught()
    run = batches.fill(RECIPE)
    assert membership.pool(person, may=False) == 0
    with django_capture_on_commit_callbacks(execute=True):
        batches.release(run)
    assert not Sample.objects.filter(origin=turn.pk, line=SHARED).exists()


def test_a_later_verdict_takes_the_place_of_both(taught, line, person, say, judge_it):
    membership.pool(person, may=True)
    turn = taught()
    say(turn, "guidance", "Use fewer words.")
    turns.reopen(turn)
    assert judge_it(turn)
    rows = Sample.objects.filter(origin=turn.pk).order_by("pk")
    assert [(row.line_id, row.status) for row in rows] == [
        ("ana", "stale"), (SHARED, "stale"), ("ana", "ready"), (SHARED, "ready")
    ]  # fmt: skip
    assert all(row.has_teacher == (row.status == "ready") for row in rows)


def test_the_shared_line_learns_a_turn_once(taught, line, person, say, judge_it):
    membership.pool(person, may=True)
    turn = taught()
    Sample.objects.filter(line=SHARED).update(status="trained")
    say(turn, "guidance", "Use fewer words.")
    turns.reopen(turn)
    assert judge_it(turn)
    assert list(Sample.objects.filter(origin=turn.pk, line=SHARED).values_list("status", flat=True)) == ["trained"]
    assert waiting("ana") == {turn.pk}


def test_a_verdict_waits_while_the_shared_line_learns_its_turn(taught, line, person, say, judge_it):
    membership.pool(person, may=True)
    turn = taught()
    batches.fill(RECIPE)
    assert sample_rows.is_claimed(Judgement.objects.get(turn=turn))
    say(turn, "guidance", "Use fewer words.")
    turns.reopen(turn)
    assert not judge_it(turn)


def test_off_the_record_both_samples_go_and_what_the_shared_line_learned_is_told(taught, line, person):
    membership.pool(person, may=True)
    waits, learned = taught(), taught()
    run = Run.objects.create(recipe={}, parent=Checkpoint.live())
    made_by(run, Checkpoint.objects.create(number=1, adapter="a1"))
    Sample.objects.filter(origin=learned.pk, line=SHARED).update(status="trained", run=run)
    taken = consent.set_session(waits.session, False)
    assert (taken.waiting, taken.learned, [one.number for one in taken.checkpoints]) == (2, 1, [1])
    left = Sample.objects.get()  # what was learned is emptied, and still counts
    assert (left.status, left.line_id, left.prompt_ids) == ("trained", SHARED, [])


def test_a_deleted_chat_takes_along_what_the_shared_line_made_of_it(taught, line, person):
    membership.pool(person, may=True)
    turn = taught()
    turn.session.delete()
    assert not Sample.objects.exists()


def test_a_deleted_person_is_in_no_line_any_more(taught, line, person):
    membership.pool(person, may=True)
    taught()
    person.delete()
    assert (Member.objects.count(), Sample.objects.count()) == (0, 0)
    assert lines.Line.objects.filter(name="ana").exists()


def test_what_waits_in_the_shared_line_goes_with_who_gets_one_of_their_own(taught, person, ben):
    hers, his = taught(), taught(session=Session.objects.create(user=ben))
    membership.join(lines.make("Ana"), person)
    assert (waiting("ana"), waiting(SHARED)) == ({hers.pk}, {his.pk})


def test_who_moves_to_another_private_line_is_asked_anew(taught, line, person):
    membership.pool(person, may=True)
    turn = taught()
    assert not membership.join(lines.make("Team"), person).pools
    assert (waiting("ana"), waiting("team"), waiting(SHARED)) == ({turn.pk}, set(), set())


def test_a_retired_line_learns_nothing_and_its_people_are_answered_by_the_shared_one(taught, line, person):
    own = Checkpoint.objects.create(number=1, line=line, status="live", adapter="a1")
    pinned, _ = ApiKey.objects.issue(person, "k", checkpoint=own)
    ApiKey.objects.issue(person, "b", checkpoint=Checkpoint.objects.get(number=0))
    taught()
    assert Checkpoint.for_user(person) == own
    membership.retire(line)
    assert Checkpoint.for_user(person).number == 0
    assert (waiting("ana"), line_recipes.waiting()) == (set(), [])
    assert set(ApiKey.objects.filter(checkpoint=None)) == {pinned}
    own.refresh_from_db()
    assert own.status == "live"  # kept, without a person
    with pytest.raises(LineRefused):
        membership.join(line, person)


def test_a_run_that_waits_ends_with_its_line(taught, line, person):
    turn = taught()
    run = batches.fill(RECIPE, "ana")
    membership.retire(line)
    run.refresh_from_db()
    assert (run.status, Sample.objects.get(origin=turn.pk).status) == ("failed", "stale")


def test_the_shared_line_has_no_members_is_never_retired_and_needs_no_word(person):
    shared = lines.Line.objects.get(name=SHARED)
    for call in (
        lambda: membership.join(shared, person),
        lambda: membership.retire(shared),
        lambda: membership.pool(person, may=True),
    ):
        with pytest.raises(LineRefused):
            call()

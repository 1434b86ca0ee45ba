"""Going live and the way back."""

from __future__ import annotations

import pytest
from asgiref.sync import async_to_sync
from django.contrib.auth import get_user_model

from chat.models import Session, Turn
from checkpoints import promotion, proofs, repairs
from checkpoints.loading import Unproven
from checkpoints.models import Checkpoint, Decision
from core.errors import IllegalMove
from gpu_workers.errors import EngineUnavailable

promote, roll_back, repair = (async_to_sync(f) for f in (promotion.promote, promotion.roll_back, repairs.repair))


@pytest.fixture
def person(db):
    return get_user_model().objects.create_user("ana")


@pytest.fixture
def make(engine, db):
    """A checkpoint that the scripted engine answers for as its learner would."""

    def make(number, status="approved", *, parent=None):
        adapter = f"talkback-{number}-{number:08x}"
        return Checkpoint.objects.create(
            number=number,
            status=status,
            parent=parent,
            adapter=adapter,
            path=f"checkpoints/{number}",
            probe=engine.probe(adapter),
        )

    return make


def live():
    return Checkpoint.live().number


def test_an_approved_checkpoint_goes_live_beside_the_old_one(make, engine, person):
    first = make(1)

    promote(first, by=person, reason="better")

    assert live() == 1
    assert engine.loaded == {first.adapter: str(first.folder)}
    assert Checkpoint.objects.get(number=0).status == "retired"
    decision = Decision.objects.get()
    assert (decision.checkpoint, decision.verb, decision.by, decision.reason) == (first, "promote", person, "better")


def test_promoting_twice_is_promoting_once(make, engine):
    first = make(1)
    promote(first)
    promote(first)
    assert live() == 1
    assert Decision.objects.count() == 1


@pytest.mark.parametrize("status", ["candidate", "passed", "rejected", "retired"])
def test_only_what_was_approved_is_promoted(make, status):
    with pytest.raises(IllegalMove, match=f"talkback@1 is {status}"):
        promote(make(1, status))
    assert live() == 0


def test_an_engine_that_answers_with_the_base_changes_nothing(make, engine):
    first = make(1)
    honest = engine.logprobs
    engine.logprobs = lambda prompt, response, adapter: honest(prompt, response, None)  # the adapter is ignored

    with pytest.raises(Unproven, match="as if the adapter were not there"):
        promote(first)

    first.refresh_from_db()
    assert live() == 0
    assert first.status == "rejected"
    assert "shows 0% of the learner's change" in first.reason
    assert not engine.loaded
    assert [d.verb for d in Decision.objects.all()] == ["reject"]


def test_a_change_that_rounding_may_hide_is_refused_and_not_blamed_on_the_engine():
    # The learner moved by 0.002 a token, the engine otherwise; in bfloat16 the two may be 0.15 apart.
    proof = proofs.compare([-1.001, -1.999], [-1.0, -2.0], [-1.002, -2.002], dtype="bfloat16")

    assert not proof.passed
    assert "0.0020 a token, which rounding may hide" in proof.sentence
    assert "more updates" in proof.sentence

    still = proofs.compare([-1.0, -2.0], [-1.0, -2.0], [-1.002, -2.002], dtype="bfloat16")
    assert "as if the adapter were not there" in still.sentence  # not even rounding moved it


def test_an_engine_that_answers_with_other_weights_changes_nothing(make, engine):
    first = make(1)
    honest = engine.logprobs
    engine.logprobs = lambda prompt, response, adapter: [
        x - (0.5 if adapter else 0) for x in honest(prompt, response, adapter)
    ]
    with pytest.raises(Unproven, match=r"0\.5000 from the learner's on average; the limit is 0\.001"):
        promote(first)
    assert live() == 0


def test_files_that_cannot_be_served_reject_the_checkpoint_with_the_engines_sentence(make, engine):
    first = make(1)
    engine.invalid.add(first.adapter)
    with pytest.raises(Unproven, match="cannot be served"):
        promote(first)
    first.refresh_from_db()
    assert (first.status, live()) == ("rejected", 0)


def test_a_checkpoint_without_a_probe_does_not_go_live(make):
    first = make(1)
    Checkpoint.objects.filter(pk=first.pk).update(probe={})
    with pytest.raises(Unproven, match="without a probe"):
        promote(first)
    assert live() == 0


def test_an_engine_that_is_away_leaves_the_approval_standing(make, engine):
    first = make(1)
    engine.goes_down()
    with pytest.raises(EngineUnavailable):
        promote(first)
    first.refresh_from_db()
    assert (first.status, live()) == ("approved", 0)

    engine.comes_back()
    promote(first)
    assert live() == 1


def test_roll_back_goes_to_what_was_live_before_and_says_who_and_why(make, engine, person):
    first, second = make(1), make(2)
    promote(first)
    promote(second)

    assert roll_back(by=person, reason="it swears") == first

    assert live() == 1
    decision = Decision.objects.first()
    assert (decision.checkpoint, decision.verb, decision.by, decision.reason) == (
        first,
        "roll back",
        person,
        "it swears",
    )


def test_rolling_back_twice_goes_further_back_and_not_forth(make, engine):
    promote(make(1))
    promote(make(2))
    assert roll_back().number == 1
    assert roll_back().number == 0
    with pytest.raises(IllegalMove, match="nothing to roll back to"):
        roll_back()


def test_every_page_knows_the_way_back_in_one_query_and_right_after_each_move(make, engine, django_assert_num_queries):
    def way_back():
        return promotion.Answering.read().previous.number

    promote(make(1))
    promote(make(2))

    assert way_back() == 1
    with django_assert_num_queries(1):
        assert way_back() == 1
    roll_back()  # 1 answers, and 2 is forgotten
    assert way_back() == 0
    promote(make(3))
    assert way_back() == 1
    with django_assert_num_queries(1):
        assert promotion.previous().number == 1


def test_one_can_roll_back_to_any_retired_checkpoint_by_name(make, engine):
    first, second = make(1), make(2)
    promote(first)
    promote(second)
    roll_back(to=Checkpoint.objects.get(number=0))
    assert roll_back(to=second).number == 2
    assert live() == 2


@pytest.mark.parametrize("status", ["candidate", "passed", "approved", "rejected"])
def test_one_cannot_roll_back_to_what_was_never_live(make, status):
    with pytest.raises(IllegalMove, match="only roll back to what has been live"):
        roll_back(to=make(1, status))


def test_a_checkpoint_that_fails_its_probe_is_not_rolled_back_to(make, engine):
    first = make(1)
    promote(first)
    promote(make(2))
    honest = engine.logprobs
    engine.logprobs = lambda prompt, response, adapter: honest(prompt, response, None)
    with pytest.raises(Unproven):
        roll_back()
    first.refresh_from_db()
    assert (first.status, live()) == ("retired", 2)


def test_of_two_people_who_roll_back_one_wins_and_the_other_reads_why(make, engine):
    promote(make(1))
    second = make(2)
    promote(second)
    roll_back(instead_of=second)
    with pytest.raises(IllegalMove, match="talkback@2 is not live any more, talkback@1 is"):
        roll_back(instead_of=second)
    assert live() == 1


def test_of_two_people_who_decide_one_wins_and_the_other_reads_who_was_quicker(make, person):
    seen_by_both = make(1, "passed")
    mine, yours = (Checkpoint.objects.get(pk=seen_by_both.pk) for _ in range(2))

    mine.decide("approved", by=person, reason="good")
    with pytest.raises(IllegalMove, match=r"talkback@1 is already approved \(approve by ana\)"):
        yours.decide("approved", by=None)

    assert Decision.objects.count() == 1


def test_a_rejection_keeps_its_reason(make, person):
    first = make(1, "passed")
    first.decide("rejected", by=person, reason="too short")
    assert (first.status, first.reason) == ("rejected", "too short")


def test_the_engine_keeps_the_last_retired_adapters_and_lets_go_of_the_rest(make, engine):
    for number in range(1, 5):
        promote(make(number))
    # 4 is live; of the retired 0, 1, 2 and 3 the last two stay warm
    assert sorted(engine.loaded) == [f"talkback-{n}-{n:08x}" for n in (2, 3, 4)]


def test_an_adapter_with_a_reply_still_being_written_stays_loaded(make, engine, person):
    first = make(1)
    promote(first)
    session = Session.objects.create(user=person)
    turn = Turn.objects.create(session=session, position=0, checkpoint=first, messages=[])  # ANSWERING
    for number in range(2, 6):
        promote(make(number))
    assert first.adapter in engine.loaded

    turn.move(Turn.Status.SERVED)
    repair()
    assert first.adapter not in engine.loaded


def test_after_an_engine_restart_what_is_wanted_is_loaded_again(make, engine):
    first, second = make(1), make(2)
    promote(first)
    promote(second)
    engine.loaded.clear()

    assert sorted(repair()) == sorted([first.adapter, second.adapter])

    assert sorted(engine.loaded) == sorted([first.adapter, second.adapter])
    assert repair() == []


def test_repair_leaves_adapters_alone_that_are_not_ours(make, engine):
    engine.loaded["not-ours"] = "/elsewhere"
    promote(make(1))
    repair()
    assert "not-ours" in engine.loaded


@pytest.mark.parametrize(
    ("numbers", "line"),
    [([0], [0]), ([0, 1], [0, 1]), ([0, 1, 2, 1], [0, 1]), ([0, 1, 2, 1, 3], [0, 1, 3]), ([0, 1, 0, 2], [0, 2])],
)
def test_the_way_back_forgets_what_one_fled_from(numbers, line):
    assert promotion.unwind(numbers) == line


def test_bfloat16_noise_of_the_same_size_as_the_change_does_not_hide_the_adapter():
    # engine = learner + 0.05 everywhere, adapter or not: the offset cancels, the change of 0.02 is seen whole
    learner_base, learner = [-1.0, -2.0], [-1.02, -1.98]
    engine_base, engine = [-0.95, -1.95], [-0.97, -1.93]
    proof = proofs.compare(engine, engine_base, learner, learner_base, dtype="bfloat16")
    assert proof.share == pytest.approx(1.0)
    assert proof.passed
    assert not proofs.compare(engine_base, engine_base, learner, learner_base, dtype="bfloat16").passed


def test_a_probe_of_another_length_raises():
    with pytest.raises(ValueError):
        proofs.compare([-1.0], [-1.0, -2.0], [-1.0, -2.0])

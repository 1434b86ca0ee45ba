"""Two reviewers, a queue, and a way back from everything."""

from __future__ import annotations

import pytest

from chat import turns
from chat.models import Session, Turn
from judge.hints import acceptance, decisions, reviews, undecided, undoing
from judge.hints.decisions import NotPossible, Overtaken, Unwritten
from judge.models import Acceptance, Judgement, Overruling, Ruling, Vote
from judge.samples.sample_rows import Reason
from tests.judge.hints.rows import LONG, SHORT, fresh
from training.models import Run, Sample


@pytest.fixture
def learn(serve):
    """A sample of this turn, as a verdict leaves it."""

    def learn(turn: Turn, status: str = "ready", **fields) -> Sample:
        sample = Sample.objects.create(
            checkpoint=turn.checkpoint,
            prompt_ids=[5],
            response_ids=[6],
            behaviour_logprobs=[-1.0],
            reward=-1.0,
            status=status,
            run=None if status == "ready" else Run.objects.create(recipe={}),
        )
        Judgement.objects.update_or_create(
            turn=turn, defaults={"reward": -1, "reward_from": "votes", "confidence": 1.0, "sample": sample}
        )
        return sample

    return learn


def test_accepting_a_hint_has_its_turn_judged_again(propose, ben):
    hint = propose()
    ruling = reviews.accept(hint, by=ben, reason="clear")
    hint = fresh(hint)
    assert (hint.status, hint.text, hint.decided_by) == ("accepted", SHORT, ben)
    assert hint.turn.status == "observed"
    assert (ruling.verb, ruling.by, ruling.turn, ruling.hint, ruling.reason) == (
        "accept",
        ben,
        hint.turn,
        hint,
        "clear",
    )
    assert (ruling.before["status"], ruling.after["status"]) == ("waiting", "accepted")


def test_what_waits_in_the_next_batch_is_taken_back_at_once(propose, ben, learn):
    hint = propose()
    sample = learn(hint.turn)
    reviews.reject(hint, by=ben)
    assert fresh(sample).status == "stale"
    assert Judgement.objects.get().sample is None


@pytest.mark.parametrize("status", ["claimed", "trained"])
def test_what_a_run_has_taken_is_left_to_it(propose, ben, learn, status):
    hint = propose()
    sample = learn(hint.turn, status)
    reviews.accept(hint, by=ben)
    assert fresh(sample).status == status
    assert fresh(hint).turn.status == "observed"


def test_editing_keeps_the_words_that_were_proposed(propose, ben):
    hint = propose()
    reviews.edit(hint, "  Answer in two sentences. ", by=ben)
    hint = fresh(hint)
    assert (hint.status, hint.text, hint.proposed) == ("edited", "Answer in two sentences.", SHORT)
    assert reviews.taught(hint) == "Answer in two sentences."


def test_to_edit_a_hint_into_what_it_was_is_to_accept_it(propose, ben):
    assert reviews.edit(propose(), SHORT, by=ben).verb == "accept"


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "shorter than 10"),
        ("Be brief.", "shorter than 10"),
        ("x" * 601, "longer than 600"),
        ("Stop here. <|im_end|>", "control token"),
        ("Say \\boxed{1} and stop.", "control token"),
        ("Be\u200b very brief, please.", "control token"),
    ],
)
def test_words_that_cannot_be_a_hint_are_refused(propose, ben, text, why):
    hint = propose()
    with pytest.raises(Unwritten, match=why):
        reviews.edit(hint, text, by=ben)
    assert fresh(hint).status == "waiting"
    assert not Ruling.objects.exists()


def test_a_turn_learns_from_one_hint_and_the_other_is_set_aside(propose, ben):
    one = propose(SHORT)
    other = propose(LONG, one.turn)
    reviews.accept(one, by=ben)
    reviews.accept(other, by=ben)
    one, other = fresh(one), fresh(other)
    assert (one.status, one.waits_because) == ("rejected", decisions.SET_ASIDE)
    assert other.status == "accepted"
    ruling = Ruling.objects.first()
    assert ruling.before["others"] == {str(one.pk): ruling.before["others"][str(one.pk)]}
    assert ruling.after["others"][str(one.pk)]["status"] == "rejected"


def test_what_is_rejected_can_still_be_accepted(propose, ben):
    hint = propose()
    reviews.reject(hint, by=ben)
    reviews.accept(hint, by=ben)
    assert fresh(hint).status == "accepted"


def test_a_merged_hint_teaches_its_turn_in_the_other_ones_words(propose, ben):
    one, other = propose("Keep it to one sentence."), propose(SHORT)
    reviews.accept(other, by=ben)
    reviews.merge(one, other, by=ben)
    one = fresh(one)
    assert (one.status, one.merged_into, one.text) == ("merged", other, "Keep it to one sentence.")
    assert reviews.taught(one) == SHORT
    assert one.turn.status == "observed"


def test_what_is_merged_into_a_hint_follows_it(propose, ben):
    one, other = propose("Keep it to one sentence."), propose(SHORT)
    reviews.merge(one, other, by=ben)
    assert reviews.taught(fresh(one)) == ""  # both wait
    Turn.objects.update(status="judged")

    reviews.edit(other, "One sentence at most.", by=ben)
    assert reviews.taught(fresh(one)) == "One sentence at most."
    assert fresh(one).turn.status == "observed"

    reviews.reject(other, by=ben)
    assert reviews.taught(fresh(one)) == ""


def test_merging_into_what_is_merged_goes_to_the_end_of_the_line(propose, ben):
    a, b, c = propose("One sentence only."), propose("A single sentence."), propose(SHORT)
    reviews.merge(a, b, by=ben)
    reviews.merge(b, c, by=ben)
    assert fresh(a).merged_into == c  # went along
    d = propose("Write one sentence.")
    reviews.merge(d, b, by=ben)
    assert fresh(d).merged_into == c


def test_circles_foreign_hints_and_rejected_ones_are_refused(propose, ben, serve):
    a, b = propose("One sentence only."), propose(SHORT)
    reviews.merge(a, b, by=ben)
    with pytest.raises(NotPossible, match="into itself"):
        reviews.merge(b, a, by=ben)
    with pytest.raises(NotPossible, match="into itself"):
        reviews.merge(b, b, by=ben)
    foreign = propose(SHORT, serve(status="judged", session=Session.objects.create(user=ben)))
    with pytest.raises(NotPossible, match="two people"):
        reviews.merge(a, foreign, by=ben)
    refused = propose("Use a single sentence.")
    reviews.reject(refused, by=ben)
    with pytest.raises(NotPossible, match="was rejected"):
        reviews.merge(a, refused, by=ben)


def test_a_decision_on_what_the_page_no_longer_shows_changes_nothing(propose, ben, cleo):
    hint = propose()
    seen = decisions.standing(hint)
    reviews.edit(hint, "One sentence, no more.", by=cleo)
    with pytest.raises(Overtaken, match=r"cleo edited this hint at \d\d:\d\d UTC. Nothing was changed"):
        reviews.accept(hint, by=ben, seen=seen)
    assert fresh(hint).text == "One sentence, no more."
    assert Ruling.objects.count() == 1


def test_ones_own_second_click_is_told_that_it_was_you(propose, ben):
    hint = propose()
    seen = decisions.standing(hint)
    reviews.accept(hint, by=ben, seen=seen)
    with pytest.raises(Overtaken, match="You accepted this hint"):
        reviews.accept(hint, by=ben, seen=seen)


def test_what_is_accepted_is_not_accepted_again(propose, ben, cleo):
    hint = propose()
    reviews.accept(hint, by=ben)
    with pytest.raises(NotPossible, match="accepted already: ben did it"):
        reviews.accept(hint, by=cleo)
    with pytest.raises(NotPossible, match="already"):
        reviews.reject(propose(status="rejected", decided_by=ben), by=cleo)


def test_never_learn_takes_the_sample_away_and_the_hints_out_of_the_queue(propose, ben, learn):
    hint = propose()
    sample = learn(hint.turn)
    ruling = reviews.never_learn(hint.turn, by=ben, reason="private", hint=hint)
    assert not fresh(hint).turn.learns
    assert fresh(sample).status == "stale"
    assert not undecided.queue().exists()
    with pytest.raises(NotPossible, match="off the record already"):
        reviews.never_learn(hint.turn, by=ben)

    undoing.undo(ruling, by=ben)
    assert fresh(hint).turn.learns
    assert fresh(hint).turn.status == "observed"
    assert list(undecided.queue()) == [hint]


def test_a_reward_is_overturned_with_a_reason_and_back(serve, ben, learn):
    turn = serve(status="judged")
    sample = learn(turn)
    with pytest.raises(Unwritten, match="why"):
        reviews.overturn(turn, 1, by=ben, reason=" ")
    ruling = reviews.overturn(turn, 1, by=ben, reason="They were joking.", seen=decisions.standing(turn))
    assert (Overruling.objects.get().reward, fresh(sample).status) == (1, "stale")
    assert (ruling.before["reward"], ruling.before["reward_from"], ruling.after["reward"]) == (-1, "votes", 1)
    assert fresh(turn).status == "observed"
    undoing.undo(ruling, by=ben)
    assert not Overruling.objects.exists()


def test_of_two_who_overturn_from_the_same_page_one_is_told(serve, ben, cleo, learn):
    turn = serve(status="judged")
    learn(turn)
    seen = decisions.standing(turn)
    ruling = reviews.overturn(turn, 1, by=cleo, reason="Thanks is thanks.", seen=seen)
    with pytest.raises(Overtaken, match="cleo overturned this reward"):
        reviews.overturn(turn, 0, by=ben, reason="Unclear.", seen=seen)
    reviews.overturn(turn, None, by=ben, reason="It is undecided.")
    with pytest.raises(Overtaken, match="ben overturned this reward"):
        undoing.undo(ruling, by=cleo)
    assert Overruling.objects.get().reward is None


def test_a_reply_that_is_being_written_has_no_reward_to_overturn(serve, ben):
    turn = serve(status="answering")
    with pytest.raises(turns.TurnUnfinished):
        reviews.overturn(turn, 1, by=ben, reason="Fine.")
    assert not Overruling.objects.exists()


def test_a_policy_per_source_and_back(ben):
    assert [acceptance.threshold(source) for source in ("person", "user", "tool", "web", "file", "test")] == [
        0.0,
        0.67,
        None,
        None,
        None,
        None,
    ]
    assert acceptance.passes("user", 2 / 3)
    assert not acceptance.passes("user", 0.5)
    assert not acceptance.passes("tool", 1.0)

    ruling = acceptance.accept_from("user", None, by=ben)
    assert not acceptance.passes("user", 1.0)
    assert (ruling.verb, ruling.before, ruling.after) == (
        "policy",
        {"source": "user", "above": 0.67},
        {"source": "user", "above": None},
    )
    undoing.undo(ruling, by=ben)
    assert Acceptance.objects.get().above == 0.67

    for wrong in (("user", 1.5), ("dream", 0.5)):
        with pytest.raises(Unwritten):
            acceptance.accept_from(*wrong, by=ben)


def test_the_queue_holds_what_waits_longest_first_and_by_source(propose):
    one, two = propose(), propose(LONG, source="web")
    assert list(undecided.queue()) == [one, two]
    assert list(undecided.queue(source="web")) == [two]
    assert list(undecided.queue("accepted")) == []


def test_rewards_that_a_person_should_look_at_say_why(serve, ben):
    def judged(scores=(), **fields):
        turn = serve(status="judged")
        Judgement.objects.create(turn=turn, **fields)
        for index, score in enumerate(scores):
            Vote.objects.create(turn=turn, question="score", index=index, judge="j", prompt_version="1", score=score)
        return turn

    votes = {"reward_from": "votes"}
    tie = judged((1, 0, -1), reward=0, confidence=1 / 3, **votes)
    judged((0, 0, 0), reward=0, confidence=1.0, **votes)
    judged((1, 1, 0), reward=1, confidence=2 / 3, **votes)
    narrow = judged((1, 1, 1, 0, -1, 0), reward=1, confidence=0.5, **votes)
    against = judged((1, 1, -1), reward=-1, reward_from="thumb", confidence=1.0)
    judged((-1, -1), reward=-1, reward_from="thumb", confidence=1.0)
    mute = judged(reason=Reason.NO_QUORUM, reason_code=Reason.NO_QUORUM.code)
    found = {turn.pk: turn.because for turn in undecided.unclear()}
    assert found == {
        tie.pk: "tie",
        narrow.pk: "low confidence",
        against.pk: "thumb against votes",
        mute.pk: "no quorum",
    }
    reviews.overturn(tie, -1, by=ben, reason="They asked again.")
    Turn.objects.update(status="judged")
    assert tie not in undecided.unclear()

"""The live guard: each limit provoked, what follows, and what it never does. And trials, ended by their thumbs."""

from __future__ import annotations

from datetime import timedelta
from itertools import count

import pytest
from asgiref.sync import async_to_sync
from django.contrib.auth import get_user_model
from django.utils import timezone

from chat.api_keys import ApiKey
from chat.models import Session, Turn
from checkpoints import approvals, guard_rule, notices, promotion, trials
from checkpoints.models import Checkpoint, Decision, Line, Taint, Trial
from checkpoints.notice_rows import Notice
from evaluation import arms, watching
from feedback.models import Feedback

FEW = 4
promote, roll_back, start = (async_to_sync(f) for f in (promotion.promote, promotion.roll_back, trials.start))


@pytest.fixture(autouse=True)
def house(settings, tiny_model, tmp_path, db):
    """A guard that may roll back, and that four replies are enough for."""
    settings.MODEL, settings.MODEL_NAME, settings.DATA_DIR = str(tiny_model), "talkback", tmp_path
    Line.objects.update(policy={"guard": "roll back", "guard_replies": FEW})


@pytest.fixture
def ben(db):
    return get_user_model().objects.create_user("ben")


@pytest.fixture
def make(engine):
    """A checkpoint that the scripted engine answers for as its learner would."""

    def make(number, status="approved", **fields):
        adapter = f"talkback-{number}-{number:08x}"
        fields = {"adapter": adapter, "path": f"checkpoints/{number}", "probe": engine.probe(adapter)} | fields
        return Checkpoint.objects.create(number=number, status=status, **fields)

    return make


@pytest.fixture
def served(ben):
    """Replies of a checkpoint, each in a chat of its own; any field can be said otherwise."""
    apart = count()

    def served(checkpoint, times=FEW, *, thumb=0, person=ben, **fields):
        fields = {"text": "Paris, of course.", "response_ids": list(range(10)), "finish_reason": "stop"} | fields
        for _ in range(times):
            session = Session.objects.create(user=person)
            turn = Turn.objects.create(
                session=session, position=0, status="closed", checkpoint=checkpoint, messages=[], **fields
            )
            if thumb:
                at = timezone.now() + timedelta(microseconds=next(apart))
                Feedback.objects.create(turn=turn, by=person, kind="thumb", value=thumb, created_at=at)

    return served


def live():
    return Checkpoint.live().number


LOOP = [1, 2, 3, 4] * 5  # 17 runs of four, of which 4 differ: 1 - 4/17 = 0.76 are repeated

BAD = {
    "thumbs": {"thumb": -1},
    "errors": {"finish_reason": "error", "error": "It failed.", "response_ids": [], "text": ""},
    "length": {"response_ids": list(range(40))},  # four times the ten of before; three is the limit
    "refusals": {"text": "I'm sorry, but I can't help with that."},
    "repetition": {"response_ids": LOOP},
}


SAID = {
    "thumbs": "100% of 4 thumbs are down; it was 0%",
    "errors": "100% of 4 replies failed",
    "length": "40 tokens long on average; it was 10",
    "refusals": "100% of 4 replies refuse; it was 0%",
    "repetition": "76% of what 4 replies say, they have said before; it was 0%",
}


@pytest.mark.parametrize("name", BAD)
def test_each_limit_rolls_back_by_itself_and_tells(name, make, served):
    served(Checkpoint.live(), thumb=1)
    first = make(1)
    promote(first)
    served(first, FEW - 1, **BAD[name])
    assert watching.watch() == []  # one reply short of what the policy wants to see
    assert live() == 1

    served(first, 1, **BAD[name])
    (told,) = watching.watch()

    assert live() == 0
    decision = Decision.objects.first()
    assert (decision.verb, decision.by, decision.checkpoint.number) == ("roll back", None, 0)
    notice = Notice.objects.get()
    assert (notice.level, notice.checkpoint, notice.text) == ("error", first, told)
    assert told.startswith("talkback@1 was rolled back by the guard, and talkback@0 answers again. ")
    assert SAID[name] in told


def test_replies_as_good_as_before_are_left_alone(make, served):
    served(Checkpoint.live(), thumb=-1)  # people were never pleased
    first = make(1)
    promote(first)
    served(first, 10, thumb=-1)
    assert watching.watch() == []
    assert live() == 1


def test_after_an_automatic_roll_back_nothing_swings_and_nothing_is_approved_by_itself(make, served):
    served(Checkpoint.live(), thumb=1)
    first = make(1)
    promote(first)
    served(first, **BAD["refusals"])
    watching.watch()
    served(Checkpoint.live(), 10, **BAD["refusals"])  # what came back is bad as well: a person must see to it

    assert watching.watch() == watching.watch() == []
    assert live() == 0
    Line.objects.update(policy={"auto_approve": True, "guard_replies": FEW})
    second = make(2, "passed", parent=Checkpoint.live())
    checks = [{"name": "length", "passed": True, "value": 0.0, "limit": 1.0}]
    assert not approvals.consider(second, checks, Checkpoint.live())
    notices.read(Notice.objects.get(), get_user_model().objects.create_user("operator"))
    assert approvals.consider(second, checks, Checkpoint.live())


def test_what_a_person_went_back_to_is_only_told_of_and_once(make, served, ben):
    served(Checkpoint.live(), thumb=1)
    first = make(1)
    promote(first)
    roll_back(by=ben)
    roll_back(to=first, by=ben, reason="I want it")
    served(first, **BAD["refusals"])
    assert len(watching.watch()) == 1
    notices.read(Notice.objects.get(), ben)
    assert watching.watch() == []  # read is read
    assert live() == 1


def test_a_policy_that_wants_to_be_told_is_told_and_off_is_off(make, served):
    served(Checkpoint.live(), thumb=1)
    first = make(1)
    promote(first)
    served(first, **BAD["length"])
    Line.objects.update(policy={"guard": "off", "guard_replies": FEW})
    assert watching.watch() == []
    Line.objects.update(policy={"guard": "tell", "guard_replies": FEW})
    assert watching.watch() == [
        "talkback@1 passes a limit of its line's guard. Replies are 40 tokens long on average; it was 10, and 3 times "
        "more or less is the limit."
    ]
    assert live() == 1


@pytest.mark.parametrize("why", ["tainted", "let go"])
def test_it_never_goes_back_to_what_was_taken_back_or_let_go(why, make, served):
    first, second = make(1), make(2)
    promote(first)
    served(first, thumb=1)
    promote(second)
    if why == "tainted":
        Taint.objects.create(checkpoint=first, samples=1, reason="a chat was deleted")
    else:
        Checkpoint.objects.filter(pk=first.pk).update(let_go_at=timezone.now())
    served(second, **BAD["refusals"])
    watching.watch()
    assert live() == 0  # where the line began


def test_an_engine_that_is_away_is_tried_again(make, served, engine):
    first, second = make(1), make(2)
    promote(first)
    served(first, thumb=1)
    promote(second)
    served(second, **BAD["refusals"])
    engine.goes_down()
    assert watching.watch() == []
    assert live() == 2
    engine.comes_back()
    assert len(watching.watch()) == 1
    assert live() == 1


def test_side_turns_and_what_was_stopped_say_nothing(make, served):
    served(Checkpoint.live(), thumb=1)
    first = make(1)
    promote(first)
    served(first, **BAD["refusals"], line="side")
    served(first, text="I can't help", finish_reason="abort")
    assert watching.watch() == []


def test_a_trial_past_a_limit_ends_and_the_live_one_stays(make, served):
    base = Checkpoint.live()
    served(base, thumb=1)
    first = make(1, "passed")
    trial = start(first, share=50, by=None)
    served(first, **BAD["repetition"])
    (told,) = watching.watch()
    trial.refresh_from_db()
    assert (trial.outcome, live()) == ("worse", 0)
    assert trial.evidence["candidate"] == {"ups": 0, "downs": 0}
    assert told.startswith("The trial of talkback@1 was ended by the guard. 76% of what 4 replies say")


@pytest.mark.parametrize(
    ("text", "refuses"),
    [
        ("I'm sorry, but I can't help with that.", True),
        ("I’m sorry, I cannot assist with this request.", True),
        ("As an AI language model, I do not have feelings and cannot answer.", True),
        ("I am unable to provide that.", True),
        ("I'm sorry to hear that you are ill. Rest, and drink a lot.", False),
        ("You can't divide by zero.", False),
        ("Paris. " + "It is the capital. " * 20 + "I can't help but love it.", False),  # only how it begins counts
    ],
)
def test_a_refusal_is_known_by_how_it_begins(text, refuses):
    assert guard_rule.refuses(text) == refuses


# Trials


@pytest.fixture
def voted(served, ben):
    """Votes in a trial: chats drawn by its hash until each arm has what is wanted."""

    def voted(trial, live_votes, candidate_votes):
        wanted = {False: list(live_votes), True: list(candidate_votes)}
        while any(wanted.values()):
            session = Session.objects.create(user=ben)
            drawn = trials.falls_to(trial.pk, session.pk, trial.share)
            if wanted[drawn]:
                vote(session, trial.checkpoint if drawn else trial.against, wanted[drawn].pop())

    def vote(session, checkpoint, value):
        said = {"status": "closed", "messages": [], "finish_reason": "stop", "text": "Yes.", "response_ids": [8, 9, 2]}
        position = session.turns.count()
        turn = Turn.objects.create(session=session, position=position, checkpoint=checkpoint, **said)
        Feedback.objects.create(turn=turn, by=ben, kind="thumb", value=value)

    voted.once = vote
    return voted


@pytest.mark.parametrize(
    ("live_votes", "candidate_votes", "outcome"),
    [([-1] * 6, [1] * 6, "better"), ([1] * 6, [-1] * 6, "worse"), ([1, -1, 1], [1, -1, 1], "")],
)
def test_a_trial_ends_when_its_thumbs_are_enough(live_votes, candidate_votes, outcome, make, voted):
    Line.objects.update(policy={"guard": "off"})
    trial = start(make(1, "passed"), share=50, by=None)
    voted(trial, live_votes, candidate_votes)

    assert arms.settle() == (1 if outcome else 0)

    trial.refresh_from_db()
    assert (trial.outcome, trial.ended_at is None) == (outcome, not outcome)
    if outcome:
        assert trial.evidence["candidate"] == {"ups": candidate_votes.count(1), "downs": candidate_votes.count(-1)}
        assert Notice.objects.get().text.startswith(f"The trial of talkback@1 has ended: {outcome}. ")
        assert arms.settle() == 0
        assert arms.standing(trial).evidence == trial.evidence  # what it ended on can be read again


def test_a_conversation_has_one_vote_and_a_pinned_key_none(make, voted, ben):
    trial = start(make(1, "passed"), share=50, by=None)
    sessions = (Session.objects.create(user=ben) for _ in count())
    drawn = next(one for one in sessions if trials.falls_to(trial.pk, one.pk, 50))
    for value in (1, -1, -1):
        voted.once(drawn, trial.checkpoint, value)
    voted.once(drawn, trial.against, -1)  # asked for by its number
    key, _ = ApiKey.objects.issue(ben, "pinned", checkpoint=trial.against)
    voted.once(Session.objects.create(user=ben, key=key), trial.against, -1)

    now = arms.standing(trial)
    assert (now.candidate.votes, now.candidate.thumbs, now.live.votes) == (arms.Arm(1, 0), 3, arms.Arm(0, 0))


def test_with_reviewers_only_a_person_says_how_it_ended(make, voted, ben):
    trial = start(make(1, "passed"), share=0, by=ben)
    for _ in range(8):
        voted.once(Session.objects.create(user=ben), trial.checkpoint, 1)
    assert arms.settle() == 0
    assert arms.standing(trial).reading is None
    assert arms.sentence(arms.standing(trial)).startswith("8 of 8 conversations with talkback@1 were thumbed up")
    assert trials.end(trial, outcome=Trial.Outcome.NO_WORSE, by=ben)
    assert Trial.objects.get().outcome == "no worse"

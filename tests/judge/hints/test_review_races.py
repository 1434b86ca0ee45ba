"""Many reviewers and a judge at once: one of two wins, no request waits for ever, and what is taught is what stands."""

from __future__ import annotations

from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import pytest
from django.contrib.auth import get_user_model
from django.db import OperationalError, connection, transaction

from benchmarks.stack import wait_for
from chat.api_keys import ApiKey
from chat.models import Session, Turn
from core.errors import IllegalMove, TalkbackError
from judge.hints import decisions, reviews, undoing
from judge.hints.decisions import Overtaken
from judge.models import Hint, Judgement, Overruling, Ruling
from privacy import consent
from training.config import Recipe
from training.models import Sample

pytestmark = pytest.mark.django_db(transaction=True, serialized_rollback=True)

OPD = Recipe(w_rl=0)
TELL = "Does what came back say"
SHORT, OTHER = "Answer in one short sentence.", "Name the unit of each number."


def at_once(*acts):
    """What each act returned or raised; all of them start together, each on its own connection."""
    start = Barrier(len(acts))

    def run(act):
        try:
            start.wait(10)
            return act()
        except (TalkbackError, Hint.DoesNotExist, Session.DoesNotExist) as refused:
            return refused
        finally:
            connection.close()

    with ThreadPoolExecutor(len(acts)) as threads:
        return list(threads.map(run, acts))


@pytest.fixture
def reviewers(db):
    return [get_user_model().objects.create_user(f"reviewer {n}", is_staff=True) for n in range(8)]


@pytest.fixture
def propose(serve, person):
    def propose(text=SHORT, session=None):
        turn = serve(status="judged", session=session or Session.objects.create(user=person))
        return Hint.objects.create(turn=turn, source="user", proposed=text, text=text, evidence="e")

    return propose


def test_of_eight_who_decide_from_the_same_page_one_wins_and_the_others_are_told_who(propose, reviewers):
    hint = propose()
    seen = decisions.standing(hint)

    def decide(n):
        by = reviewers[n]
        return lambda: (
            reviews.accept(hint, by=by, seen=seen)
            if n % 2
            else reviews.edit(hint, f"Use {n + 9} words.", by=by, seen=seen)
        )

    outcomes = at_once(*map(decide, range(8)))

    won = [outcome for outcome in outcomes if isinstance(outcome, Ruling)]
    assert len(won) == Ruling.objects.count() == 1
    lost = [str(outcome) for outcome in outcomes if isinstance(outcome, Overtaken)]
    assert len(lost) == 7
    assert all(str(won[0].by) in sentence for sentence in lost)
    assert Hint.objects.get().decided_by == won[0].by


def test_of_two_who_undo_the_same_decision_one_does(propose, reviewers):
    hint = propose()
    ruling = reviews.accept(hint, by=reviewers[0])
    outcomes = at_once(*(lambda by=by: undoing.undo(Ruling.objects.get(pk=ruling.pk), by=by) for by in reviewers))
    assert Counter(type(outcome).__name__ for outcome in outcomes) == {"Ruling": 1, "Overtaken": 7}
    assert Hint.objects.get().status == "waiting"


def test_hints_that_are_merged_into_each_other_make_no_circle_and_no_deadlock(propose, reviewers):
    for _ in range(4):
        one, other = propose("One sentence only."), propose("A single sentence.")
        third = propose("Just one sentence.")
        at_once(
            lambda a=one, b=other: reviews.merge(a, b, by=reviewers[0]),
            lambda a=one, b=other: reviews.merge(b, a, by=reviewers[1]),
            lambda a=other, b=third: reviews.merge(a, b, by=reviewers[2]),
            lambda a=third, b=one: reviews.merge(a, b, by=reviewers[3]),
            lambda a=one: reviews.accept(a, by=reviewers[4]),
            lambda a=third: reviews.reject(a, by=reviewers[5]),
        )
        for hint in Hint.objects.filter(pk__in=(one.pk, other.pk, third.pk)).select_related("merged_into"):
            assert (hint.merged_into is not None) == (hint.status == "merged")
            if hint.merged_into is not None:
                assert hint.merged_into.status != "merged"  # one step leads to the words


def test_whatever_happens_at_once_each_row_is_what_its_last_ruling_says(propose, reviewers):
    chosen = [propose(f"Use at most {n} words.") for n in range(10, 14)]
    acts = []
    for n, by in enumerate(reviewers):
        verb = ("accept", "reject")[n % 2]
        order = chosen if n % 3 else chosen[::-1]
        acts.append(lambda verb=verb, order=order, by=by: reviews.bulk(verb, order, by=by))
    outcomes = at_once(*acts)
    assert not [outcome for outcome in outcomes if isinstance(outcome, Exception)]
    for hint in Hint.objects.all():
        last = hint.rulings.order_by("-pk").first()
        assert last.after["status"] == hint.status
        for ruling, following in zip(hint.rulings.order_by("pk"), hint.rulings.order_by("pk")[1:], strict=False):
            assert following.before["status"] == ruling.after["status"]  # no ruling rests on what another had changed


def test_of_those_who_overturn_from_the_same_page_one_wins(serve, reviewers):
    turn = serve(status="judged")
    Judgement.objects.create(turn=turn, reward=-1, reward_from="votes")
    seen = decisions.standing(turn)
    outcomes = at_once(
        *(
            lambda n=n: reviews.overturn(turn, (-1, 0, 1)[n % 3], by=reviewers[n], reason=f"{n}", seen=seen)
            for n in range(8)
        )
    )
    assert Counter(type(outcome).__name__ for outcome in outcomes) == {"Ruling": 1, "Overtaken": 7}
    assert Overruling.objects.get().by == next(o.by for o in outcomes if isinstance(o, Ruling))


def test_a_chat_that_is_deleted_under_a_reviewers_hands_leaves_nothing(propose, reviewers):
    for _ in range(4):
        one, other = propose("One sentence only."), propose("A single sentence.")
        at_once(
            lambda a=one, b=other: reviews.merge(a, b, by=reviewers[0]),
            lambda a=other: a.turn.session.delete(),
            lambda a=one: reviews.accept(a, by=reviewers[1]),
        )
        assert not Hint.objects.filter(pk=other.pk).exists()
        left = Hint.objects.get(pk=one.pk)
        assert left.status != "merged" or left.merged_into is not None or reviews.taught(left) == ""


def test_a_verdict_and_a_decision_at_once_end_with_what_the_reviewer_said(serve, judge_it, engine, reviewers, person):
    engine.says(rf"\boxed{{1}} [HINT_START]{SHORT}[HINT_END]", to=TELL, times=None)
    for n in range(6):
        turn = serve(next_state=f"Shorter! {n}", session=Session.objects.create(user=person))
        judge_it(turn, OPD)
        hint = turn.hints.get()
        Turn.objects.filter(pk=turn.pk).update(status="observed")

        def decide(hint=hint):
            while True:
                try:
                    return reviews.edit(hint, OTHER, by=reviewers[0])
                except (IllegalMove, OperationalError):  # the turn moved between a look and a lock: press again
                    continue

        at_once(lambda turn=turn: judge_it(turn, OPD), decide)

        while Turn.objects.get(pk=turn.pk).status == "observed":  # as the sweep does
            assert judge_it(turn, OPD)
        judgement = Judgement.objects.select_related("sample").get(turn=turn)
        assert (judgement.hint, judgement.sample.status) == (OTHER, "ready")
        ready = [sample for sample in turn_samples(turn) if sample.status == "ready"]
        assert ready == [judgement.sample]


def turn_samples(turn):
    return list(Sample.objects.filter(judgement__turn=turn))


# Of two transactions that want the same rows


def off_by_turn(hint):
    consent.set_turn(hint.turn, False)


def off_by_key(hint):
    consent.set_key(hint.turn.session.key, False)


def off_by_chat(hint):
    consent.set_session(hint.turn.session, False)


def off_by_verdict(hint):
    Turn.objects.filter(pk=hint.turn_id).update(learns=False, status="observed")
    return hint.judge_it(hint.turn)


def delete_chat(hint):
    hint.turn.session.delete()


@pytest.mark.database("postgresql")  # SQLite locks no rows
@pytest.mark.parametrize("forget", [off_by_turn, off_by_key, off_by_chat, off_by_verdict, delete_chat])
def test_forgetting_a_hint_that_others_learn_with_locks_nothing_while_waiting_for_them(
    propose, reviewers, person, judge_it, forget
):
    """A chat of a lower number learns with the hint: who held its own chat and then wanted that one met another that
    came the other way."""
    lower, higher = sorted((Session.objects.create(user=person) for _ in range(2)), key=lambda one: one.pk)
    higher.key = ApiKey.objects.issue(person, "laptop")[0]
    higher.save()
    follower, hint = propose(session=lower), propose(OTHER, session=higher)
    hint.judge_it = judge_it
    reviews.merge(follower, hint, by=reviewers[0])
    Judgement.objects.create(turn=hint.turn)

    def waits() -> bool:
        with connection.cursor() as cursor:
            cursor.execute("SELECT count(*) FROM pg_locks WHERE NOT granted")
            return bool(cursor.fetchone()[0])

    def act():
        try:
            return forget(hint)
        finally:
            connection.close()

    with ThreadPoolExecutor(1) as threads:
        with transaction.atomic():
            Session.objects.select_for_update().get(pk=lower.pk)
            forgotten = threads.submit(act)
            wait_for("it waits for the chat that learns with the hint", waits, 20, 0.02)
            assert Session.objects.select_for_update(nowait=True).get(pk=higher.pk) == higher
        forgotten.result(20)

    assert not Hint.objects.filter(pk=hint.pk).exists()
    assert Hint.objects.get(pk=follower.pk).merged_into is None

"""Decisions about hints are taken back one by one, and in bulk together."""

from __future__ import annotations

import pytest

from chat.models import Turn
from judge.hints import acceptance, decisions, reviews, undoing
from judge.hints.decisions import NotPossible, Overtaken
from judge.models import Hint, Ruling
from tests.judge.hints.rows import LONG, SHORT, fresh


@pytest.mark.parametrize("verb", ["accept", "edit", "reject", "merge"])
def test_undo_puts_back_exactly_what_stood(propose, ben, verb):
    hint, other = propose(), propose(LONG)
    before = decisions.state(hint)
    ruling = {
        "accept": lambda: reviews.accept(hint, by=ben),
        "edit": lambda: reviews.edit(hint, "One sentence, no more.", by=ben),
        "reject": lambda: reviews.reject(hint, by=ben),
        "merge": lambda: reviews.merge(hint, other, by=ben),
    }[verb]()
    after = decisions.state(fresh(hint))
    Turn.objects.update(status="judged")

    undone = undoing.undo(ruling, by=ben)

    assert decisions.state(fresh(hint)) == before
    assert fresh(hint).turn.status == "observed"
    assert (undone.verb, undone.undoes, undone.before, undone.after) == ("undo", ruling, ruling.after, ruling.before)

    again = undoing.undo(undone, by=ben)
    assert decisions.state(fresh(hint)) == after
    assert (again.verb, again.undoes) == (verb, undone)


def test_undo_brings_back_the_hint_that_was_set_aside(propose, ben):
    one = propose(SHORT)
    other = propose(LONG, one.turn)
    reviews.accept(one, by=ben)
    undoing.undo(reviews.accept(other, by=ben), by=ben)
    assert (fresh(one).status, fresh(one).decided_by) == ("accepted", ben)
    assert (fresh(other).status, fresh(other).waits_because) == ("rejected", decisions.SET_ASIDE)  # as before the last


def test_undo_of_a_merge_brings_back_those_that_went_along(propose, ben):
    a, b, c = propose("One sentence only."), propose("A single sentence."), propose(SHORT)
    reviews.merge(a, b, by=ben)
    ruling = reviews.merge(b, c, by=ben)
    undoing.undo(ruling, by=ben)
    assert (fresh(a).merged_into, fresh(b).status) == (b, "waiting")


def test_undo_is_refused_when_another_person_decided_since(propose, ben, cleo):
    hint = propose()
    ruling = reviews.accept(hint, by=ben)
    reviews.reject(hint, by=cleo)
    with pytest.raises(Overtaken, match="cleo rejected this hint"):
        undoing.undo(ruling, by=ben)
    assert fresh(hint).status == "rejected"


def test_a_decision_is_undone_once(propose, ben, cleo):
    ruling = reviews.accept(propose(), by=ben)
    undoing.undo(ruling, by=cleo)
    with pytest.raises(Overtaken, match="cleo undid that already"):
        undoing.undo(ruling, by=ben)


def test_u_goes_back_step_by_step_and_never_forth(propose, ben, cleo):
    one, two = propose(), propose(LONG)
    first, second = reviews.accept(one, by=ben), reviews.reject(two, by=ben)
    reviews.accept(propose("Use plain words."), by=cleo)
    acceptance.accept_from("user", 0.9, by=ben)
    assert undoing.last(ben) == second
    undoing.undo(second, by=ben)
    assert undoing.last(ben) == first
    undone = undoing.undo(first, by=ben)
    assert undoing.last(ben) is None
    again = undoing.undo(undone, by=ben)  # done again: it can be undone again
    assert undoing.last(ben) == again


def test_a_bulk_is_undone_together(propose, ben):
    chosen = [propose(f"Use at most {n} words.") for n in range(10, 14)]
    done, refused = reviews.bulk("accept", chosen, by=ben, reason="all fine")
    assert (len(done), refused) == (4, [])
    assert len({ruling.bulk for ruling in done}) == 1
    assert set(Hint.objects.values_list("status", flat=True)) == {"accepted"}

    undoing.undo(done[1], by=ben)

    assert set(Hint.objects.values_list("status", flat=True)) == {"waiting"}
    assert Ruling.objects.filter(verb="undo").count() == 4
    assert undoing.last(ben) is None


def test_a_bulk_of_which_one_was_changed_since_is_not_undone_by_halves(propose, ben, cleo):
    chosen = [propose(f"Use at most {n} words.") for n in range(10, 13)]
    done, _ = reviews.bulk("reject", chosen, by=ben)
    reviews.accept(chosen[1], by=cleo)
    with pytest.raises(Overtaken, match="cleo accepted this hint"):
        undoing.undo(done[0], by=ben)
    assert [fresh(hint).status for hint in chosen] == ["rejected", "accepted", "rejected"]


def test_what_cannot_be_done_in_bulk_says_why_and_keeps_no_other_back(propose, ben):
    done_before, fine = propose(), propose(LONG)
    alternative = propose("Use simple words.", fine.turn)
    reviews.accept(done_before, by=ben)
    done, refused = reviews.bulk("accept", [done_before, fine, alternative], by=ben)
    assert [ruling.hint for ruling in done] == [fine]
    assert "accepted already: you did it" in refused[0]
    assert "another hint of its turn" in refused[1]
    with pytest.raises(NotPossible, match="one hint at a time"):
        reviews.bulk("merge", [fine], by=ben)


def test_never_learning_in_bulk_takes_each_turn_once(propose, ben):
    one = propose()
    other = propose(LONG, one.turn)
    done, refused = reviews.bulk("never learn", [one, other], by=ben)
    assert (len(done), refused) == (1, [])

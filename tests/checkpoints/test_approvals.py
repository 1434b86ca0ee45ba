"""Who must say yes: one person, two different ones, or a policy that a person set; and what stands in the way."""

from __future__ import annotations

import pytest
from django.contrib.auth import get_user_model
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.django import TestCase

from accounts.models import Role
from accounts.roles import give
from checkpoints import approvals, line_policies, notices
from checkpoints.line_policies import PolicyInvalid
from checkpoints.models import SHARED, Checkpoint, Decision, Line, Trial
from core.errors import IllegalMove

pytestmark = pytest.mark.django_db

ROOMY = [{"name": "length", "passed": True, "value": 1.0, "limit": 4.0, "sentence": ""}]
"""0.75 of its limit inside it."""


@pytest.fixture
def ana():
    return get_user_model().objects.create_user("ana", is_staff=True)


@pytest.fixture
def ben():
    return get_user_model().objects.create_user("ben", is_staff=True)


def passed(number=1, status="passed"):
    return Checkpoint.objects.create(number=number, status=status, adapter=f"a{number}", parent=Checkpoint.live())


def rule(**fields):
    line_policies.read(fields)
    Line.objects.filter(name=SHARED).update(policy=fields)


def verbs():
    return [(one.verb, one.by and one.by.username) for one in Decision.objects.order_by("pk")]


def test_without_a_policy_one_yes_is_enough(ana):
    candidate = passed()
    assert approvals.standing(candidate).wanted == 1
    assert approvals.approve(candidate, by=ana, reason="shorter")
    assert candidate.status == "approved"
    assert verbs() == [("approve", "ana")]


def test_where_two_are_wanted_the_second_yes_of_another_person_approves(ana, ben):
    rule(second_approver=True)
    candidate = passed()
    assert not approvals.approve(candidate, by=ana)
    assert approvals.standing(candidate).wanted == 1
    assert Checkpoint.objects.get(number=1).status == "passed"
    assert approvals.approve(candidate, by=ben)
    assert verbs() == [("endorse", "ana"), ("approve", "ben")]


def test_the_same_person_twice_is_told_that_another_is_wanted(ana):
    rule(second_approver=True)
    candidate = passed()
    approvals.approve(candidate, by=ana)
    with pytest.raises(approvals.NotYet, match="You said yes to talkback@1 already, as the first of two"):
        approvals.approve(candidate, by=ana)
    assert verbs() == [("endorse", "ana")]


def test_a_yes_without_a_name_is_none_of_two(ana):
    rule(second_approver=True)
    with pytest.raises(approvals.NotYet, match="Two people must say yes to talkback@1: say who you are"):
        approvals.approve(passed(), by=None)


def test_a_yes_of_an_account_that_is_gone_counts_no_more(ana, ben):
    rule(second_approver=True)
    candidate = passed()
    approvals.approve(candidate, by=ana)
    ana.delete()
    assert not approvals.approve(candidate, by=ben)


def test_what_is_on_hold_cannot_be_approved_until_it_is_released(ana, ben):
    candidate = passed()
    approvals.hold(candidate, by=ana, reason="wait for Monday")
    with pytest.raises(approvals.NotYet, match=r"talkback@1 is on hold by ana \(wait for Monday\): release it first\."):
        approvals.approve(candidate, by=ben)
    approvals.release(candidate, by=ben)
    assert approvals.approve(candidate, by=ben)
    assert verbs() == [("hold", "ana"), ("release", "ben"), ("approve", "ben")]


def test_a_hold_makes_the_first_yes_void(ana, ben):
    rule(second_approver=True)
    candidate = passed()
    approvals.approve(candidate, by=ana)
    approvals.hold(candidate, by=ana, reason="I misread it")
    approvals.release(candidate, by=ana)
    assert approvals.standing(candidate).wanted == 2
    assert not approvals.approve(candidate, by=ben)


@pytest.mark.parametrize("act", [approvals.hold, approvals.reject])
def test_a_no_and_a_not_yet_say_why(ana, act):
    candidate = passed()
    with pytest.raises(approvals.ReasonMissing):
        act(candidate, by=ana, reason="  ")
    assert verbs() == []


def test_only_what_waits_is_held_and_only_what_is_held_is_released(ana):
    candidate = passed()
    with pytest.raises(IllegalMove, match="not on hold"):
        approvals.release(candidate, by=ana)
    approvals.hold(candidate, by=ana, reason="wait")
    with pytest.raises(IllegalMove, match=r"on hold by ana \(wait\)"):
        approvals.hold(candidate, by=ana, reason="wait more")
    with pytest.raises(IllegalMove, match="only what waits for a yes can be put on hold"):
        approvals.hold(Checkpoint.live(), by=ana, reason="stop")


def test_where_a_trial_is_wanted_only_one_that_ended_well_serves(ana):
    rule(trial_required=True)
    candidate = passed()
    tried = {"checkpoint": candidate, "against": Checkpoint.live(), "line_id": SHARED, "share": 5}
    for outcome in ("worse", "stopped"):
        Trial.objects.create(**tried, outcome=outcome, ended_at=candidate.created_at)
        with pytest.raises(approvals.NotYet, match="must be tried first"):
            approvals.approve(candidate, by=ana)
    Trial.objects.create(**tried, outcome="no worse", ended_at=candidate.created_at)
    assert approvals.approve(candidate, by=ana)


def test_nothing_is_approved_by_itself_unless_a_policy_says_so():
    assert not approvals.consider(passed(), ROOMY, Checkpoint.live())
    assert verbs() == []


def test_a_policy_approves_what_passed_with_room_to_spare_and_once():
    rule(auto_approve=True, margin=0.5)
    candidate, live = passed(), Checkpoint.live()
    assert approvals.consider(candidate, ROOMY, live)
    assert not approvals.consider(candidate, ROOMY, live)
    assert verbs() == [("approve", None)]
    assert "at least 50% of its limit" in Decision.objects.get().reason


def test_a_policy_leaves_to_a_person_what_passed_narrowly_or_not_at_all():
    rule(auto_approve=True, margin=0.5)
    near = {"name": "repetition", "passed": True, "value": 0.1, "limit": 0.15}  # a third of the limit
    narrow = [*ROOMY, near]
    live = Checkpoint.live()
    candidate = passed()
    assert approvals.reasons_against(candidate, narrow, live) == ["It passed repetition by less than 50% of the limit."]
    assert approvals.reasons_against(candidate, [], live) == ["Nothing is known of how it passed the gate."]
    assert not approvals.consider(candidate, narrow, live)


def test_a_policy_leaves_to_a_person_what_is_held_and_everything_while_an_error_is_unread(ana):
    rule(auto_approve=True)
    candidate, live = passed(), Checkpoint.live()
    approvals.hold(candidate, by=ana, reason="wait")
    assert not approvals.consider(candidate, ROOMY, live)
    approvals.release(candidate, by=ana)
    notice = notices.tell("guard", "It was rolled back.", level="error", checkpoint=live)
    assert approvals.reasons_against(candidate, ROOMY, live) == ["An error notice is unread."]
    notices.read(notice, ana)
    assert approvals.consider(candidate, ROOMY, live)


def test_a_policy_leaves_to_a_person_what_was_made_before_something_else_went_live():
    rule(auto_approve=True)
    base = Checkpoint.live()
    candidate, other = passed(1), passed(2, "approved")
    other.go_live()
    assert approvals.reasons_against(candidate, ROOMY, base) == ["talkback@2 went live since it was made and examined."]


def test_a_policy_that_cannot_be_read_is_taken_for_no_yes(ana):
    Line.objects.filter(name=SHARED).update(policy={"second_aprover": True})
    candidate = passed()
    with pytest.raises(approvals.NotYet, match="A policy has no field second_aprover"):
        approvals.approve(candidate, by=ana)
    assert not approvals.consider(candidate, ROOMY, Checkpoint.live())


def test_a_policy_that_contradicts_itself_is_refused():
    with pytest.raises(PolicyInvalid, match="two people must say yes, or none need"):
        line_policies.read({"second_approver": True, "auto_approve": True})


def test_a_policy_keeps_what_differs_from_the_quiet_one():
    assert line_policies.changed(line_policies.read({"second_approver": True, "margin": 0.05})) == {
        "second_approver": True
    }


def test_of_two_yeses_each_is_of_a_person_who_may_say_it(ana, ben):
    """Ana's first yes is void once she is no operator; a talker's counts at no time."""
    rule(second_approver=True)
    candidate = passed()
    assert not approvals.approve(candidate, by=ana)
    give(ana, Role.REVIEWER)
    assert not approvals.approve(candidate, by=ben)  # the first of two again
    with pytest.raises(approvals.NotYours, match="ana is no operator here"):
        approvals.approve(candidate, by=ana)
    assert Checkpoint.objects.get(pk=candidate.pk).status == "passed"
    give(ana, Role.OPERATOR)
    assert approvals.approve(candidate, by=ana)


class Life(TestCase):
    """Whatever people do in whatever order, nothing is approved without two different people's yes since a hold."""

    @settings(max_examples=15)
    @given(st.lists(st.tuples(st.sampled_from(["approve", "hold", "release"]), st.integers(0, 1)), max_size=8))
    def test_nothing_goes_through_without_two_people_who_agree(self, acts):
        rule(second_approver=True)
        people = [get_user_model().objects.create_user(name, is_staff=True) for name in ("ana", "ben")]
        candidate, said, held = passed(), set(), False
        for verb, who in acts:
            try:
                if verb == "approve":
                    approvals.approve(candidate, by=people[who])
                    assert not held
                    said.add(who)
                elif verb == "hold":
                    approvals.hold(candidate, by=people[who], reason="wait")
                    said, held = set(), True
                else:
                    approvals.release(candidate, by=people[who])
                    held = False
            except (approvals.NotYet, IllegalMove):
                pass
            assert (Checkpoint.objects.get(number=1).status == "approved") == (len(said) == 2)
            if len(said) == 2:
                break

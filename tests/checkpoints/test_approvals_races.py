"""Two operators at once, on a database that lets them: one yes is one yes, and two people's are two."""

from __future__ import annotations

import pytest
from django.contrib.auth import get_user_model

from checkpoints import approvals
from checkpoints.approvals import NotYet
from checkpoints.models import SHARED, Checkpoint, Decision, Line
from tests.races import at_once

pytestmark = [
    pytest.mark.django_db(transaction=True, serialized_rollback=True),
    pytest.mark.database("postgresql"),  # SQLite lets one writer in at a time: nothing can race
]


def refused(act):
    try:
        return act()
    except NotYet as error:
        return error


def verbs():
    return [one.verb for one in Decision.objects.order_by("pk")]


def test_one_person_who_clicks_twice_at_once_has_said_yes_once():
    Line.objects.filter(name=SHARED).update(policy={"second_approver": True})
    candidate = Checkpoint.objects.create(number=1, status="passed", adapter="a1")
    ana = get_user_model().objects.create_user("ana", is_staff=True)
    click = lambda: refused(lambda: approvals.approve(candidate, by=ana))  # noqa: E731
    outcomes = at_once(click, click)
    assert sorted(type(one).__name__ for one in outcomes) == ["NotYet", "bool"]
    assert verbs() == ["endorse"]


def test_two_people_who_say_yes_at_once_are_a_first_and_a_second():
    Line.objects.filter(name=SHARED).update(policy={"second_approver": True})
    candidate = Checkpoint.objects.create(number=1, status="passed", adapter="a1")
    people = [get_user_model().objects.create_user(name, is_staff=True) for name in ("ana", "ben")]
    outcomes = at_once(*(lambda by=by: approvals.approve(candidate, by=by) for by in people))
    assert sorted(outcomes) == [False, True]
    assert verbs() == ["endorse", "approve"]

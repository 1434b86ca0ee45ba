"""Notices stand until an operator has read them, and one of a kind at a time."""

from __future__ import annotations

import pytest
from django.contrib.auth import get_user_model

from checkpoints import notices
from checkpoints.models import SHARED, Checkpoint
from checkpoints.notice_rows import Notice

pytestmark = pytest.mark.django_db


@pytest.fixture
def ana():
    return get_user_model().objects.create_user("ana", is_staff=True)


def test_the_same_thing_told_twice_is_one_notice_with_the_later_words():
    first = notices.tell("disk", "9 GB are left.")
    second = notices.tell("disk", "1 GB is left.", level="error")
    assert first.pk == second.pk
    assert [(one.text, one.level) for one in notices.unread()] == [("1 GB is left.", "error")]


def test_what_happens_again_after_it_was_read_is_told_again(ana):
    first = notices.tell("disk", "9 GB are left.")
    notices.read(first, ana)
    notices.tell("disk", "9 GB are left.")
    assert Notice.objects.count() == 2
    assert notices.unread().count() == 1


def test_two_things_without_a_key_are_two_notices():
    notices.tell("", "One thing.")
    notices.tell("", "Another thing.")
    assert notices.unread().count() == 2


def test_of_two_who_read_at_once_the_first_is_noted(ana):
    notice = notices.tell("disk", "9 GB are left.")
    assert notices.read(notice, ana)
    assert not notices.read(notice, get_user_model().objects.create_user("ben", is_staff=True))
    notice.refresh_from_db()
    assert notice.read_by == ana


def test_a_level_that_does_not_exist_is_refused():
    with pytest.raises(ValueError, match="info, warning, error"):
        notices.tell("disk", "9 GB are left.", level="loud")


def test_only_unread_errors_of_the_line_or_of_none_are_its_alarms(ana):
    base = Checkpoint.objects.get(number=0)
    notices.tell("a", "a warning", checkpoint=base)
    mine = notices.tell("b", "an error of this line", level="error", checkpoint=base)
    everywhere = notices.tell("c", "an error of no line", level="error")
    assert set(notices.alarms(SHARED)) == {mine, everywhere}
    assert set(notices.alarms("other")) == {everywhere}
    notices.read(mine, ana)
    assert set(notices.alarms(SHARED)) == {everywhere}

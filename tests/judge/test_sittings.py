"""One worker a matter, however often the task was sent."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.utils import timezone

from judge.models import Sitting
from judge.sittings import sitting

pytestmark = pytest.mark.django_db


def test_a_second_worker_is_told_to_leave():
    with sitting("turn 1", 10) as first, sitting("turn 1", 10) as second, sitting("turn 2", 10) as other:
        assert first
        assert second is None
        assert other
    assert not Sitting.objects.exists()


def test_a_failure_gives_the_seat_up():
    with pytest.raises(ZeroDivisionError), sitting("turn 1", 10):
        _ = 1 / 0
    with sitting("turn 1", 10) as seat:
        assert seat


def test_a_dead_workers_seat_is_taken_once_its_time_is_over():
    Sitting.objects.create(matter="turn 1", until=timezone.now() - timedelta(seconds=1))
    with sitting("turn 1", 10) as seat, sitting("turn 1", 10) as another:
        assert seat
        assert another is None


def test_a_worker_that_overstayed_neither_keeps_nor_frees_anothers_seat():
    with sitting("turn 1", 10) as slow:
        Sitting.objects.update(until=timezone.now() - timedelta(seconds=1))
        with sitting("turn 1", 10) as quick:
            assert quick
            assert not slow.renew(10)
            assert Sitting.objects.count() == 1


def test_a_seat_can_be_kept():
    with sitting("exam 1", 0.001) as seat:
        assert seat.renew(60)
        with sitting("exam 1", 10) as other:
            assert other is None

"""A wait has its seconds of a free machine: a busy one takes longer by the clock, and fails no test by that."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from benchmarks import patience
from benchmarks.stack import wait_for
from tests.conftest import pytest_timeout_set_timer


class Machine:
    """Two cores, a clock that is set by hand, and so many processes that want a core."""

    def __init__(self) -> None:
        self.now, self.wanting = 1000.0, 0.5

    def sleep(self, seconds: float) -> None:
        self.now += seconds


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> Machine:
    machine = Machine()
    monkeypatch.setattr(os, "cpu_count", lambda: 2)
    monkeypatch.setattr(os, "getloadavg", lambda: (machine.wanting, 0.0, 0.0))
    monkeypatch.setattr(time, "monotonic", lambda: machine.now)
    monkeypatch.setattr(time, "sleep", machine.sleep)
    return machine


@pytest.fixture
def alarm() -> Iterator[None]:
    """This test's own time-out as it was, whatever was made of it."""
    handler, timer = signal.getsignal(signal.SIGALRM), signal.getitimer(signal.ITIMER_REAL)
    yield
    signal.signal(signal.SIGALRM, handler)
    signal.setitimer(signal.ITIMER_REAL, *timer)


# One second of ten, where twenty processes want two cores, and where more do; a whole one where a core is free.
@pytest.mark.parametrize(("wanting", "by_the_clock"), [(0.5, 60), (2.0, 60), (20.0, 600), (80.0, 600)])
def test_a_wait_is_over_after_its_seconds_times_the_processes_a_core(machine: Machine, wanting, by_the_clock):
    machine.wanting, began = wanting, machine.now
    with pytest.raises(AssertionError, match="it comes: still not so after 60 s"):
        wait_for("it comes", lambda: False, 60, every_s=1)
    assert machine.now - began == pytest.approx(by_the_clock, abs=1)


def test_what_was_waited_on_a_free_machine_is_not_given_back_when_it_becomes_busy(machine: Machine):
    left = patience.Patience(60)
    machine.now += 59
    assert not left.is_over
    machine.wanting = 20.0
    machine.now += 9  # 0.9 s of a core
    assert not left.is_over
    machine.now += 2
    assert left.is_over


def test_a_test_whose_time_is_up_by_the_clock_has_the_time_that_it_waited_for_a_core(
    machine: Machine, alarm: None, monkeypatch: pytest.MonkeyPatch
):
    ended: list[int] = []
    again: list[float] = []
    setting = pytest_timeout_set_timer(SimpleNamespace(timeout=300.0))
    next(setting)
    signal.signal(signal.SIGALRM, lambda number, _: ended.append(number))  # as pytest-timeout does
    with pytest.raises(StopIteration):
        setting.send(True)
    handler: Any = signal.getsignal(signal.SIGALRM)
    with monkeypatch.context() as recorded:
        recorded.setattr(signal, "setitimer", lambda _, seconds: again.append(seconds))
        machine.now, machine.wanting = machine.now + 300, 6.0
        handler(signal.SIGALRM, None)
        assert (ended, again) == ([], [200.0])  # of 300 s it had a core for 100
        machine.now, machine.wanting = machine.now + 200, 1.0
        handler(signal.SIGALRM, None)
    assert ended == [signal.SIGALRM]

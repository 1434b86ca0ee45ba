"""The brake on guessing: who fails waits, longer each time, wherever the counts are kept."""

from __future__ import annotations

import logging
from concurrent.futures import ThreadPoolExecutor
from uuid import uuid4

import pytest

from core import brake
from core.brake import Brake, Rule
from installation.diagnosis import free_port

RULE = Rule(free=3, first_s=30, most_s=100, forget_s=3600)


@pytest.fixture(params=["redis", "memory"])
def url(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Where counts are kept: a Redis, or none that answers."""
    if request.param == "memory":
        return f"redis://127.0.0.1:{free_port()}/0"
    monkeypatch.setattr(brake, "PATIENCE_S", 20.0)  # a slow moment is no absence
    brake._client.cache_clear()
    return str(request.getfixturevalue("store"))


class Clock:
    def __init__(self) -> None:
        self.now = 1_000_000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(brake, "time", clock)
    return clock


@pytest.fixture
def name() -> str:
    return uuid4().hex


def test_failures_wait_longer_each_time_and_never_longer_than_the_most(url: str, clock: Clock, name: str):
    guesses, waited = Brake("test"), []
    for _ in range(6):
        counted = guesses.count(url, {name: RULE})
        assert counted.wait_s == 0
        waited.append(counted.next_wait_s)
        clock.now += counted.next_wait_s
    assert waited == [0, 0, 30, 60, 100, 100]  # three are free; then 30, doubled, and at most 100


def test_an_attempt_that_comes_too_early_is_told_the_rest_and_counts_for_nothing(url: str, clock: Clock, name: str):
    guesses = Brake("test")
    for _ in range(3):
        guesses.count(url, {name: RULE})
    clock.now += 10
    assert [round(guesses.count(url, {name: RULE}).wait_s) for _ in range(5)] == [20] * 5  # 30 - 10
    clock.now += 20
    assert guesses.count(url, {name: RULE}) == brake.Counted(0, 60)  # the fourth failure, not the ninth


def test_where_one_of_two_names_waits_the_other_is_not_counted(url: str, clock: Clock, name: str):
    guesses, other = Brake("test"), f"{name}-other"
    for _ in range(3):
        guesses.count(url, {name: RULE})
    for _ in range(9):
        assert guesses.count(url, {name: RULE, other: RULE}).wait_s == 30
    assert guesses.count(url, {other: RULE}).next_wait_s == 0


def test_success_forgets_one_name_and_takes_one_off_the_other(url: str, clock: Clock, name: str):
    guesses, place = Brake("test"), f"{name}-place"
    for _ in range(3):
        counted = guesses.count(url, {name: RULE, place: RULE})
    guesses.forgive(url, {name: RULE, place: RULE}, counted, forget=name)
    assert guesses.count(url, {name: RULE}).next_wait_s == 0
    assert guesses.count(url, {place: RULE}).next_wait_s == 30  # two are left, and this is the third


def test_success_leaves_the_wait_that_another_attempt_brought(url: str, clock: Clock, name: str):
    guesses = Brake("test")
    for _ in range(2):
        guesses.count(url, {name: RULE})
    slow = guesses.count(url, {name: RULE})  # the third: 30 s, which pass before its answer is known
    clock.now += 31
    assert guesses.count(url, {name: RULE}).next_wait_s == 60  # the fourth fails meanwhile
    guesses.forgive(url, {name: RULE}, slow)
    assert round(guesses.count(url, {name: RULE}).wait_s) == 60
    clock.now += 60
    assert guesses.count(url, {name: RULE}).next_wait_s == 60  # three are left, and this is the fourth


def test_success_leaves_no_wait_of_its_own(url: str, clock: Clock, name: str):
    guesses = Brake("test")
    for _ in range(4):
        clock.now += guesses.count(url, {name: RULE}).next_wait_s
    guesses.forgive(url, {name: RULE}, guesses.count(url, {name: RULE}))  # the fifth, behind four failures
    assert guesses.count(url, {name: RULE}) == brake.Counted(0, 100)  # at once, and the fifth again


def test_of_many_at_once_no_more_get_through_than_are_free(url: str, name: str):
    guesses = Brake("test")
    with ThreadPoolExecutor(16) as many:
        through = many.map(lambda _: guesses.count(url, {name: RULE}).wait_s == 0, range(60))
        assert sum(through) == 3


def test_two_processes_count_together_in_redis(store: str, name: str, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(brake, "PATIENCE_S", 20.0)
    brake._client.cache_clear()
    one, other = Brake("test"), Brake("test")
    one.count(store, {name: RULE})
    other.count(store, {name: RULE})
    assert one.count(store, {name: RULE}).next_wait_s == 30  # the third of both


def test_two_kinds_count_apart(url: str, name: str):
    keys, passwords = Brake("keys"), Brake("passwords")
    for _ in range(3):
        keys.count(url, {name: RULE})
    assert passwords.count(url, {name: RULE}) == brake.Counted(0, 0)


def test_memory_is_bounded_and_keeps_what_was_touched_last(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(brake, "MOST_NAMES", 100)
    guesses, away = Brake("test"), f"redis://127.0.0.1:{free_port()}/0"
    for _ in range(3):
        guesses.count(away, {"the owner": RULE})
    for number in range(99):
        guesses.count(away, {f"guess {number}": RULE})
    assert guesses.count(away, {"the owner": RULE}).wait_s > 0
    for number in range(300):
        guesses.count(away, {f"more {number}": RULE})
    assert len(guesses._memory) == 100


def test_that_redis_is_away_is_said_once(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, name: str):
    monkeypatch.setattr(brake, "PAUSE_S", 0.0)  # asked again each time
    guesses, away = Brake("test"), f"redis://127.0.0.1:{free_port()}/0"
    with caplog.at_level(logging.WARNING, "core.brake"):
        for _ in range(4):
            guesses.count(away, {name: RULE})
    assert [record.levelname for record in caplog.records] == ["WARNING"]

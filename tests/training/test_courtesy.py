"""Chat goes before learning where they share a device, and never for ever."""

from __future__ import annotations

import pytest

from gpu_workers import engines
from training import courtesy


class Heard:
    def __init__(self):
        self.beats, self.figures = [], []

    def beat(self, phase, done, total, *, work=0, force=False):
        self.beats.append((phase, work))

    def keep(self, figures):
        self.figures.append(figures)


class Clock:
    """Time that passes when a process waits or works."""

    def __init__(self):
        self.now = 0.0

    def __call__(self):
        return self.now

    def wait(self, seconds):
        self.now += seconds


@pytest.fixture
def engine(monkeypatch):
    """Counters of an engine, one answer a look; busy for ever after the last."""
    looks = []
    monkeypatch.setattr(courtesy, "is_busy", lambda url: looks.pop(0) if looks else True)
    return looks


def polite():
    heard, clock = Heard(), Clock()
    return courtesy.Courteous(heard, ["http://engine"], clock=clock, wait=clock.wait), heard, clock


def test_learning_waits_until_the_engine_has_answered(engine):
    engine += [True, True, False]
    listener, heard, clock = polite()
    clock.wait(5.0)  # a pass

    listener.beat("learning", 1, 4, work=3)

    assert clock.now == pytest.approx(5.2)  # two looks, 0.1 s each, at an engine that was busy
    assert heard.beats == [("learning", 3), ("learning, after chat", 0), ("learning, after chat", 0)]


def test_it_waits_no_longer_than_it_has_worked(engine):
    listener, _, clock = polite()
    clock.wait(3.0)

    listener.beat("learning", 1, 4)
    assert clock.now == pytest.approx(6.0, abs=0.11)  # 3 s of work, 3 s of an engine that never ends

    clock.wait(1.0)
    listener.beat("learning", 2, 4)
    assert clock.now == pytest.approx(8.0, abs=0.22)


def test_who_stops_a_run_need_not_wait_for_the_chat_to_end(engine):
    listener, heard, clock = polite()
    clock.wait(60.0)

    def stop(phase, *rest, **more):
        if phase.endswith("after chat"):
            raise KeyboardInterrupt

    heard.beat = stop
    with pytest.raises(KeyboardInterrupt):
        listener.beat("learning", 1, 4)
    assert clock.now == pytest.approx(60.1)


def test_an_engine_that_says_nothing_is_not_waited_for():
    assert not courtesy.is_busy("http://127.0.0.1:9")


def test_of_several_engines_each_is_waited_for(monkeypatch):
    busy = {"http://one": [False, False], "http://two": [True, False]}
    monkeypatch.setattr(courtesy, "is_busy", lambda url: busy[url].pop(0))
    clock = Clock()
    listener = courtesy.Courteous(Heard(), list(busy), clock=clock, wait=clock.wait)
    clock.wait(5.0)

    listener.beat("learning", 1, 4)
    assert clock.now == pytest.approx(5.1)  # the second one answered at the first look, and neither at the next


def test_every_server_that_may_answer_is_known(settings):
    settings.LEARNER, settings.ENGINE_URLS, settings.ENGINE_URL = "local", [], "http://one"
    settings.SPARE_ENGINE_URL = "http://spare"
    assert engines.addresses() == ["http://one", "http://spare"]
    settings.ENGINE_URLS = ["http://one", "http://two"]
    assert engines.addresses() == ["http://one", "http://two"]
    settings.LEARNER, settings.TINKER_URL = "tinker", "https://tinker"
    assert engines.addresses() == ["https://tinker"]


def test_figures_pass_through():
    listener, heard, _ = polite()
    listener.keep({"loss": 1.0})
    assert heard.figures == [{"loss": 1.0}]

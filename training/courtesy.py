"""Live chat goes first where learner and engine share a device: between two passes the learner waits while the engine
answers, but never longer than it has worked since it last waited, so that no traffic can starve it."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Sequence
from typing import Any

import httpx

from training.jobs import Listener

LOOK_S = 0.1
"""How often an engine that answers is looked at."""

ANSWER_S = 1.0
"""An engine whose counters take longer is left alone until the next pass."""

BUSY = re.compile(r"^sglang:num_(?:running|queue)_reqs(?:\{[^}]*\})? ([0-9.e+]+)$", re.MULTILINE)


class Courteous:
    """A Listener that lets the engines at `urls` answer before work goes on, and passes on what it hears."""

    def __init__(
        self,
        listener: Listener,
        urls: Sequence[str],
        *,
        clock: Callable[[], float] = time.monotonic,
        wait: Callable[[float], None] = time.sleep,
    ) -> None:
        self._listener, self._urls, self._clock, self._wait = listener, urls, clock, wait
        self._went_on = clock()

    def beat(self, phase: str, done: int, total: int, *, work: int = 0, force: bool = False) -> None:
        self._listener.beat(phase, done, total, work=work, force=force)
        asked = self._clock()
        until = asked + (asked - self._went_on)
        while self._clock() < until and any(map(is_busy, self._urls)):
            self._wait(LOOK_S)
            self._listener.beat(f"{phase}, after chat", done, total)  # an operator may want to stop it meanwhile
        self._went_on = self._clock()

    def keep(self, figures: dict[str, Any]) -> None:
        self._listener.keep(figures)

    def skip(self, work: int) -> None:
        self._listener.skip(work)


def is_busy(url: str) -> bool:
    """Whether the engine is answering, or has a request waiting for an answer; not, where it says nothing."""
    try:
        answer = httpx.get(f"{url}/metrics", timeout=ANSWER_S, trust_env=False)
    except httpx.HTTPError:
        return False
    return answer.is_success and reads_busy(answer.text)


def reads_busy(metrics: str) -> bool:
    r"""Whether an engine's counters speak of a request.

    >>> reads_busy('sglang:num_running_reqs{model_name="m"} 0.0\nsglang:num_queue_reqs 2.0')
    True
    >>> reads_busy('sglang:num_running_reqs{model_name="m"} 0.0')
    False
    """
    return any(float(count) > 0 for count in BUSY.findall(metrics))

"""Which oracle solves which kinds of pages."""

from __future__ import annotations

from collections.abc import Callable

from tests.environments.worlds.browser.playing import Player

ORACLES: dict[str, Callable[[Player], object]] = {}


def solves(*kinds: str):
    def note(oracle):
        ORACLES.update(dict.fromkeys(kinds, oracle))
        return oracle

    return note

from __future__ import annotations

import pytest

from environments.worlds.browser.world import Browser
from tests.environments.worlds.browser.playing import Player


@pytest.fixture(scope="module")
def world():
    """MiniWoB's pages, in one browser for a file of tests."""
    world = Browser()
    yield world
    world.chromium.end()


@pytest.fixture
def play():
    """Open attempts, each closed when the test ends: `play(world, kind, seed)`."""
    opened = []

    def begin(world: Browser, kind: str, seed: int = 1) -> Player:
        opened.append(world.open(world.task(kind, seed, "train"), 1))
        return Player(opened[-1])

    yield begin
    for attempt in opened:
        attempt.close()

"""Players of worlds before the real API, with a scripted engine that knows how to keep a till."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Mapping
from pathlib import Path

import pytest

from benchmarks.tiny import write_tiny_model
from benchmarks.worlds.rows import keep_till as solve_till
from benchmarks.worlds.ways import called, way
from environments.client import Client
from environments.worlds.base import Task
from tests.chat.conftest import ana, ben, site
from tests.episodes.conftest import issue

__all__ = ["ana", "ben", "called", "site"]

WINDOW = 8192
ASKED = re.compile(r"cost together: ([\w, ]+)\?")
SAID = re.compile(r"<tool_response>\n(.*?)\n</tool_response>", re.S)


@pytest.fixture(scope="session")
def wide_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The tiny model with a window in which a whole attempt has room."""
    folder = write_tiny_model(tmp_path_factory.mktemp("models") / "wide")
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | {"max_position_embeddings": WINDOW}))
    return folder


@pytest.fixture(autouse=True)
def small(settings, wide_model):
    settings.MODEL = str(wide_model)
    settings.MODEL_NAME = "talkback"


@pytest.fixture
def key(ana):
    return issue(ana)


@pytest.fixture
async def client(site, key):
    async with Client(site, key.secret, patience_s=30) as client:
        yield client


def keep_till(prompt: str) -> str:
    """The next step of the shortest way through a task of till: 3 prices, 2 sums, the answer."""
    items, said = ASKED.findall(prompt)[-1].split(", "), SAID.findall(prompt)
    if len(said) < len(items):
        return called("price", item=items[len(said)])
    prices, sums = [int(one) for one in said[: len(items)]], [int(one) for one in said[len(items) :]]
    if len(sums) < len(items) - 1:
        return called("add", a=sums[-1] if sums else prices[0], b=prices[len(sums) + 1])
    return called("answer", value=sums[-1])


def script_of(tasks: Mapping[str, Mapping[str, int]]) -> list[dict[str, object]]:
    """The same way as lines for the scripted engine's process; `tasks` has each task's prices."""
    lines: list[dict[str, object]] = []
    for id, prices in tasks.items():
        lines += way(
            f"cost together: {', '.join(prices)}?", solve_till(Task("till", id, "train", {"prices": prices}), ())
        )
    return lines


@pytest.fixture
def keeps_till(engine):
    """An engine that solves each task of till in 6 steps."""
    engine.otherwise = keep_till
    return engine


def copy_model(folder: Path, to: Path, window: int) -> Path:
    shutil.copytree(folder, to)
    config = json.loads((to / "config.json").read_text())
    (to / "config.json").write_text(json.dumps(config | {"max_position_embeddings": window}))
    return to

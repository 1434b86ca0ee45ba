"""Our own sixty tasks: the oracle scores 1, doing nothing and deleting everything score 0."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from environments.sandboxes.trees import Tree
from environments.worlds.harbor.checking import checked, find
from environments.worlds.harbor.prepared import read
from environments.worlds.harbor.world import OWN

pytestmark = pytest.mark.bubblewrap

TRAIN, HELDOUT = find(OWN / "train"), find(OWN / "heldout")


def seen(place: Path) -> tuple[str, str, float | None, float | None, float | None]:
    """Name, why it cannot be played, and what the oracle, doing nothing and deleting everything score."""
    found, ready = checked(read(place), "bubblewrap", again=True)
    emptied = ready.score(0, Tree({})).outcome if ready else None
    return place.name, found.reason, found.oracle, found.nothing, emptied


def test_there_are_forty_to_train_and_twenty_held_out_of_six_kinds():
    assert (len(TRAIN), len(HELDOUT)) == (40, 20)
    for places in (TRAIN, HELDOUT):
        kinds = {
            line for place in places for line in (place / "task.toml").read_text().splitlines() if "category" in line
        }
        assert kinds == {
            f'category = "{kind}"' for kind in ("files", "text", "permissions", "processes", "archives", "programs")
        }


def test_no_instruction_and_no_oracle_is_in_both_splits():
    for name in ("instruction.md", "solution/solve.sh"):
        texts = {
            split: {(place / name).read_text() for place in places} for split, places in (("t", TRAIN), ("h", HELDOUT))
        }
        assert not texts["t"] & texts["h"]
        assert len(texts["t"]) == 40


def test_work_that_is_a_program_runs_apart_from_tests():
    for place in (*TRAIN, *HELDOUT):
        if 'category = "programs"' in (place / "task.toml").read_text():
            assert read(place).steps[0].collect, place.name
            assert ".py" not in (place / "tests" / "test.sh").read_text().replace("python3 -I", ""), place.name


@pytest.mark.parametrize("place", [*TRAIN[::8], *HELDOUT[::8]], ids=lambda place: place.name)
def test_a_sample_is_solved_by_its_oracle_alone(place):
    assert seen(place) == (place.name, "", 1.0, 0.0, 0.0)


@pytest.mark.processes
def test_each_is_solved_by_its_oracle_alone():
    with ThreadPoolExecutor(4) as threads:
        every = list(threads.map(seen, (*TRAIN, *HELDOUT)))
    assert every == [(place.name, "", 1.0, 0.0, 0.0) for place in (*TRAIN, *HELDOUT)]

"""Other people's harnesses mend a bug: the checkout is where they begin, and the hidden tests say how they did."""

from __future__ import annotations

import pytest

from environments.worlds.harnesses.visit import Harness
from environments.worlds.player import Way, play
from environments.worlds.repo.world import Repo
from lab.worlds.bug_tasks import Bug, BugTask, files_of
from lab.worlds.task_folders import write_files
from tests.environments.worlds.harnesses.conftest import LOOP, python

pytestmark = [pytest.mark.bubblewrap, pytest.mark.django_db(transaction=True, serialized_rollback=True)]

MENDS = "sed -i s/-/+/ egg.py"


@pytest.fixture
def repo(tmp_path) -> Repo:
    """One training task: in egg.py the - should be a +."""
    egg = BugTask((Bug("egg", "-", "+"),), ("hat", "*"))
    write_files(tmp_path / "bugs" / "train" / "egg", files_of("egg", egg))
    return Repo(tmp_path / "bugs", kind="bubblewrap")


async def played_by(client, repo, harness: Harness):
    (one,) = await play(client, repo, repo.tasks("train", 1, 0), 1, way=Way(harness=harness))
    return one


@pytest.mark.parametrize(("does", "outcome"), [(MENDS, 1.0), ("true", 0.0)])
async def test_a_harness_mends_a_bug_and_hidden_tests_say_so(client, engine, repo, does, outcome):
    engine.says(f"git status && {does}", to="In egg.py the - should be a +")
    engine.says("done", to="Exit code: 0")
    one = await played_by(client, repo, Harness(python(LOOP)))
    # of two tests both pass, or the bystander's alone: 2 * 1 - 1 and 2 * 1/2 - 1
    assert (one.status, one.outcome, one.steps) == ("solved" if outcome == 1.0 else "failed", outcome, 2)


async def test_a_harness_outside_works_on_a_copy_of_the_checkout(client, engine, repo):
    engine.says(MENDS)
    engine.says("done")
    one = await played_by(client, repo, Harness(python(LOOP), is_outside=True))
    assert (one.status, one.outcome) == ("solved", 1.0)


async def test_a_harness_that_writes_the_tests_has_them_refused(client, engine, repo):
    engine.says("mkdir -p tests && echo 'def test_egg(): pass' > tests/test_egg.py")
    engine.says("done")
    one = await played_by(client, repo, Harness(python(LOOP)))
    assert (one.status, one.outcome) == ("failed", 0.0)

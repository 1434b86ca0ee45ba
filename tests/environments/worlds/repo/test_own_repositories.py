"""Our own twelve repositories: the reference mends each, nothing mends none, and the agent sees no history."""

from __future__ import annotations

import pytest

from environments.worlds.base import Call
from environments.worlds.repo.instances import read_own
from environments.worlds.repo.verifying import Examiner
from environments.worlds.repo.world import OWN, Repo, RepoAttempt
from tests.environments.worlds.repo.made import FIX, SUBMIT, bash, play

pytestmark = pytest.mark.bubblewrap

TASKS = read_own(OWN)


def test_twelve_repositories_of_three_levels_in_two_splits():
    assert len(TASKS) == 12
    assert sum(task.split == "heldout" for task in TASKS) == 3
    assert {task.row["level"] for task in TASKS} == {"easy", "medium", "hard"}


@pytest.mark.parametrize("task", TASKS, ids=lambda task: task.id)
def test_reference_solves_and_nothing_does_not(task):
    layout = task.lay_out()
    examiner = Examiner(task.tests, layout.hidden)
    gold, nothing = examiner.run(layout.gold).passed, examiner.run(layout.base).passed

    assert gold == dict.fromkeys(task.tests, True)
    assert nothing is not None
    assert not any(nothing[test] for test in task.fail_to_pass)
    assert all(nothing[test] for test in task.pass_to_pass)


def test_a_mended_repository_is_solved(last_page):
    outcome = play(last_page, FIX)
    assert (outcome.ending, outcome.value) == ("solved", 1.0)


def test_nothing_done_is_the_share_of_tests_and_not_solved(last_page):
    outcome = play(last_page)
    # 2 of 3 tests pass: 2 * 2/3 - 1 = 1/3
    assert outcome.ending == "failed"
    assert outcome.value == pytest.approx(1 / 3)


def test_a_cut_off_attempt_is_truncated_whatever_it_mended(last_page):
    with RepoAttempt(last_page, "bubblewrap") as attempt:
        attempt.act(bash(FIX))
        outcome = attempt.outcome(is_truncated=True)
    assert (outcome.ending, outcome.value) == ("truncated", 1.0)


def test_the_checkout_has_one_commit_and_no_reflog_no_stash_no_hidden_test(last_page):
    with RepoAttempt(last_page, "bubblewrap") as attempt:
        said = attempt.act(bash("git log --all --oneline | wc -l; git reflog | wc -l; git stash list | wc -l")).text
        seen = attempt.act(bash("git status --short; ls -a; grep -rl last_page_counts / --include=*.py; true")).text
    assert said.split() == ["Output:", "1", "0", "0", "Exit", "code:", "0"]
    assert "pages.py" in seen
    assert "test_pages.py" not in seen


def test_a_block_a_step_runs_where_the_last_one_ended(last_page):
    with RepoAttempt(last_page, "bubblewrap") as attempt:
        attempt.hear("First.\n```bash\ncd tests\n```")
        assert attempt.hear("```bash\npwd\n```").text == "Output:\n/box/repo/tests\nExit code: 0"
        two = attempt.hear("```bash\nls\n```\n```bash\nls\n```")
        none = attempt.hear("I am done.")
        assert (two.score, none.score) == (-1.0, -1.0)
        over = attempt.hear("```bash\necho COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT\n```")
    assert over.is_over


def test_calls_that_make_no_sense_are_answered_in_words(last_page):
    with RepoAttempt(last_page, "bubblewrap") as attempt:
        assert attempt.act(Call("1", "edit", "{}")).score == -1.0
        assert attempt.act(Call("1", "bash", "ls")).score == -1.0
        assert attempt.act(SUBMIT).is_over


def test_the_agent_can_run_the_tests_that_it_sees(last_page):
    with RepoAttempt(last_page, "bubblewrap") as attempt:
        assert "1 passed" in attempt.act(bash("python3 -m pytest -q -p no:cacheprovider")).text


def test_world_draws_checked_tasks_of_a_split():
    world = Repo(kind="bubblewrap")
    assert sorted(task.id for task in world.tasks("heldout", 3, seed=1)) == [
        "even-median",
        "joined-spans",
        "layered-settings",
    ]

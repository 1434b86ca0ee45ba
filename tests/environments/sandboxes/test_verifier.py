"""A verifier scores work where no agent has been, and a verdict that is missing is blamed on the right one."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path

import pytest

from environments.errors import SandboxUnavailable
from environments.sandboxes.bubblewrap import Bubblewrap
from environments.sandboxes.sandbox import MIB, Mount, Wants
from environments.sandboxes.trees import File, Tree
from environments.sandboxes.verifier import Unscorable, Verifier, qualify

pytestmark = pytest.mark.bubblewrap

WANTS = Wants(memory=128 * MIB, disk=8 * MIB, processes=16)
REWARD = "/logs/verifier/reward.txt"
PACKAGES = Path(pytest.__file__).parents[1]


def verifier(script: str, **more) -> Verifier:
    return Verifier(("sh", "/tests/test.sh"), Tree({"test.sh": File(script.encode())}), wants=WANTS, **more)


def work(**files: str) -> Tree:
    return Tree({name.replace("_", "."): File(text.encode()) for name, text in files.items()})


ANSWER = verifier(f"grep -qx right /box/answer.txt && echo 1 > {REWARD} || echo 0 > {REWARD}")
"""Scores 1 where answer.txt says right, else 0."""
RUNS = verifier(f"python3 -I /box/run.py; echo 0 > {REWARD}", timeout_s=20)
"""Runs the agent's code, and scores 0 whatever it does."""


def test_work_is_scored_by_tests_from_outside():
    assert ANSWER.score(work(answer_txt="right\n")).outcome == 1
    assert ANSWER.score(work(answer_txt="wrong\n")).outcome == 0


def test_a_reward_that_an_agent_wrote_early_does_not_count():
    with Bubblewrap(WANTS) as agent:
        said = agent.run(["sh", "-c", f"mkdir -p /logs/verifier; echo 1 > {REWARD}"], timeout_s=10)
        assert said.status != 0  # there is no such place
        agent.run(
            ["sh", "-c", "mkdir -p logs/verifier; echo 1 | tee reward.txt logs/verifier/reward.txt"], timeout_s=10
        )
        assert ANSWER.finish(agent).outcome == 0


def test_an_agents_background_process_is_dead_before_its_work_is_scored():
    with Bubblewrap(WANTS) as agent:
        loop = f"while true; do echo 1 > {REWARD}; echo right > /box/answer.txt; sleep 0.01; done"
        agent.run(["sh", "-c", f"setsid sh -c '{loop}' > /dev/null 2>&1 &"], timeout_s=10)
        agent.run(["sh", "-c", "sleep 0.2"], timeout_s=10)
        agent.put("answer.txt", b"wrong\n")
        slow = verifier(f"sleep 0.5; grep -qx right /box/other.txt && echo 1 > {REWARD} || echo 0 > {REWARD}")
        assert slow.finish(agent).outcome == 0
        with pytest.raises(Exception, match="killed"):
            agent.run(["true"], timeout_s=1)


def test_a_reward_that_comes_late_does_not_count():
    # What the verifier's run of the agent's code leaves behind would write a 1 after the 0, and is killed before.
    late = f"import os, time\nif os.fork() == 0:\n    os.setsid(); time.sleep(0.3); open('{REWARD}', 'w').write('1')"
    assert RUNS.score(work(run_py=late)).outcome == 0


def test_a_reward_by_work_that_then_ends_its_verifier_does_not_count():
    code = f"import os\nopen('{REWARD}', 'w').write('1')\nos.kill(os.getppid(), 9)"
    score = replace(RUNS, qualified=True).score(work(run_py=code))
    assert (score.status, score.outcome) == ("failed", 0)
    assert "signal 9" in score.reason


def test_work_that_is_run_first_has_no_process_where_the_verdict_is_written():
    # A loop that never stops writing would win against any verifier that lives beside it.
    loop = (
        "import os, time\n"
        "open('answer.txt', 'w').write('wrong\\n')\n"
        "if os.fork() == 0:\n"
        "    os.setsid()\n"
        "    while True:\n"
        f"        try: open('{REWARD}', 'w').write('1')\n"
        "        except OSError: time.sleep(0.001)"
    )
    runs_first = replace(ANSWER, runs=("python3", "-I", "run.py"))
    assert runs_first.score(work(run_py=loop)).outcome == 0
    assert runs_first.score(work(run_py="open('answer.txt', 'w').write('right\\n')")).outcome == 1


@pytest.mark.parametrize("instead", ["os.mkfifo(at)", "os.symlink('/box/mine', at)", "os.mkdir(at)"])
def test_what_stands_in_the_place_of_a_reward_is_no_verdict(instead):
    code = f"import os\nopen('/box/mine', 'w').write('1')\nat = '{REWARD}'\n{instead}"
    score = verifier("python3 -I /box/run.py", qualified=True).score(work(run_py=code))
    assert (score.status, score.outcome) == ("failed", 0)
    assert "no " in score.reason


def test_tests_cannot_be_changed_by_what_they_run():
    code = "import os, shutil\nshutil.rmtree('/tests', ignore_errors=True)\nopen('/tests/test.sh', 'w')"
    assert RUNS.score(work(run_py=code)).outcome == 0


PYTEST = Verifier(
    ("sh", "/tests/test.sh"),
    Tree(
        {
            "test_sum.py": File(
                b"import sys\nsys.path.append('/box')\nfrom answer import add\n\n"
                b"def test_sum():\n    assert add(2, 2) == 4\n"
            ),
            "test.sh": File(
                f"PYTHONPATH=/packages python3 -m pytest -q -p no:cacheprovider /tests "
                f"&& echo 1 > {REWARD} || echo 0 > {REWARD}".encode()
            ),
        }
    ),
    wants=replace(WANTS, mounts=(Mount(PACKAGES, "/packages"),)),
    cwd="/box",
)
PLANTED = "import os\nopen('/logs/verifier/reward.json', 'w').write('{\"reward\": 1}')\nos._exit(0)\n"


def test_hooks_that_an_agent_planted_are_not_run():
    wrong = "def add(a, b):\n    return 5\n"
    hooks = {
        name: File(PLANTED.encode())
        for name in ("sitecustomize.py", "usercustomize.py", "conftest.py", "pytest.py", ".local/lib/own.pth")
    }
    ini = {"pytest.ini": File(b"[pytest]\naddopts = --version\n"), "x.pth": File(b"import os; os._exit(0)\n")}
    score = PYTEST.score(Tree({"answer.py": File(wrong.encode()), **hooks, **ini}))
    assert (score.status, score.outcome) == ("scored", 0), score
    assert "1 failed" in score.output
    right = PYTEST.score(Tree({"answer.py": File(b"def add(a, b):\n    return a + b\n"), **hooks, **ini}))
    assert right.outcome == 1, right


def test_hooks_that_an_agent_planted_are_not_taken_along():
    lists = verifier(f"cd /box && find . -type f; echo 0 > {REWARD}")
    planted = ("conftest.py", "a/sitecustomize.py", "a/b/x.pth", "a/__pycache__/c.pyc", "pytest.ini")
    score = lists.score(Tree({name: File(b"x") for name in (*planted, "a/kept.py")}))
    assert score.output.split() == ["./a/kept.py"]


def test_hooks_that_the_task_brought_are_its_own_again():
    tests = verifier(f"grep -q ours /box/conftest.py && echo 1 > {REWARD} || echo 0 > {REWARD}")
    tests = replace(tests, originals=Tree({"conftest.py": File(b"ours")}))
    assert tests.score(work(conftest_py="theirs")).outcome == 1


EXITS = "import os\nos._exit(0)\n"
IMPORTS = verifier(
    "python3 -I -c \"import sys; sys.path.append('/box'); import run; "
    f"open('{REWARD}', 'w').write(str(int(run.x == 1)))\"",
    timeout_s=20,
)


@pytest.mark.parametrize(
    ("code", "timeout_s", "says"),
    [(EXITS, 20, "no verdict"), ("while True: pass", 0.5, "did not end"), ("import os; os.kill(2, 9)", 20, "ended")],
)
def test_a_missing_verdict_is_the_agents_failure_where_the_oracle_was_scored(code, timeout_s, says):
    qualified = replace(qualify(IMPORTS, work(run_py="x = 1"), work(run_py="x = 0")), timeout_s=timeout_s)
    score = qualified.score(work(run_py=code))
    assert (score.status, score.outcome) == ("failed", 0)
    assert says in score.reason
    unqualified = replace(qualified, qualified=False).score(work(run_py=code))
    assert (unqualified.status, unqualified.outcome) == ("infra_error", None)


def test_a_verdict_before_the_time_was_up_does_not_count():
    hangs = verifier(f"echo 1 > {REWARD}; sleep 60", timeout_s=0.5, qualified=True)
    assert hangs.score(work()).status == "failed"


def test_a_sandbox_that_does_not_start_is_no_agents_failure():
    def broken(wants):
        raise SandboxUnavailable("no room")

    score = replace(ANSWER, qualified=True, open=broken).score(work(answer_txt="right\n"))
    assert (score.status, score.outcome, score.reason) == ("infra_error", None, "no room")


def test_an_agent_that_ends_its_own_sandbox_has_failed():
    with Bubblewrap(WANTS) as agent:
        start = time.monotonic()
        with pytest.raises(Exception, match="ended"):
            agent.run(["sh", "-c", "kill -9 2; sleep 5"], timeout_s=10)
        assert time.monotonic() - start < 10
        score = replace(ANSWER, qualified=True).finish(agent)
    assert (score.status, score.outcome) == ("failed", 0)


def test_a_verifier_that_cannot_tell_is_refused():
    right, nothing = work(answer_txt="right\n"), work()
    assert qualify(ANSWER, right, nothing).qualified
    with pytest.raises(Unscorable, match="oracle scored 0, not 1"):
        qualify(ANSWER, nothing, nothing)
    with pytest.raises(Unscorable, match="Doing nothing scored 1"):
        qualify(ANSWER, right, right)
    with pytest.raises(Unscorable, match="oracle got no verdict: The verifier wrote no verdict"):
        qualify(verifier("true"), right, nothing)

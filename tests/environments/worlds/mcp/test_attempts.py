"""Attempts with a real MCP server of the official package, in the sandbox: calls, results, verdicts, and its end."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from benchmarks.patience import Patience
from environments.worlds.base import Call, Outcome, WorldFailed
from environments.worlds.choosing import open_world
from environments.worlds.mcp.world import McpWorld
from installation.diagnosis import free_port
from tests.environments.worlds.mcp.made import ASK, FILL, do, listed, opened, raw, shop

pytestmark = pytest.mark.bubblewrap


def names(attempt) -> list[str]:
    return [tool["function"]["name"] for tool in attempt.tools]


def threads() -> list[str]:
    return [thread.name for thread in threading.enumerate() if thread.name.startswith("mcp")]


def test_an_answer_that_the_tools_lead_to_is_solved(tmp_path):
    with opened(shop(tmp_path)) as attempt:
        assert attempt.opening[1] == {"role": "user", "content": ASK["prompt"]}
        assert names(attempt)[:2] == ["price", "put_in"]  # the server's own name has a blank
        assert names(attempt)[-1] == "answer"
        assert (do(attempt, "price", item="apple").text, do(attempt, "price", item="bread").text) == ("3", "4")
        assert do(attempt, "answer", value=7).is_over
        assert attempt.outcome(is_truncated=False) == Outcome("solved", 1.0, {"right": True})


def test_an_error_of_a_tool_is_the_agents_step(tmp_path):
    with opened(shop(tmp_path, {**ASK, "tools": ["price", "fail"]})) as attempt:
        assert names(attempt) == ["price", "fail", "answer"]
        for seen in (do(attempt, "fail"), do(attempt, "price", itme="x"), do(attempt, "steal"), do(attempt, "put_in")):
            assert (seen.text[:7], seen.score, seen.is_over) == ("Error: ", -1.0, False)
        for arguments in ("{", "[1]", "[" * 100_000, '{"item": "\\ud800"}', '{"item": NaN}'):
            assert attempt.act(Call("1", "price", arguments)).score == -1.0
        assert attempt.hear("It is seven.").score == -1.0
        assert do(attempt, "price", item="apple").score is None
        assert attempt.outcome(is_truncated=False).value == -1.0
        assert attempt.outcome(is_truncated=True) == Outcome("truncated", None)


def test_a_tool_that_scores_is_the_outcome_and_no_agent_has_it(tmp_path):
    with opened(shop(tmp_path, FILL)) as attempt:
        assert "verdict" not in names(attempt)
        assert "verdict" not in str(attempt.tools)
        assert do(attempt, "verdict", wanted=[]).text == "Error: there is no tool 'verdict'."
        do(attempt, "put_in", item="apple")
        assert do(attempt, "done").is_over
        # 1 of the 2 that are wanted: 2 * 0.5 - 1 = 0
        assert attempt.outcome(is_truncated=False) == Outcome("failed", 0.0, {"share": 0.5})
        do(attempt, "put_in", item="milk")
        assert attempt.outcome(is_truncated=True) == Outcome("truncated", 1.0, {"share": 1.0})


def test_a_tool_that_scores_one_task_is_hidden_in_all(tmp_path):
    world = McpWorld(shop(tmp_path, FILL, {**ASK, "split": "heldout"}))
    with world.open(world.tasks("heldout", 1, 0)[0], 0) as attempt:
        assert "verdict" not in names(attempt)


def test_a_command_that_scores_reads_what_was_called(tmp_path):
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests" / "score.py").write_text(
        "import json\n"
        "calls = json.load(open('/box/attempt.json'))['calls']\n"
        "asked = [call['arguments']['item'] for call in calls if call['tool'] == 'price' and not call['is_error']]\n"
        "open('/logs/verifier/reward.txt', 'w').write(str(float(asked == ['milk'])))\n"
    )
    check = {"command": ["python3", "-I", "/tests/score.py"], "tests": "tests"}
    with opened(shop(tmp_path, {**ASK, "check": check})) as attempt:
        assert attempt.outcome(is_truncated=False).value == -1.0
        do(attempt, "price", item="milk")
        assert attempt.outcome(is_truncated=False) == Outcome("solved", 1.0, {"share": 1.0})
        (tmp_path / "tests" / "score.py").write_text("")
        with pytest.raises(WorldFailed, match="gave no verdict"):
            attempt.outcome(is_truncated=False)


def test_5_mb_are_cut_with_a_note_and_what_is_no_text_is_named(tmp_path):
    with opened(shop(tmp_path)) as attempt:
        text = do(attempt, "big").text
        # 4,000 characters are kept: the first and the last 2,000
        assert text == f"{'a' * 2000}\n[4,996,000 characters left out]\n{'b' * 2000}"
        assert do(attempt, "picture").text.splitlines() == [
            "[image: image/png, 5 bytes, not shown]",
            "[resource: list, file:///list.txt, not read]",
            "hidden⟨U+202E⟩text",
        ]


def test_a_list_that_changes_is_read_again_and_the_agent_is_told(tmp_path):
    with opened(shop(tmp_path)) as attempt:
        assert do(attempt, "change").text == "changed\n[The tools have changed. New: discount. Gone: big.]"
        assert ("discount" in names(attempt), "big" in names(attempt)) == (True, False)
        assert (do(attempt, "discount").text, do(attempt, "big").score) == ("5 %", -1.0)


def test_a_server_that_dies_is_a_fault_of_the_world(tmp_path):
    with opened(shop(tmp_path)) as attempt:
        with pytest.raises(WorldFailed, match=r"failed in its tool 'die': .*the till is on fire"):
            do(attempt, "die")
        with pytest.raises(WorldFailed):
            do(attempt, "price", item="apple")
    with opened(shop(tmp_path)) as attempt, pytest.raises(WorldFailed, match="a message of over 16,777,216 bytes"):
        do(attempt, "huge")


def test_a_tool_that_never_answers_is_left_and_a_server_that_does_not_is_a_fault_of_the_world(tmp_path):
    with opened(shop(tmp_path, call_s=4)) as attempt:
        seen = do(attempt, "sleep")
        assert (seen.text, seen.score) == ("Error: The tool did not answer within 4 s.", -1.0)
        assert do(attempt, "price", item="milk").text == "2"
        with pytest.raises(WorldFailed, match="it did not answer in time"):
            do(attempt, "freeze")


def test_a_server_finds_nothing_of_the_players_environment(tmp_path, monkeypatch):
    monkeypatch.setenv("TALKBACK_KEY", "sk-secret")
    with opened(shop(tmp_path)) as attempt:
        said = do(attempt, "environment").text
        assert "HOME=/box" in said
        assert "sk-secret" not in said
        assert "left out" not in said  # all of it was looked at


def test_a_trusted_server_runs_as_this_user_and_has_no_key_either(tmp_path, monkeypatch):
    monkeypatch.setenv("TALKBACK_KEY", "sk-secret")
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}:{os.environ['PATH']}")
    path = raw(tmp_path, [listed("echo")])
    world = open_world(f"mcp-trusted:{path}")
    with world.open(world.tasks("train", 1, 0)[0], 0) as attempt:
        process = attempt._connection._talker.process
        assert "sk-secret" not in Path(f"/proc/{process.pid}/environ").read_text()
        assert '"name": "echo"' in do(attempt, "echo").text
    assert process.returncode is not None


def test_closing_ends_the_server_and_the_thread_and_can_be_done_twice(tmp_path):
    attempt = opened(raw(tmp_path, [listed("echo")]))
    process = attempt._connection._talker.process
    assert len(threads()) == 1
    attempt.close()
    attempt.close()
    assert (process.returncode is not None, threads()) == (True, [])


def test_32_attempts_at_once_have_a_server_each(tmp_path):
    world = McpWorld(raw(tmp_path, [listed("echo", word={"type": "string"})]))
    (task,) = world.tasks("train", 1, 0)
    together = threading.Barrier(32)

    def one(number: int) -> str:
        with world.open(task, number) as attempt:
            together.wait(120)  # all are open at the same time
            return do(attempt, "echo", word=f"w{number}").text

    with ThreadPoolExecutor(32) as pool:
        said = list(pool.map(one, range(32)))
    assert all(f'"w{number}"' in text for number, text in enumerate(said))
    assert threads() == []


@pytest.fixture
def http(tmp_path):
    """The shop behind a URL, and a file that names it."""
    port = free_port()
    command = [sys.executable, str(Path(__file__).parent / "servers" / "shop.py"), str(port)]
    with subprocess.Popen(command, stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL) as process:
        path = shop(tmp_path, command=None, url=f"http://127.0.0.1:{port}/mcp")
        said = path.read_text().replace('"command": null, ', "")
        path.write_text(said.replace('"folder": "server", ', "").replace('"packages": true, ', ""))
        yield path, process
        process.kill()


def wait_for_open(path: Path):
    """The server's first attempt, as soon as it listens."""
    patience = Patience(60)
    while True:
        try:
            return opened(path)
        except WorldFailed:
            if patience.is_over:
                raise


def test_a_server_at_a_url_is_called_and_its_end_is_a_fault_of_the_world(http):
    path, process = http
    with wait_for_open(path) as attempt:
        assert do(attempt, "price", item="bread").text == "4"
        assert do(attempt, "fail").score == -1.0
        assert "[4,996,000 characters left out]" in do(attempt, "big").text
        assert do(attempt, "change").text.startswith("changed")
        patience = Patience(30)
        while "discount" not in names(attempt) and not patience.is_over:
            do(attempt, "price", item="milk")  # news of a URL comes by a stream of its own
        assert "discount" in names(attempt)
        process.kill()
        process.wait()
        with pytest.raises(WorldFailed, match="failed in its tool 'price'"):
            do(attempt, "price", item="bread")
    with pytest.raises(WorldFailed, match="did not start"):
        opened(path)

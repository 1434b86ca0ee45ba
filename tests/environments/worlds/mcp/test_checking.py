"""`worlds check --world mcp:…`: the server answers, its tools are named, and what cannot be scored is said."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from environments import command
from environments.worlds.choosing import open_world
from tests.environments.worlds.mcp.made import ASK, FILL, listed, raw, shop

ROOT = Path(__file__).parents[4]

pytestmark = pytest.mark.bubblewrap


@pytest.fixture
def check(capsys):
    def check(*said: str) -> tuple[int, str]:
        code = command.main(["worlds", "check", *said])
        printed = capsys.readouterr()
        return code, printed.out + printed.err

    return check


def test_each_task_is_said_to_be_playable_or_why_not(check, tmp_path):
    nothing = {**FILL, "id": "nothing", "check": {"tool": "fill", "arguments": {}}}
    absent = {**ASK, "id": "absent", "tools": ["price", "steal"]}
    easy = {**FILL, "id": "easy", "prompt": "Be.", "check": {"tool": "price", "arguments": {"item": "coin"}}}
    path = shop(tmp_path, {**ASK, "id": "ask"}, absent, nothing, easy)
    server = tmp_path / "server" / "shop.py"
    server.write_text(server.read_text().replace('"apple": 3', '"coin": 1, "apple": 3'))
    code, said = check("--world", f"mcp:{path}", "--notes")
    lines = [line for line in said.splitlines() if line.startswith(("ok", "no"))]
    assert code == 1
    assert lines[0].split() == ["ok", "world-ask"]
    assert lines[1].endswith("The MCP server has no tool 'steal', which the task gives.")
    assert lines[2].endswith("The MCP server has no tool 'fill', which is to score.")
    assert lines[3].endswith("unscorable: doing nothing solves it.")
    assert "tools: put_in, verdict, fail" in said
    assert said.endswith("1 of 4 can be played.\n")


def test_a_server_that_does_not_start_is_said_of_each_task_at_once(check, tmp_path):
    path = raw(tmp_path, [listed("echo")], "mute", start_s=1)
    code, said = check("--world", f"mcp:{path}")
    assert (code, "did not start: it did not answer in time" in said) == (1, True)


def test_a_world_without_a_check_and_a_check_of_nothing_say_so(check):
    assert check("--world", "till") == (1, "The tasks of till are made by rule: there is none to check.\n")
    assert check() == (1, "worlds check takes a folder of tasks, or --world NAME.\n")


def test_the_example_of_the_page_can_be_played(check, tmp_path):
    page = (ROOT / "docs" / "how-to" / "bring-mcp-servers.md").read_text(encoding="utf-8")
    lines = re.findall(r"```sh\n(.*?)```", page, re.S)[0].splitlines()
    script = "\n".join(lines[:-1])  # all but what is checked after
    subprocess.run(["sh", "-ec", script], cwd=tmp_path, check=True)
    assert lines[-1] == "python3 -m environments worlds check --world mcp:shop.jsonl"
    code, said = check("--world", f"mcp:{tmp_path}/shop.jsonl", "--notes")
    assert (code, "tools: price, answer" in said) == (0, True)
    plan = tmp_path / "guess.json"
    plan.write_text(re.findall(r"```json\n(.*?)```", page, re.S)[0])
    assert [task.id for task in open_world(f"openenv:{plan}").tasks("train", 1, 1)] == ["guess-a"]

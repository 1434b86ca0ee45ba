"""Files that name a server and tasks: what is read, and each fault by its sentence."""

from __future__ import annotations

import json

import pytest

from environments.errors import Unplayable
from environments.worlds.mcp.task_file import read

SERVER = {"url": "http://127.0.0.1:9/mcp"}
TASK = {"prompt": "2 + 2?", "split": "train", "check": {"answer": 4}}


def written(folder, server=SERVER, tasks=(TASK,), **more):
    path = folder / "sums.json"
    path.write_text(json.dumps({"server": server, "tasks": list(tasks), **more}))
    return path


def test_lines_and_one_object_are_read_alike(tmp_path):
    lines = tmp_path / "sums.jsonl"
    lines.write_text("".join(json.dumps(line) + "\n" for line in ({"server": SERVER, "horizon": 3}, TASK)))
    one = read(written(tmp_path, horizon=3))
    both = read(lines)
    assert (one.server, one.tasks, one.horizon) == (both.server, both.tasks, both.horizon)
    (task,) = one.tasks
    # the first 16 letters of the prompt's SHA-256 name a task that has no id
    assert (task.id, task.split, task.data["check"]) == (
        "sums-q-70b499c547e0a11f",
        "train",
        {"kind": "answer", "answer": "4"},
    )


@pytest.mark.parametrize(
    ("server", "task", "said"),
    [
        ({}, {}, "server has a command or a url"),
        ({"url": "file:///etc/passwd"}, {}, "server.url begins with http"),
        ({"command": "python3 x.py"}, {}, "server.command is a list of words"),
        ({"command": ["x"], "folder": ".."}, {}, "server.folder is a folder below the file's own"),
        ({"command": ["x"], "folder": "."}, {}, "where a tool could read the answers"),
        ({"command": ["x"], "trusted": True}, {}, "server has 'trusted', which means nothing"),
        (SERVER | {"headers": {"Authorization": "Bearer $TALKBACK_KEY"}}, {}, "only names that begin with MCP_"),
        (SERVER | {"headers": {"Authorization": "Bearer $MCP_NONE"}}, {}, r"\$MCP_NONE, which is not set"),
        (SERVER | {"call_s": 0}, {}, "server.call_s is a number of seconds"),
        (SERVER, {"check": {"answer": 4, "tool": "x"}}, "task 1: check has an answer, a tool or a command"),
        (SERVER, {"check": {"command": ["x"], "tests": "/etc"}}, "check.tests is a folder below the file's own"),
        (SERVER, {"split": "test"}, "split is train or heldout"),
        (SERVER, {"prompt": " "}, "prompt holds what is asked"),
        (SERVER, {"id": "a\u200bb"}, "id is a name"),
    ],
)
def test_what_is_wrong_is_said(tmp_path, monkeypatch, server, task, said):
    monkeypatch.setenv("TALKBACK_KEY", "sk-secret")
    with pytest.raises(Unplayable, match=said) as refused:
        read(written(tmp_path, server, [TASK | task]))
    assert "sk-secret" not in str(refused.value)


def test_a_header_reads_a_variable_of_its_own(tmp_path, monkeypatch):
    monkeypatch.setenv("MCP_TOKEN", "t-1")
    file = read(written(tmp_path, SERVER | {"headers": {"Authorization": "Bearer ${MCP_TOKEN}"}}))
    assert file.server.headers == {"Authorization": "Bearer t-1"}


def test_a_prompt_is_in_one_split_and_an_id_names_one_task(tmp_path):
    with pytest.raises(Unplayable, match="task 2: this prompt is in both splits"):
        read(written(tmp_path, tasks=[TASK, TASK | {"split": "heldout", "id": "b"}]))
    with pytest.raises(Unplayable, match="task 2: an earlier task is"):
        read(written(tmp_path, tasks=[TASK, TASK]))
    with pytest.raises(Unplayable, match="it has no tasks"):
        read(written(tmp_path, tasks=[]))

"""The command: it plays, it counts, and it says what is wrong in one sentence."""

from __future__ import annotations

import asyncio
import json

import pytest

from environments import command
from environments.client import Client
from tests.environments.stages import FakeTalkback

BRIEF = "Feet smell of bacteria that live on sweat inside shoes."
"""To the first open question that trains with seed 1."""
MORE = "Woollen socks carry moisture out of leather boots."
LONG = f"{BRIEF} {MORE} Air them."


class Door(FakeTalkback):
    async def __aenter__(self):
        return self

    async def __aexit__(self, *error):
        pass


@pytest.fixture
def door(monkeypatch):
    """Talkback behind the command: `door.replies` is what it says."""
    monkeypatch.delenv(command.KEY, raising=False)
    made = Door([])
    monkeypatch.setattr(command, "Client", lambda url, key: made)
    return made


def run(capsys, *arguments: str) -> tuple[int, str, str]:
    code = command.main(arguments)
    said = capsys.readouterr()
    return code, said.out, said.err


def test_a_session_is_a_line_of_the_table(door, capsys):
    door.replies = [LONG, BRIEF]
    code, out, _ = run(capsys, "play", "--key", "k", "--persona", "short", "--tasks", "open:1", "--at-once", "1")
    assert code == 0
    header, session, total = out.splitlines()
    assert header.split() == ["persona", "task", "first", "last", "ended", "asked", "for"]
    # style 0 of the first reply, 1 of the second, one change asked for
    assert session.split()[0] == "short"
    assert session.split()[2:] == ["0.00", "1.00", "accepted", "short"]
    # prompt tokens 10, 20, 30 and 5 of reply each
    assert total == "1 sessions, 3 requests, 75 tokens: style of first replies 0.00, of last ones 1.00, 1 accepted"


def test_every_exchange_can_be_had_as_json(door, capsys):
    door.replies = [BRIEF]
    _, out, _ = run(capsys, "play", "--key", "k", "--persona", "short", "--tasks", "open:1", "--json")
    rows = [json.loads(line) for line in out.splitlines()]
    assert [row["accepts"] for row in rows] == [True, None]
    assert rows[0]["reply"] == BRIEF


def test_people_and_prompts_of_ones_own_are_played(door, capsys, tmp_path):
    (tmp_path / "people.jsonl").write_text('{"name": "a", "wishes": ["short"]}\n{"name": "b", "wishes": ["digits"]}\n')
    (tmp_path / "prompts.jsonl").write_text('{"id": "p1", "prompt": "Why?"}\n{"id": "p2", "prompt": "How?"}\n')
    door.replies = ["One."] * 4 + ["x"] * 9
    people, prompts = str(tmp_path / "people.jsonl"), str(tmp_path / "prompts.jsonl")
    _, out, _ = run(capsys, "play", "--key", "k", "--persona", people, "--tasks", prompts)
    assert [line.split()[:2] for line in out.splitlines()[1:-1]] == [["a", "p1"], ["a", "p2"], ["b", "p1"], ["b", "p2"]]


def test_rates_count_first_replies(door, capsys):
    door.replies = ["One.", ("One. Two", "length"), "One!", "One. Two. Three."]
    _, out, _ = run(capsys, "rates", "--key", "k", "--tasks", "open:4", "--at-once", "1")
    shares = dict(line.split() for line in out.splitlines()[:-1])
    assert shares["short"] == "0.50"  # the one that was cut is undecided, and three sentences are too many
    assert shares["no-exclamation"] == "0.75"
    assert out.splitlines()[-1] == "of 4 first replies, 3 of which came to their end"


def test_people_lists_every_wish(capsys):
    code, out, _ = run(capsys, "people", "--split", "heldout")
    assert code == 0
    assert "asks-back" in out
    assert "heldout compositions" in out


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("--persona", "unknown"), "There is no persona 'unknown'"),
        (("--persona", "none.jsonl"), "none.jsonl: No such file"),
        (("--tasks", "riddle:3"), "--tasks riddle:3: it reads open:8"),
        (("--tasks", "open"), "it reads open:8"),
        (("--tasks", "open:100000"), "open questions to train"),
    ],
)
def test_what_cannot_be_played_is_said_in_one_sentence(door, capsys, arguments, says):
    code, out, err = run(capsys, "play", "--key", "k", *arguments)
    assert code == 1
    assert says in err
    assert not out
    assert not door.asked


def test_without_a_key_it_says_how_to_get_one(monkeypatch, capsys):
    monkeypatch.delenv(command.KEY, raising=False)
    code, _, err = run(capsys, "play")
    assert code == 1
    assert "create_key" in err


def test_the_real_client_is_what_sessions_ask_for():
    client = command._client(command.parser().parse_args(["play", "--key", "k"]))
    assert isinstance(client, Client)
    asyncio.run(client.aclose())


def test_the_correction_box_is_used_where_it_is_wished(door, capsys):
    door.replies = [LONG, BRIEF]
    run(capsys, "play", "--key", "k", "--persona", "short", "--tasks", "open:1", "--writes", "1")
    assert [said for _, said in door.given] == [f"{BRIEF} {MORE}"]

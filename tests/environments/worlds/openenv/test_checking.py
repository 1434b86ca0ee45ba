"""`worlds check --world openenv:…`: the server answers, its tools and its state are named."""

from __future__ import annotations

import pytest

from environments import command
from tests.environments.worlds.openenv.server import Server, serving

pytest.importorskip("websockets", reason="websockets is not installed: make test-tools brings it")


def test_a_server_is_asked_for_an_episode_of_each_split(capsys):
    with serving(Server()) as server:
        assert command.main(["worlds", "check", "--world", f"openenv:{server.url}", "--notes"]) == 0
    said = capsys.readouterr().out
    assert said.count("tools: act") == 2
    assert 'state: {"episode_id": "e", "step_count": 0}' in said
    assert "the server may pass over what tells them apart" in said  # each seed begins with the same words
    assert said.endswith("2 of 2 can be played.\n")


def test_a_server_that_is_not_there_cannot_be_played(capsys):
    assert command.main(["worlds", "check", "--world", "openenv:http://127.0.0.1:9"]) == 1
    assert "does not answer /schema" in capsys.readouterr().out

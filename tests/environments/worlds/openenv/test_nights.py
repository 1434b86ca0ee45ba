"""A night at an OpenEnv server before the real API: each reward is its step's score, and the last one the outcome."""

from __future__ import annotations

import json

import pytest

from environments import command
from environments.client import KEY
from episodes.models import Episode
from tests.environments.worlds.conftest import SAID, called
from tests.environments.worlds.openenv.server import Server, serving

pytest.importorskip("websockets", reason="websockets is not installed: make test-tools brings it")
pytestmark = pytest.mark.django_db(transaction=True, serialized_rollback=True)


def test_agents_play_to_the_environments_end_and_a_reward_out_of_range_voids_its_attempt(
    site, key, engine, capsys, monkeypatch
):
    monkeypatch.setenv(KEY, key.secret)
    engine.otherwise = lambda prompt: called("act", value=len(SAID.findall(prompt)))  # 0, 1, 2, … until it is right
    much = ["--groups", "2", "--attempts", "4", "--max-tokens", "96", "--json", "--url", site]

    def night(url: str, name: str) -> list[dict]:
        assert command.main(["worlds", "play", "--world", f"openenv:{url}", "--night", name, *much]) == 0
        return [json.loads(line) for line in capsys.readouterr().out.splitlines()]

    with serving(Server()) as server:
        rows = night(server.url, "good")
        server.twist = lambda answer: answer | {"reward": 2}
        void = night(server.url, "bad")
    assert {(row["status"], row["outcome"], row["invalid"]) for row in rows} == {("solved", 1.0, 0)}
    for row in rows:  # every guess but the last has a reward of 0
        assert sorted(row["scores"].values()) == [0.0] * (row["steps"] - 1) + [1.0]
    assert {(row["status"], row["outcome"]) for row in void} == {("infra_error", None)}
    assert {episode.ending for episode in Episode.objects.all()} == {"solved", "infra_error"}
    assert (server.open, server.closed) == (0, 16)

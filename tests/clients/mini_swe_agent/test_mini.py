"""The real mini-swe-agent, unmodified, plays a terminal task and mends a bug; its turns become samples of its group."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from asgiref.sync import sync_to_async

from benchmarks.patience import crowd
from chat.models import Turn
from environments.worlds.harnesses.visit import Harness
from environments.worlds.player import Way, play
from episodes.models import Episode
from tests.clients.mini_swe_agent.install import HOME
from tests.environments.worlds.conftest import ana, client, key, site, small, wide_model
from tests.environments.worlds.harnesses.conftest import judged, plays, terminal
from tests.environments.worlds.harnesses.test_repo_visit import MENDS, repo

__all__ = ["ana", "client", "key", "plays", "repo", "site", "small", "terminal", "wide_model"]

pytestmark = [
    pytest.mark.processes,
    pytest.mark.bubblewrap,
    pytest.mark.django_db(transaction=True, serialized_rollback=True),
    pytest.mark.mini_swe_agent,
]

PAGE = Path(__file__).parents[3] / "docs" / "how-to" / "bring-a-harness.md"


def on_page() -> str:
    """The command that the how-to gives."""
    found = re.search(r"--harness '(.*?)'\n", PAGE.read_text(), re.DOTALL)
    assert found is not None
    return found[1]


def bash(command: str) -> str:
    said = json.dumps({"name": "bash", "arguments": {"command": command}})
    return f"<tool_call>\n{said}\n</tool_call>"  # as the model's template spells it, so the next prompt goes on from it


@pytest.mark.timeout(600)
async def test_mini_swe_agent_plays_a_task_and_its_turns_are_steps(plays, engine):
    engine.says(bash("echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT"), to="returncode", times=None)
    engine.says(bash("echo right > answer.txt"), to="Write the word right", times=None)
    played = await plays(on_page(), attempts=2, files=HOME, limit_s=250.0 * crowd())
    assert [(one.status, one.outcome, one.steps, one.exit_status) for one in played] == [("solved", 1.0, 2, 0)] * 2, (
        played
    )
    for one in played:
        episode = await Episode.objects.aget(pk=one.episode)
        turns = await sync_to_async(list)(Turn.objects.filter(session=episode.session_id).order_by("position"))
        assert {turn.line for turn in turns} == {Turn.Line.MAIN}
        first, second = turns
        assert [call["function"]["name"] for call in first.message["tool_calls"]] == ["bash"]
        assert second.messages[-1]["role"] == "tool"
        # what trains is what was sampled, and the second prompt goes on from it: one row for both
        whole = [*first.prompt_ids, *first.response_ids]
        assert second.prompt_ids[: len(whole)] == whole
        samples = await judged(one)
        assert [(sample.step, sample.response_ids) for sample in samples] == [
            (0, first.response_ids), (1, second.response_ids),
        ]  # fmt: skip


@pytest.mark.timeout(600)
async def test_mini_swe_agent_mends_a_bug_and_its_turns_are_steps(client, engine, repo):
    engine.says(bash("echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT"), to="returncode", times=None)
    engine.says(bash(MENDS), to="In egg.py the - should be a +", times=None)
    way = Way(harness=Harness(on_page(), HOME, limit_s=250.0 * crowd()))
    for one in await play(client, repo, repo.tasks("train", 1, 0), 2, way=way):
        assert (one.status, one.outcome, one.steps, one.exit_status) == ("solved", 1.0, 2, 0), one
        assert [sample.step for sample in await judged(one)] == [0, 1]

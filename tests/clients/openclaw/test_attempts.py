"""The real OpenClaw, unmodified, plays a terminal task and mends a bug; its turns become samples of its group."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path
from types import SimpleNamespace

import pytest
from asgiref.sync import async_to_sync, sync_to_async

from benchmarks.patience import crowd
from chat.models import Turn
from environments import command
from environments.client import KEY
from environments.worlds.harnesses.visit import Harness
from environments.worlds.player import Way, play
from episodes.models import Episode
from tests.clients.openclaw import install
from tests.clients.openclaw.record import SUMMARY
from tests.environments.worlds.conftest import ana, client, copy_model, key, site, wide_model
from tests.environments.worlds.harnesses.conftest import judged, plays, terminal
from tests.environments.worlds.harnesses.test_repo_visit import MENDS, repo

__all__ = ["ana", "client", "key", "plays", "repo", "site", "terminal", "wide_model"]

pytestmark = [
    pytest.mark.openclaw,
    pytest.mark.bubblewrap,
    pytest.mark.django_db(transaction=True, serialized_rollback=True),
    pytest.mark.timeout(1200),
]

PAGE = (Path(__file__).parents[3] / "docs" / "how-to" / "bring-a-harness.md").read_text()
LIMIT_S = 500.0
TRIMMED, WHOLE = 16_384, 65_536
"""Windows. A letter is about a token here: the first prompt of the trimmed agent has 7,600."""


@pytest.fixture(autouse=True)
def newest_attempt() -> None:
    node = install.node_folder()
    assert node is not None
    install.lay_out(node)


@pytest.fixture(autouse=True)
def window(request, settings, wide_model, tmp_path) -> None:
    settings.MODEL = str(copy_model(wide_model, tmp_path / "window", request.param))
    settings.MODEL_NAME = "talkback"


def on_page() -> list[str]:
    """The arguments of the how-to's command."""
    found = re.search(
        r"python3 -m environments (worlds play --world harbor --harness-files var/openclaw .*\n.*)\n", PAGE
    )
    assert found is not None
    return shlex.split(found[1].replace("\\\n", ""))


HARNESS = on_page()[-1]


def executes(command: str) -> str:
    said = json.dumps({"name": "exec", "arguments": {"command": command}})
    return f"<tool_call>\n{said}\n</tool_call>"  # as the model's template spells it, so the next prompt goes on from it


def turns_of(episode_id: str) -> list[Turn]:
    episode = Episode.objects.select_related("group").get(pk=episode_id)
    found = list(Turn.objects.filter(session=episode.session_id).order_by("position"))
    assert {turn.checkpoint_id for turn in found} == {episode.group.checkpoint_id}  # asked for by the plain name
    return found


@pytest.mark.parametrize("window", [TRIMMED], indirect=True)
def test_openclaw_plays_a_task_by_the_command_on_the_page_and_its_turns_are_steps(
    site, key, engine, terminal, monkeypatch, capsys
):
    engine.says("Done.", to="(?s)Write the word right.*no output", times=None)
    engine.says(executes("echo right > answer.txt"), to="Write the word right", times=None)
    monkeypatch.setenv(KEY, key.secret)
    said = [str(install.HOME) if word == "var/openclaw" else word for word in on_page()]
    here = ["--world", f"harbor:{terminal.folder}", "--url", site, "--groups", "1", "--attempts", "2", "--json"]
    patient = ["--harness-limit", str(int(LIMIT_S * crowd()))]
    assert command.main([*said, *here, *patient]) == 0
    played = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [(one["status"], one["outcome"], one["steps"], one["exit_status"]) for one in played] == [
        ("solved", 1.0, 2, 0)
    ] * 2, played
    for one in played:
        first, second = turns = turns_of(one["episode"])
        assert {(turn.line, turn.kind) for turn in turns} == {(Turn.Line.MAIN, "main")}
        assert [call["function"]["name"] for call in first.message["tool_calls"]] == ["exec"]
        assert second.messages[-1]["role"] == "tool"
        # what trains is what was sampled, and the second prompt goes on from it: one row for both
        whole = [*first.prompt_ids, *first.response_ids]
        assert second.prompt_ids[: len(whole)] == whole
        samples = async_to_sync(judged)(SimpleNamespace(episode=one["episode"]))
        assert [(sample.step, sample.response_ids) for sample in samples] == [
            (0, first.response_ids), (1, second.response_ids),
        ]  # fmt: skip


@pytest.mark.parametrize("window", [WHOLE], indirect=True)
async def test_openclaw_with_all_its_tools_mends_a_bug_and_leaves_nothing_else_behind(client, engine, repo):
    engine.says("Done.", to="(?s)In egg.py the - should be a .*no output", times=None)
    engine.says(executes(MENDS), to="In egg.py the - should be a +", times=None)
    way = Way(harness=Harness(HARNESS, install.HOME, limit_s=LIMIT_S * crowd()))
    (one,) = await play(client, repo, repo.tasks("train", 1, 0), 1, way=way)
    assert (one.status, one.outcome, one.steps, one.exit_status) == ("solved", 1.0, 2, 0), one
    assert not any(name.startswith("refused") for name in one.checks)  # no file of the agent's own in the checkout
    first, second = await sync_to_async(turns_of)(one.episode)
    assert {tool["function"]["name"] for tool in first.tools} >= {"exec", "read", "write", "edit"}
    assert second.text == "Done."


@pytest.mark.parametrize("window", [TRIMMED], indirect=True)
async def test_summaries_of_a_full_history_are_side_turns_and_where_they_do_not_help_it_was_cut_off(plays, engine):
    """The client counts four letters a token and the model one: what it keeps after a summary is still too long."""
    engine.says(SUMMARY, to="You are a context summarization assistant", times=None)
    engine.says(executes("head -c 3000 /dev/zero | tr '\\0' a"), to="Write the word right", times=None)
    (one,) = await plays(HARNESS, files=install.HOME, limit_s=LIMIT_S * crowd())
    assert (one.status, one.truncated_by, one.counts) == ("truncated", "context", False), one
    turns = await sync_to_async(turns_of)(one.episode)
    # 7.6 thousand tokens, and 3.1 thousand more with each result: the fourth leaves no room in 16.4 thousand
    assert [turn.line for turn in turns[:3]] == [Turn.Line.MAIN] * 3
    summaries = turns[3:]
    assert summaries
    assert {(turn.line, turn.kind) for turn in summaries} == {(Turn.Line.SIDE, "compaction")}
    assert {turn.session_id for turn in summaries} == {turns[0].session_id}

"""Other people's harnesses play a terminal task through the real API: outcome, turns, keys, time, and whose fault."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from asgiref.sync import sync_to_async

from chat.models import Turn
from chat.replying import replies
from environments import command
from environments.client import KEY
from environments.errors import Unplayable
from environments.worlds.harbor.world import Harbor
from environments.worlds.harnesses import visit
from environments.worlds.harnesses.visit import Harness
from environments.worlds.player import Way, play
from environments.worlds.till import Till
from episodes.models import Episode, Group
from tests.environments.worlds.harbor.made import TOML, task, write
from tests.environments.worlds.harbor.test_attempts import STEPS
from tests.environments.worlds.harnesses.conftest import ASK, LOOP, python

pytestmark = [pytest.mark.bubblewrap, pytest.mark.django_db(transaction=True, serialized_rollback=True)]


async def turns_of(played) -> list[Turn]:
    episode = await Episode.objects.aget(pk=played.episode)
    return await sync_to_async(list)(Turn.objects.filter(session=episode.session_id).order_by("position"))


async def test_a_harness_plays_in_the_sandbox_and_its_turns_are_the_episodes(plays, engine):
    engine.says("done", to="Exit code", times=2)
    engine.says("echo right > answer.txt", times=2)
    played = await plays(python(LOOP), attempts=2)
    # 2 replies an attempt: the command, and done
    assert {(one.status, one.outcome, one.steps, one.exit_status) for one in played} == {("solved", 1.0, 2, 0)}
    for one in played:
        turns = await turns_of(one)
        assert [turn.text for turn in turns] == ["echo right > answer.txt", "done"]
        assert turns[0].messages[0]["content"] == "Write the word right to /app/answer.txt."
        assert {turn.line for turn in turns} == {Turn.Line.MAIN}
        assert all(turn.response_ids and len(turn.logprobs) == len(turn.response_ids) for turn in turns)
        tokens = [(len(turn.prompt_ids), len(turn.response_ids)) for turn in turns]
        assert (one.prompt_tokens, one.completion_tokens) == tuple(map(sum, zip(*tokens, strict=True)))
        episode = await Episode.objects.aget(pk=one.episode)
        assert (episode.status, episode.cost["exit_status"], episode.checks) == ("scored", 0, {"share": 1.0})
    assert await sync_to_async(lambda: Group.objects.get().standing().state)() == "complete"


async def test_a_harness_is_told_its_task_its_model_and_its_key_and_never_the_players(
    plays, engine, key, monkeypatch, terminal
):
    monkeypatch.setenv(KEY, key.secret)
    seen = python(
        ASK
        + """
import glob
every = {name: value for name, value in os.environ.items()}
for path in glob.glob("/proc/[0-9]*/environ"):
    try: every[path] = open(path).read()
    except OSError: pass
ask([user("Seen: " + json.dumps(every))])
"""
    )
    (one,) = await plays(seen, limit_s=77.0)
    (turn,) = await turns_of(one)
    said = turn.messages[0]["content"]
    assert key.secret not in said
    for told in (
        '"TALKBACK_TASK": "Write the word right to /app/answer.txt."',
        '"TALKBACK_TASK_FILE": "/dev/shm/task.md"',
        f'"TALKBACK_MODEL": "{one.model}"',
        '"OPENAI_BASE_URL": "http://127.0.0.1:8317/v1"',
        '"TALKBACK_LIMIT_S": "77"',
    ):
        assert told in said
    assert one.status == "failed"


async def test_a_harness_out_of_time_is_killed_with_its_children_and_truncated(plays, engine):
    engine.says("echo right > answer.txt")
    slow = python(LOOP.replace("while True:", "for _ in range(1):") + "\nsubprocess.run(['sleep', '600'])")
    (one,) = await plays(slow, limit_s=3.0)
    # what it left is scored as it stands: 2 * 1 - 1
    assert (one.status, one.truncated_by, one.outcome, one.steps) == ("truncated", "horizon", 1.0, 1)
    assert one.reason.startswith("The harness ran out of its time.")
    assert one.seconds < 60
    assert (await Episode.objects.aget()).cut_by == "horizon"


@pytest.mark.parametrize(
    ("harness", "reason"),
    [
        (
            "no-such-harness",
            "never called the model, and ended with status 127. It said: bash: line 1: no-such-harness",
        ),
        ("echo right > answer.txt", "never called the model, and ended with status 0."),
        ("curl -s -X POST $OPENAI_BASE_URL/chat/completions -d '{'; exit 3", "got no reply from the model, and ended"),
    ],
)
async def test_a_harness_that_got_no_reply_says_nothing_of_the_model(plays, engine, harness, reason):
    (one,) = await plays(harness)
    assert (one.status, one.outcome) == ("infra_error", None)
    assert reason in one.reason
    assert (await Episode.objects.aget()).status == "void"


async def test_a_harness_that_fails_after_it_called_is_scored_and_keeps_its_status(plays, engine):
    (one,) = await plays(python(ASK + "ask([user('Hi')]); raise SystemExit('my own words')"))
    assert (one.status, one.outcome, one.exit_status, one.counts) == ("failed", -1.0, 1, True)
    assert one.reason == "The harness ended with status 1. It said: my own words"
    assert (await Episode.objects.aget()).cost["exit_status"] == 1


async def test_a_harness_that_ends_its_own_sandbox_has_failed(plays, engine):
    (one,) = await plays(python(ASK + "ask([user('Hi')]); os.kill(-1, 9)"))
    assert (one.status, one.outcome) == ("failed", -1.0)


async def test_a_full_window_is_no_failure_of_the_agent(plays, engine):
    long = python(ASK + "ask([user('Hi')])\nask([user('word ' * 9000)])")  # the window holds 8192
    (one,) = await plays(long)
    assert (one.status, one.truncated_by, one.counts) == ("truncated", "context", False)


@pytest.mark.parametrize(("goes_on", "ended"), [("", "truncated"), ("ask([user('Short.')], body=TOOLS)", "failed")])
async def test_a_summary_of_what_was_too_long_does_not_make_it_a_failure_of_the_agent(plays, engine, goes_on, ended):
    summarises = f"""
TOOLS = {{"tools": [{{"type": "function", "function": {{"name": "exec", "parameters": {{"type": "object"}}}}}}]}}
ask([user("Hi")], body=TOOLS)
try:
    ask([user("word " * 9000)], body=TOOLS)
except urllib.error.HTTPError:
    ask([user('Summarise this: "tools": [')])
{goes_on}
"""
    (one,) = await plays(python(ASK + summarises))
    # an agent that went on with the summary had room, and failed by itself
    assert (one.status, one.truncated_by, one.counts) == (ended, "context" * (ended == "truncated"), ended == "failed")


async def test_a_talkback_that_does_not_answer_is_no_failure_of_the_agent(plays, engine, monkeypatch):
    monkeypatch.setattr(replies, "PATIENCE_S", 0.0)
    engine.goes_down()
    (one,) = await plays(python(ASK + "ask([user('Hi')])"))
    assert (one.status, one.reason.startswith("Talkback answered 503.")) == ("infra_error", True)


async def test_steps_of_a_task_are_played_one_after_another(client, engine, tmp_path, terminal):
    toml = TOML + '[[steps]]\nname = "one"\n[[steps]]\nname = "two"\n'
    write(task(tmp_path / "steps" / "train" / "one", toml), STEPS)
    engine.says("echo 1 > a", to="Write 1 to a")
    engine.says("cp given b", to="Copy given to b")
    engine.says("done", times=2)
    world = Harbor(tmp_path / "steps", "bubblewrap")
    (one,) = await play(client, world, world.tasks("train", 1, 0), 1, way=Way(harness=Harness(python(LOOP))))
    assert (one.status, one.steps) == ("solved", 4)


async def test_a_harness_that_is_called_off_dies_at_once(plays, engine):
    engine.hold()
    playing = asyncio.ensure_future(plays(python(ASK + "ask([user('Hi')])"), limit_s=600.0))
    await asyncio.to_thread(engine.holding.wait, 60)
    playing.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asyncio.wait_for(playing, 60)
    assert (await Episode.objects.aget()).ending == "cancelled"


async def test_outside_a_harness_works_on_a_copy_that_comes_back(plays, engine, monkeypatch, key):
    monkeypatch.setenv(KEY, key.secret)
    engine.says("echo right > answer.txt; echo $TALKBACK_KEY > key.txt; pwd > where.txt")
    engine.says("done")
    (one,) = await plays(python(LOOP), is_outside=True)
    assert (one.status, one.steps) == ("solved", 2)
    (again,) = await plays("sleep 600 & sleep 600", night="slow", is_outside=True, limit_s=0.5)
    assert (again.status, "never called the model, and ran out of its time" in again.reason) == ("infra_error", True)


async def test_files_are_seen_and_not_to_be_written(plays, engine, tmp_path):
    files = tmp_path / "mine"
    files.mkdir()
    (files / "loop.py").write_text(LOOP)
    for place in (files, *files.parents):
        if place.owner() == Path.home().owner() and place.is_relative_to("/tmp"):
            place.chmod(0o755)
    engine.says("touch /harness/x || echo right > answer.txt")
    engine.says("done")
    (one,) = await plays("python3 -I /harness/loop.py", files=files)
    assert one.status == "solved"


async def test_a_world_that_needs_calls_of_its_own_tools_refuses(client):
    world = Till()
    with pytest.raises(Unplayable, match="till takes no --harness: its outcome is made of calls of its own tools"):
        await play(client, world, world.tasks("train", 1, 1), 1, way=Way(harness=Harness("true")))


def test_the_command_takes_a_harness(site, key, engine, capsys, monkeypatch, terminal):
    monkeypatch.setenv(KEY, key.secret)
    engine.says("echo right > answer.txt")
    engine.says("done")
    night = ["worlds", "play", "--world", f"harbor:{terminal.folder}", "--groups", "1", "--attempts", "1", "--json"]
    assert command.main([*night, "--url", site, "--harness", python(LOOP)]) == 0
    assert '"status": "solved"' in capsys.readouterr().out
    assert command.main([*night, "--url", site, "--harness", "true", "--harness-files", "/no/where"]) == 1
    assert "there is no such folder" in capsys.readouterr().err


def test_the_forwarders_text_needs_the_standard_library_alone():
    imported = {line.split()[1] for line in visit.FORWARDER.splitlines() if line.startswith("import ")}
    assert imported == {"asyncio", "os", "sys"}

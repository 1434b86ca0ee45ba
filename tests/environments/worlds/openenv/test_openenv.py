"""Attempts at a real small server of OpenEnv's protocol: actions, rewards, ends, and faults. The published server was
not run."""

from __future__ import annotations

import json
import random
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from environments.errors import Unplayable
from environments.worlds.base import Call, Outcome, WorldFailed
from environments.worlds.choosing import open_world
from environments.worlds.openenv.world import OpenEnv
from tests.environments.worlds.openenv.server import CALL, Server, serving

pytest.importorskip("websockets", reason="websockets is not installed: make test-tools brings it")


@pytest.fixture
def server():
    with serving(Server()) as server:
        yield server


def opened(server: Server, name: str = ""):
    world = open_world(f"openenv:{name or server.url}")
    (task,) = world.tasks("train", 1, 1)
    return world.open(task, 0)


def number_of(server: Server) -> int:
    """What the server draws for the seed that it was last given."""
    return random.Random(server.resets[-1]["seed"]).randrange(10)


def act(attempt, **action):
    return attempt.act(Call("1", "act", json.dumps(action)))


def said(folder, server: Server, **more):
    path = folder / "guess.json"
    path.write_text(json.dumps({"url": server.url, **more}))
    return str(path)


def test_an_episode_is_played_by_the_schema_that_the_server_gives(server):
    with opened(server) as attempt:
        (tool,) = attempt.tools
        assert tool["function"]["name"] == "act"
        assert tool["function"]["parameters"]["properties"] == {"value": {"type": "integer"}}  # and no metadata
        assert attempt.opening[1]["content"] == "Guess a number from 0 to 9."
        wrong = act(attempt, value=-1)
        assert (wrong.text, wrong.score, wrong.is_over) == ("Higher.", 0.0, False)
        right = act(attempt, value=number_of(server))
        assert (right.text, right.score, right.is_over) == ("Right.", 1.0, True)
        checks = {"terminated": True, "truncated": False}
        assert attempt.outcome(is_truncated=False) == Outcome("solved", 1.0, checks)
    assert server.closed == 1


def test_an_action_that_the_server_refuses_is_the_agents_step(server):
    with opened(server) as attempt:
        seen = act(attempt, value="three")
        assert seen.text == "Error: Invalid message; ['value']: Input should be a valid integer"
        assert (seen.score, seen.is_over) == (-1.0, False)
        for call in (Call("1", "act", "["), Call("1", "jump", "{}")):
            assert attempt.act(call).score == -1.0
        assert attempt.hear("Three!").score == -1.0
        act(attempt, value=-1)
        # cut off at the horizon with a last reward of 0, in the middle of -1 to 1
        assert attempt.outcome(is_truncated=True).value == 0.0


def test_equal_seeds_begin_alike_and_splits_share_no_seed(server):
    world = OpenEnv(server.url)
    train, again, heldout = (world.tasks(split, 50, 3) for split in ("train", "train", "heldout"))
    assert train == again
    seeds = [{task.data["reset"]["seed"] for task in tasks} for tasks in (train, heldout)]
    assert (len(seeds[0]), len(seeds[1]), seeds[0] & seeds[1]) == (50, 50, set())


@pytest.mark.parametrize(
    ("twist", "ending", "ends"),
    [
        ({"done": True}, "failed", (True, False)),
        ({"done": True, "terminated": False, "truncated": True}, "truncated", (False, True)),
        ({"terminated": True, "truncated": True}, "failed", (True, True)),
        ({"done": True, "observation": {"metadata": {"truncated": True}}}, "truncated", (False, True)),
    ],
)
def test_terminated_and_truncated_stay_apart(server, twist, ending, ends):
    server.twist = lambda answer: answer | {"reward": 0.5} | twist
    with opened(server) as attempt:
        assert act(attempt, value=-1).is_over
        # 0.5 of -1 to 1 stays 0.5
        checks = dict(zip(("terminated", "truncated"), ends, strict=True))
        assert attempt.outcome(is_truncated=False) == Outcome(ending, 0.5, checks)


@pytest.mark.parametrize(
    ("reward", "why"),
    [
        (1.5, r"reward is 1.5, and -1 to 1 was said"),
        (-7, r"reward is -7"),
        (float("nan"), "'nan', which is no finite number"),
        (float("inf"), "'inf', which is no finite number"),
        ("1", "'1', which is no finite number"),
    ],
)
def test_a_reward_that_is_out_of_range_or_no_number_is_a_fault_of_the_world_and_never_clipped(server, reward, why):
    server.twist = lambda answer: answer | {"reward": reward}
    with opened(server) as attempt, pytest.raises(WorldFailed, match=why):
        act(attempt, value=-1)


def test_an_episode_without_any_reward_is_a_fault_of_the_world(server):
    server.twist = lambda answer: answer | {"reward": None, "done": True}
    with opened(server) as attempt:
        assert act(attempt, value=-1).score is None
        with pytest.raises(WorldFailed, match="no reward in the whole episode"):
            attempt.outcome(is_truncated=False)
        assert attempt.outcome(is_truncated=True).value is None


def test_a_file_says_the_range_of_rewards_and_that_they_are_summed(server, tmp_path):
    rewards = {"lowest": 0, "highest": 4, "counts": "sum"}
    name = said(tmp_path, server, rewards=rewards, prompt="Be quick.", horizon=5)
    server.twist = lambda answer: answer | {"reward": 1}
    with opened(server, name) as attempt:
        assert attempt.opening[1]["content"] == "Be quick.\n\nGuess a number from 0 to 9."
        assert [act(attempt, value=-1).score for _ in range(3)] == [0.25] * 3  # 1 of at most 4
        # a sum of 3 in 0 to 4: 2 * 3/4 - 1 = 0.5
        assert attempt.outcome(is_truncated=False).value == 0.5
        act(attempt, value=-1), act(attempt, value=-1)
        with pytest.raises(WorldFailed, match="sum of rewards is 5, and 0 to 4 was said"):
            attempt.outcome(is_truncated=False)


def test_a_files_tasks_are_resets_of_their_split(server, tmp_path):
    tasks = [{"id": "a", "split": "train", "reset": {"seed": 5, "level": 2}}, {"id": "b", "split": "heldout"}]
    name = said(tmp_path, server, tasks=tasks)
    with opened(server, name):
        assert server.resets == [{"seed": 5, "level": 2}]
    world = open_world(f"openenv:{name}")
    assert [task.id for task in world.tasks("heldout", 1, 1)] == ["guess-b"]
    with pytest.raises(Unplayable, match="1 train tasks in its file, and 2 were asked for"):
        world.tasks("train", 2, 1)


def test_an_environment_of_tools_has_those_that_its_mcp_server_lists(server):
    server.schema = CALL
    with opened(server) as attempt:
        (tool,) = attempt.tools
        assert (tool["function"]["name"], tool["function"]["description"]) == ("lift", "Lift so many kilograms.")
        heavy = attempt.act(Call("1", "lift", '{"kilograms": 200}'))
        assert (heavy.score, heavy.is_over, "too heavy" in heavy.text) == (-1.0, False, True)
        seen = attempt.act(Call("1", "lift", '{"kilograms": 50}'))
        assert (seen.text, seen.score, seen.is_over) == ("50 kg lifted", 0.5, True)


def test_an_observation_of_5_mb_is_cut_with_a_note(server):
    server.twist = lambda answer: answer | {"observation": {"text": "a" * 5_000_000}}
    with opened(server) as attempt:
        assert "\n[4,996,000 characters left out]\n" in act(attempt, value=-1).text


def test_a_server_that_does_not_answer_or_answers_nonsense_is_a_fault_of_the_world(server, tmp_path):
    server.twist = lambda answer: None
    with (
        opened(server, said(tmp_path, server, answer_s=0.5)) as attempt,
        pytest.raises(WorldFailed, match=r"did not answer step within 0.5 s"),
    ):
        act(attempt, value=-1)
    server.twist = lambda answer: answer | {"observation": "x" * 17 * 2**20}
    with opened(server) as attempt, pytest.raises(WorldFailed, match="left at step"):
        act(attempt, value=-1)
    server.schema = {"type": "array"}
    with pytest.raises(WorldFailed, match="offers no action"):
        opened(server)
    with pytest.raises(WorldFailed, match="does not answer /schema"):
        opened(Server("http://127.0.0.1:9"))


def test_32_attempts_at_once_wait_for_a_server_with_8_places_and_none_is_lost(server):
    server.places = 8
    world = OpenEnv(server.url)
    tasks = world.tasks("train", 32, 1)
    began = threading.Barrier(32)

    def one(task) -> float | None:
        began.wait(60)
        with world.open(task, 0) as attempt:
            act(attempt, value=random.Random(task.data["reset"]["seed"]).randrange(10))
            return attempt.outcome(is_truncated=False).value

    with ThreadPoolExecutor(32) as pool:
        assert list(pool.map(one, tasks)) == [1.0] * 32
    assert (server.most, server.open) == (8, 0)


@pytest.mark.parametrize(
    ("more", "why"),
    [
        ({"reward": {}}, "it has 'reward', which means nothing"),
        ({"rewards": {"lowest": 1, "highest": 1}}, "rewards.lowest is below rewards.highest"),
        ({"rewards": {"highest": float("inf")}}, "are numbers"),
        ({"url": "localhost:8000"}, "begins with http:// or ws://"),
        ({"tasks": [{"id": "a", "split": "test"}]}, "task 1: split is train or heldout"),
        ({"answer_s": 0}, "answer_s is a number of seconds"),
    ],
)
def test_what_is_wrong_in_a_file_is_said(server, tmp_path, more, why):
    with pytest.raises(Unplayable, match=why):
        open_world(f"openenv:{said(tmp_path, server, **more)}")

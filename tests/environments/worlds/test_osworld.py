"""OSWorld by HTTP, against a host whose answers are recorded: each request must be the one that was recorded next."""

from __future__ import annotations

import json

import httpx
import pytest

from environments.errors import Unplayable
from environments.worlds.base import Call, WorldFailed
from environments.worlds.choosing import open_world
from environments.worlds.osworld import OSWorld

CONFIG = {"id": "mute", "instruction": "Mute the sound.", "config": [], "evaluator": {"func": "exact_match"}}


def seen(tree: str, **more: object) -> dict:
    return {"observation": {"accessibility_tree": tree}, **more}


def recorded(score: object = 1.0) -> list[tuple[str, str, object, object]]:
    return [
        ("POST", "/sessions", {"task": CONFIG}, seen("button Sound", id="a1")),
        ("POST", "/sessions/a1/step", {"action": "pyautogui.press('volumemute')"}, seen("button Sound muted")),
        ("POST", "/sessions/a1/step", {"action": "pyautogui.press('a')"}, seen("button Sound muted")),
        ("POST", "/sessions/a1/step", {"action": "DONE"}, seen("button Sound muted", done=True)),
        ("POST", "/sessions/a1/evaluate", {}, {"score": score}),
        ("DELETE", "/sessions/a1", None, {}),
    ]


@pytest.fixture
def world(tmp_path):
    (tmp_path / "tasks.jsonl").write_text(json.dumps(CONFIG | {"split": "train"}))

    def begin(record: list) -> OSWorld:
        def answer(request: httpx.Request) -> httpx.Response:
            method, path, body, said = record.pop(0)
            assert (request.method, request.url.path) == (method, path)
            assert (json.loads(request.content) if request.content else None) == body
            return httpx.Response(said) if isinstance(said, int) else httpx.Response(200, json=said)

        client = httpx.Client(base_url="http://host.invalid", transport=httpx.MockTransport(answer))
        return OSWorld(f"http://host.invalid#{tmp_path}/tasks.jsonl", client)

    return begin


def act(code: str) -> Call:
    return Call("1", "act", json.dumps({"code": code}))


@pytest.mark.parametrize(
    ("score", "ending", "value"), [(1.0, "solved", 1.0), (0.25, "failed", -0.5), (0, "failed", -1)]
)
def test_a_desktop_is_played_by_four_requests(world, score, ending, value):
    """The outcome is 2p - 1: of 0.25 it is -0.5."""
    record = recorded(score)
    host = world(record)
    (task,) = host.tasks("train", 1, seed=1)
    with host.open(task, 1) as attempt:
        assert attempt.opening[1]["content"] == "Mute the sound.\n\nThe desktop:\nbutton Sound"
        moved = attempt.act(act("pyautogui.press('volumemute')"))
        assert (moved.text, moved.score) == ("The desktop:\nbutton Sound muted", None)
        still = attempt.act(act("pyautogui.press('a')"))
        assert (still.text, still.score) == ("The desktop did not change.", -1.0)
        assert attempt.act(Call("2", "done", "{}")).is_over
        outcome = attempt.outcome(is_truncated=False)
        assert (outcome.ending, outcome.value) == (ending, value)
    assert record == []  # all that was recorded was asked, the end as well


@pytest.mark.parametrize("score", [None, True, 1.5, -1, "1"])
def test_a_score_that_is_none_is_the_hosts_failure(world, score):
    record = [recorded()[0], recorded(score)[4], recorded()[5]]
    host = world(record)
    with host.open(host.read[0], 1) as attempt, pytest.raises(WorldFailed, match="0 to 1 belongs there"):
        attempt.outcome(is_truncated=True)


@pytest.mark.parametrize("said", [503, {"id": "a1"}, {"id": "../b", **seen("")}, []])
def test_a_host_that_fails_is_the_worlds_failure(world, said):
    record = [("POST", "/sessions", {"task": CONFIG}, said), recorded()[5]]
    host = world(record)
    with pytest.raises(WorldFailed):
        host.open(host.read[0], 1)


def test_what_names_no_host_or_no_task_is_refused(tmp_path):
    with pytest.raises(Unplayable, match=r"osworld:http://HOST:PORT#TASKS\.jsonl"):
        open_world("osworld:host")
    (tmp_path / "tasks.jsonl").write_text('{"id": "a"}')
    with pytest.raises(Unplayable, match="needs an id and an instruction"):
        open_world(f"osworld:http://host.invalid#{tmp_path}/tasks.jsonl")

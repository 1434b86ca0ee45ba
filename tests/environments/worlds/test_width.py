"""Fewer at once while Talkback is short of time, and more again when it answers."""

from __future__ import annotations

import asyncio
import random
from collections import Counter

import httpx
import pytest

from environments.client import Client
from environments.errors import Unplayable
from environments.worlds import width as widths
from environments.worlds.base import Task
from environments.worlds.curriculum import LEAST, Kept, choose, weight
from environments.worlds.harness import Sampling
from environments.worlds.played import Played
from environments.worlds.player import Way, play
from environments.worlds.till import Till
from environments.worlds.width import Width
from tests.environments.worlds.conftest import keep_till


@pytest.fixture
def clock(monkeypatch):
    now = [100.0]
    monkeypatch.setattr(widths, "monotonic", lambda: now[0])
    return now


def test_a_burst_of_refusals_halves_once_and_a_later_one_again(clock):
    width = Width(16)
    for _ in range(10):
        width.press(99.0)
    assert width.now == 8
    clock[0] = 101
    width.press(100.5)  # sent since
    assert width.now == 4


def test_answers_in_time_widen_by_one_for_as_many_as_there_are_places(clock):
    width = Width(8)
    width.press(99.0)
    for _ in range(4 + 5):  # 4 places, then 5
        width.answered(100.0)
    assert width.now == 6
    for _ in range(100):
        width.answered(100.0)
    assert width.now == 8


def test_slow_answers_press_as_well(clock):
    width = Width(8)
    clock[0] = 100 + widths.SLOW_S + 1
    width.answered(100.0)
    assert width.now == 4


async def test_who_waits_is_let_in_by_turns_and_who_leaves_holds_no_place():
    width, order = Width(1), []
    room = width.room()
    gate = asyncio.Event()

    async def enter(name: str) -> None:
        async with room:
            order.append(name)
            await gate.wait()

    tasks = [asyncio.ensure_future(enter(name)) for name in "abcd"]
    await asyncio.sleep(0)
    tasks[1].cancel()
    gate.set()
    await asyncio.gather(*tasks, return_exceptions=True)
    assert (order, room.held) == (["a", "c", "d"], 0)


async def test_one_that_is_called_off_as_it_is_let_in_gives_its_place_on():
    width = Width(1)
    room = width.room()
    await room.__aenter__()
    first, second = asyncio.ensure_future(room.__aenter__()), asyncio.ensure_future(room.__aenter__())
    await asyncio.sleep(0)
    await room.__aexit__(None, None, None)
    first.cancel()
    await asyncio.wait_for(second, 5)
    assert room.held == 1


class Limited:
    """A Talkback that answers `rate` requests for a reply a round, and 429 to others, as a key's limit does."""

    def __init__(self, rate: int) -> None:
        self.rate, self.left, self.refused = rate, rate, 0
        self.under_way = self.most_late = self.answered = 0
        self.episodes: dict[str, str] = {}

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(0)
        self.left = self.rate

    async def __call__(self, request: httpx.Request) -> httpx.Response:
        import json

        path, body = request.url.path, json.loads(request.content or b"{}")
        if path.endswith("/models"):
            return httpx.Response(200, json={"data": [{"id": "talkback", "root": "talkback@1"}]})
        if path.endswith("/episodes"):
            return (
                httpx.Response(200, json={"id": f"e{len(self.episodes)}", "key": "k", "model": "talkback@1"})
                if self.episodes.setdefault(f"e{len(self.episodes)}", "playing")
                else None
            )
        if path.endswith("/actions"):
            return httpx.Response(200, json={"first": True})
        if path.endswith("/close"):
            self.episodes[path.split("/")[-2]] = body["status"]
            return httpx.Response(200, json={})
        self.under_way += 1
        if self.answered > 200:
            self.most_late = max(self.most_late, self.under_way)
        await asyncio.sleep(0)
        self.under_way -= 1
        if self.left <= 0:
            self.refused += 1
            return httpx.Response(429, json={"error": {"message": "Slower."}}, headers={"Retry-After": "1"})
        self.left -= 1
        self.answered += 1
        prompt = body["messages"][1]["content"] + "".join(
            f"<tool_response>\n{one['content']}\n</tool_response>" for one in body["messages"] if one["role"] == "tool"
        )
        function = json.loads(keep_till(prompt)[11:-12])
        function["arguments"] = json.dumps(function["arguments"])
        said = {"content": None, "tool_calls": [{"id": "c", "type": "function", "function": function}]}
        choice = {"finish_reason": "tool_calls", "message": said}
        usage = {"prompt_tokens": 9, "completion_tokens": 5}
        return httpx.Response(
            200, json={"id": f"r{self.answered}", "model": "talkback@1", "choices": [choice], "usage": usage}
        )


async def test_a_key_that_may_ask_seldom_is_played_narrowly_to_the_end():
    talkback = Limited(4)
    client = Client("http://t", "k", transport=httpx.MockTransport(talkback), sleep=talkback.sleep)
    width = Width(64)
    async with client:
        world = Till()
        way = Way(sampling=Sampling(max_tokens=64))
        played = await play(client, world, world.tasks("train", 16, 1), 4, way=way, width=width)
    assert {one.status for one in played} == {"solved"}
    assert talkback.answered == 64 * 6
    assert talkback.most_late <= 16  # of 64 that are under way, no more than this ask at once
    assert width.now < 64


def test_weights_of_tasks_fall_where_nothing_is_to_learn_and_never_to_nothing():
    # (1 + 1) / (2 + 2) = 0.5; (8 + 1) / (8 + 2) = 0.9, 4 · 0.9 · 0.1 = 0.36
    assert [weight(2, 1), weight(8, 8), weight(8, 0)] == pytest.approx([1.0, 0.36, 0.36])
    assert weight(1000, 1000) == weight(1000, 0) == LEAST


def test_tasks_that_are_always_or_never_solved_are_drawn_less_often():
    tasks = [Task("till", name, "train") for name in ("always", "never", "some", "new")]
    known = {"always": (80, 80), "never": (80, 0), "some": (80, 40)}
    drawn = Counter(choose(tasks, 1, known, seed)[0].id for seed in range(2000))
    # weights 0.1, 0.1, 1, 1: shares of 2.2 in 2,000 draws, 91 and 909, within 4 deviations of 9.3 and 22
    assert all(abs(drawn[name] - 91) < 38 for name in ("always", "never"))
    assert all(abs(drawn[name] - 909) < 90 for name in ("some", "new"))
    assert {task.id for task in choose(tasks, 4, known, 1)} == {"always", "never", "some", "new"}


def test_what_is_kept_is_whole_at_every_moment_and_what_cannot_be_read_is_said(tmp_path, monkeypatch):
    kept = Kept(tmp_path, Till())
    tasks = kept.tasks("train", 3, 1, "n")
    for status in ("solved", "failed", "infra_error", "before"):
        kept.note(Played("till", tasks[0].id, "train", "g", 0, status))
    again = Kept(tmp_path, Till())
    assert again.counts == {tasks[0].id: (2, 1)}
    assert again.tasks("train", 3, 1, "n") == tasks
    monkeypatch.setattr("os.replace", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
    with pytest.raises(KeyboardInterrupt):  # killed in the middle of writing
        kept.note(Played("till", tasks[0].id, "train", "g", 0, "solved"))
    assert Kept(tmp_path, Till()).counts == {tasks[0].id: (2, 1)}
    (tmp_path / "till.json").write_text("[")
    with pytest.raises(Unplayable, match="move it away"):
        Kept(tmp_path, Till())


def test_a_world_with_few_tasks_is_played_all_the_same(tmp_path):
    class Few(Till):
        def tasks(self, split, count, seed):
            if count > 5:
                raise Unplayable("few")
            return [self.task(split, number) for number in random.Random(seed).sample(range(5), count)]

    assert len(Kept(tmp_path, Few()).tasks("train", 4, 1, "n")) == 4
    with pytest.raises(Unplayable):
        Kept(tmp_path, Few()).tasks("train", 6, 1, "n")

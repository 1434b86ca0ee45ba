"""A player plays till through the real API: what it plays, what it tells, and what it leaves."""

from __future__ import annotations

import asyncio
import threading
from datetime import timedelta

import pytest
from asgiref.sync import sync_to_async
from django.utils import timezone

from chat.models import Turn
from chat.replying import replies
from checkpoints.models import Checkpoint
from environments.client import Refused
from environments.errors import SandboxUnavailable
from environments.worlds import harness, player
from environments.worlds.base import Call, Seen
from environments.worlds.harness import Sampling
from environments.worlds.player import Way, play
from environments.worlds.till import Till, TillAttempt
from environments.worlds.width import Width
from episodes.models import Action, Episode, Group
from gpu_workers.errors import EngineUnavailable
from tests.chat.conftest import until
from tests.environments.worlds.conftest import called, copy_model, keep_till

pytestmark = pytest.mark.django_db(transaction=True, serialized_rollback=True)

WORDS = Sampling(max_tokens=96)


@pytest.fixture
def world():
    return Till()


async def rows(queryset) -> list:
    return await sync_to_async(list)(queryset)


async def test_till_is_played_to_its_outcome_and_every_step_has_its_score(client, world, keeps_till):
    tasks = world.tasks("train", 2, seed=1)
    played = await play(client, world, tasks, 2, way=Way(sampling=WORDS))

    assert [(one.task, one.attempt) for one in played] == [(task.id, number) for task in tasks for number in (0, 1)]
    assert {(one.status, one.outcome, one.steps, one.invalid) for one in played} == {("solved", 1.0, 6, 0)}
    live = str(await sync_to_async(Checkpoint.live)())
    assert {one.group for one in played} == {f"seed-1/till/{live}/{task.id}" for task in tasks}
    for one in await rows(Episode.objects.select_related("group").order_by("pk")):
        told = next(each for each in played if each.episode == str(one.pk))
        turns = await rows(Turn.objects.filter(session=one.session_id).order_by("position"))
        # 3 prices, 2 sums, 1 answer, and each brings it nearer
        assert one.scores == dict.fromkeys([turn.completion_id for turn in turns], 1.0) == dict(told.scores)
        assert (one.status, one.ending, one.outcome) == ("scored", "solved", 1.0)
        assert one.checks == {"right": True, "prices known": 1.0}
        assert (one.cost["steps"], one.cost["completion_tokens"]) == (6, told.completion_tokens)
        assert await one.actions.acount() == 6
        assert {turn.sampling["temperature"] for turn in turns} == {1.0}
        assert turns[0].tools
    states = await sync_to_async(lambda: [group.standing().state for group in Group.objects.all()])()
    assert states == ["complete", "complete"]


async def test_words_run_on_to_the_horizon(client, world, engine):
    (one,) = await play(client, world, world.tasks("train", 1, seed=1), 1, way=Way(sampling=WORDS))
    assert (one.status, one.truncated_by, one.outcome, one.steps, one.invalid) == ("truncated", "horizon", None, 8, 8)
    assert set(one.scores.values()) == {-1.0}
    episode = await Episode.objects.aget()
    assert (episode.ending, episode.cut_by, len(episode.scores)) == ("truncated", "horizon", 8)


@pytest.mark.parametrize("room", [1, 40])
async def test_a_full_window_is_no_failure_of_the_agent(client, world, engine, settings, wide_model, tmp_path, room):
    """No room for a further request, or for a whole reply."""
    engine.otherwise = "No. " * 30  # 96 tokens are drawn of it, and more would be
    (whole,) = await play(client, world, world.tasks("train", 1, seed=1), 1, way=Way(sampling=WORDS))
    turns = await rows(Turn.objects.order_by("position"))
    third = len(turns[2].prompt_ids)
    settings.MODEL = str(copy_model(wide_model, tmp_path / "narrow", third + room - 1))
    way = Way(night="narrow", sampling=WORDS)
    (one,) = await play(client, world, world.tasks("train", 1, seed=1), 1, way=way)
    assert (whole.truncated_by, one.status, one.truncated_by) == ("horizon", "truncated", "context")
    assert one.steps == (2 if room == 1 else 3)
    assert not one.counts


async def test_the_same_seed_draws_alike_and_another_differs(client, world, keeps_till):
    tasks = world.tasks("train", 1, seed=1)
    for night, seed in (("a", 1), ("b", 1), ("c", 2)):
        await play(client, world, tasks, 2, way=Way(seed=seed, night=night, sampling=WORDS))

    async def seeds(night: str) -> list[list[int]]:
        episodes = await rows(Episode.objects.filter(group__name__startswith=f"{night}/").order_by("attempt"))
        return [
            [
                turn.sampling["seed"]
                for turn in await rows(Turn.objects.filter(session=one.session_id).order_by("position"))
            ]
            for one in episodes
        ]

    first = await seeds("a")
    assert first == await seeds("b")
    assert len({seed for each in [*first, *await seeds("c")] for seed in each}) == 6 * 2 * 2  # all others differ


class Broken(Till):
    """Its first attempt at each task cannot be opened, as where no sandbox starts."""

    def __init__(self) -> None:
        super().__init__()
        self.opened: set[str] = set()

    def open(self, task, seed):
        if task.id not in self.opened:
            self.opened.add(task.id)
            raise SandboxUnavailable("No sandbox works on this machine.")
        return super().open(task, seed)


async def test_a_world_that_fails_is_no_failure_of_the_agent(client, keeps_till):
    world = Broken()
    played = await play(client, world, world.tasks("train", 1, seed=1), 3, way=Way(sampling=WORDS), width=Width(1))
    assert [one.status for one in played] == ["infra_error", "solved", "solved"]
    assert (played[0].outcome, played[0].reason) == (None, "No sandbox works on this machine.")
    rows = [(one.status, one.reason) async for one in Episode.objects.order_by("attempt")]
    assert rows == [("void", "No sandbox works on this machine."), ("scored", ""), ("scored", "")]


class Wrong(Till):
    """Raises what no world may."""

    def open(self, task, seed):
        raise KeyError("prices")


async def test_a_bug_of_a_world_ends_the_night_and_leaves_no_episode_open(client, keeps_till):
    with pytest.raises(KeyError):
        await play(client, Wrong(), Wrong().tasks("train", 2, seed=1), 2, way=Way(sampling=WORDS))
    assert {one.status async for one in Episode.objects.all()} == {"void"}


async def test_an_attempt_that_was_begun_is_not_played_again(client, world, keeps_till):
    tasks = world.tasks("train", 1, seed=1)
    way = Way(sampling=WORDS)
    first = await play(client, world, tasks, 2, way=way)
    asked = len(keeps_till.asked("stream"))
    again = await play(client, world, tasks, 2, way=way)
    assert [one.status for one in (*first, *again)] == ["solved", "solved", "before", "before"]
    assert len(keeps_till.asked("stream")) == asked == 12
    assert await Episode.objects.acount() == 2


async def test_an_action_that_was_claimed_before_does_not_happen(client, world, keeps_till, monkeypatch):
    """As where the answer to a claim was lost: it is asked once more, and is the second."""
    acted: list[str] = []
    told = TillAttempt.act
    monkeypatch.setattr(TillAttempt, "act", lambda self, call: (acted.append(call.name), told(self, call))[1])
    claim = client.claim

    async def lost(episode: str, turn: str, call: str) -> bool:
        if len(acted) == 2:
            await claim(episode, turn, call)
        return await claim(episode, turn, call)

    client.claim = lost
    (one,) = await play(client, world, world.tasks("train", 1, seed=1), 1, way=Way(sampling=WORDS))
    assert acted == ["price", "price"]
    assert (one.status, one.outcome) == ("infra_error", None)
    assert await Action.objects.acount() == 3


async def test_all_calls_of_a_reply_happen_in_order_and_share_a_score(client, world, engine):
    task = world.tasks("train", 1, seed=1)[0]
    first, _, third = task.data["prices"]
    engine.says(called("price", item=first) + called("price", item="ship"))
    engine.says(called("answer", value=0) + called("price", item=third))
    (one,) = await play(client, world, [task], 1, way=Way(sampling=Sampling(max_tokens=400)))
    # found, and not on the list: (1 - 1) / 2; a wrong answer ends it, and what follows does not happen
    assert list(one.scores.values()) == [0.0, -1.0]
    assert (one.status, one.outcome, one.steps) == ("failed", -1.0, 2)
    assert await Action.objects.acount() == 3


async def test_calls_that_no_tool_takes_are_counted_by_the_reply(client, world, engine):
    task = world.tasks("train", 1, seed=1)[0]
    for says in (called("steal", item="x"), called("price", what="x"), "Hm.", called("answer", value=1)):
        engine.says(says)
    (one,) = await play(client, world, [task], 1, way=Way(sampling=WORDS))
    assert (one.steps, one.invalid) == (4, 3)


async def test_an_engine_that_is_away_for_a_while_is_waited_for(client, world, keeps_till, monkeypatch):
    monkeypatch.setattr(replies, "PATIENCE_S", 0.0)
    keeps_till.goes_down(EngineUnavailable("It starts."))
    width = Width(2)
    narrowed = asyncio.Event()
    press = width.press
    width.press = lambda sent_at: (press(sent_at), narrowed.set())
    night = asyncio.ensure_future(
        play(client, world, world.tasks("train", 1, seed=1), 2, way=Way(sampling=WORDS), width=width)
    )
    await asyncio.wait_for(narrowed.wait(), 20)
    assert width.now == 1
    keeps_till.comes_back()
    assert [one.status for one in await night] == ["solved", "solved"]


async def test_a_night_that_is_stopped_calls_its_attempts_off(client, world, keeps_till):
    keeps_till.hold()
    ended: list[str] = []
    tasks = world.tasks("train", 2, seed=1)
    night = asyncio.ensure_future(
        play(
            client,
            world,
            tasks,
            2,
            way=Way(sampling=WORDS),
            width=Width(3),
            on_played=lambda one: ended.append(one.status),
        )
    )
    await asyncio.to_thread(keeps_till.holding.wait, 20)
    night.cancel()
    with pytest.raises(asyncio.CancelledError):
        await night
    keeps_till.release()
    episodes = await rows(Episode.objects.all())
    assert {one.ending for one in episodes} == {"cancelled"}
    assert ended == ["cancelled"] * len(episodes)
    # and the next player takes up what was not begun
    keeps_till.otherwise = keep_till
    again = await play(client, world, tasks, 2, way=Way(sampling=WORDS))
    assert [one.status for one in again].count("solved") == 4 - len(episodes)


async def test_an_attempt_that_asks_for_nothing_while_its_world_works_keeps_its_lease(client, keeps_till, monkeypatch):
    monkeypatch.setattr(player, "SIGNS", 6_000)  # of 600 s: every tenth of a second
    works = threading.Event()

    class Slow(Till):
        def open(self, *about):
            works.wait(60)
            return super().open(*about)

    night = asyncio.ensure_future(play(client, Slow(), Slow().tasks("train", 1, seed=1), 1, way=Way(sampling=WORDS)))
    await until(Episode.objects.aexists, "the attempt is open")
    await Episode.objects.aupdate(lease_until=timezone.now() - timedelta(seconds=1))
    await until(lambda: Episode.objects.filter(lease_until__gt=timezone.now()).aexists(), "the lease is renewed")
    works.set()
    (one,) = await night
    assert one.status == "solved"


async def test_an_attempt_whose_world_hangs_is_left_to_its_lease(client, keeps_till, monkeypatch):
    monkeypatch.setattr(player, "SIGNS", 6_000)  # of 600 s: every tenth of a second
    monkeypatch.setattr(harness, "LONGEST_CALL_S", 0.0)
    goes_on, is_left, stay_alive = threading.Event(), asyncio.Event(), player._Night._stay_alive

    async def note(*about) -> None:
        await stay_alive(*about)
        is_left.set()

    monkeypatch.setattr(player._Night, "_stay_alive", note)

    class Hangs(Till):
        def open(self, *about):
            goes_on.wait(60)
            return super().open(*about)

    night = asyncio.ensure_future(play(client, Hangs(), Hangs().tasks("train", 1, seed=1), 1, way=Way(sampling=WORDS)))
    await asyncio.wait_for(is_left.wait(), 60)
    goes_on.set()
    (one,) = await night
    assert one.status == "solved"  # it came back before its lease was over


async def test_an_episode_that_talkback_ended_is_left_as_it_says(client, world, keeps_till):
    claim = client.claim

    async def lapsed(*action: str) -> bool:
        await Episode.objects.aupdate(status="void", ending="infra_error", reason="Its player gave no sign of life.")
        return await claim(*action)

    client.claim = lapsed
    (one,) = await play(client, world, world.tasks("train", 1, seed=1), 1, way=Way(sampling=WORDS))
    assert (one.status, one.outcome) == ("left", None)
    assert "gave no sign of life" in one.reason


async def test_who_is_to_play_must_be_one_that_may(client, world, keeps_till):
    with pytest.raises(Refused, match="There is no model 'talkback@9' here"):
        await play(client, world, world.tasks("train", 1, seed=1), 1, way=Way(model="talkback@9"))
    assert not await Episode.objects.aexists()


async def test_a_key_without_the_scope_is_told_so_at_once(client, world, keeps_till, key):
    key.scopes = ["chat"]
    await key.asave()
    with pytest.raises(Refused, match="episodes"):
        await play(client, world, world.tasks("train", 2, seed=1), 4, way=Way(sampling=WORDS))
    assert not await Episode.objects.aexists()


async def test_the_world_of_an_attempt_is_asked_in_one_thread_and_closed_once(client, keeps_till):
    import threading

    seen: dict[int, set[str]] = {}
    closed: list[int] = []

    class Threaded(TillAttempt):
        def act(self, call: Call) -> Seen:
            seen.setdefault(id(self), set()).add(threading.current_thread().name)
            return super().act(call)

        def close(self) -> None:
            closed.append(id(self))
            seen[id(self)].add(threading.current_thread().name)

    class World(Till):
        def open(self, task, seed: int) -> TillAttempt:
            return Threaded(task.data["prices"])

    played = await play(client, World(), World().tasks("train", 1, seed=1), 3, way=Way(sampling=WORDS))
    assert [one.status for one in played] == ["solved"] * 3
    assert [len(threads) for threads in seen.values()] == [1, 1, 1]
    assert sorted(closed) == sorted(seen)


def test_names_of_groups_stay_within_what_talkback_takes():
    from environments.worlds.player import group_name

    long = [group_name("seed-1", "till", "talkback@1", "x" * 300 + end) for end in "ab"]
    assert {len(one) for one in long} == {200}
    assert long[0] != long[1]

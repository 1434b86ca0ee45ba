"""A player is asked by the gate, and plays: the real player, the real API, and a scripted engine."""

from __future__ import annotations

from dataclasses import replace

import pytest
from asgiref.sync import sync_to_async
from django.contrib.auth import get_user_model

from checkpoints.models import Checkpoint
from environments import command
from environments.client import Client
from environments.errors import Unplayable
from environments.worlds.drawing import draw
from environments.worlds.exam import list_open, play_exam
from environments.worlds.harness import Sampling
from environments.worlds.till import Till, TillAttempt
from episodes import exams
from episodes.models import Episode, Exam
from gate import agent_part

pytestmark = pytest.mark.django_db(transaction=True, serialized_rollback=True)

HERE = "tests.environments.worlds.test_exam"


class Quiet(Till):
    """Till, that says nothing of single steps, and has five held-out tasks."""

    def tasks(self, split, count, seed):
        if split == "heldout" and count > 5:
            raise Unplayable("There are 5.")
        return super().tasks(split, count, seed)

    def open(self, task, seed):
        return QuietAttempt(task.data["prices"])


class QuietAttempt(TillAttempt):
    def act(self, call):
        return replace(super().act(call), score=None)


@pytest.fixture
def candidate(db):
    return Checkpoint.objects.create(
        number=1, adapter="talkback-1-aaaaaaaa", path="checkpoints/1", parent=Checkpoint.live()
    )


@pytest.fixture
def ask(candidate, ana):
    def ask(tasks=3, person=ana, world="till"):
        return exams.ask(candidate, Checkpoint.live(), person.pk, world, tasks=tasks, attempts=2, seed=1001)

    return ask


@pytest.fixture
def play(site, key, capsys):
    """The command, in a thread of its own as in a process."""

    async def play(*more):
        at = ["worlds", "exam", "--url", site, "--key", key.secret, "--max-tokens", "96", *more]
        status = await sync_to_async(command.main, thread_sensitive=False)(at)
        said = capsys.readouterr()
        return status, said.out, said.err

    return play


async def test_both_play_the_same_tasks_with_the_same_seeds_once(client, keeps_till, ask):
    row = await sync_to_async(ask)()
    (asked,) = await list_open(client)

    played = await play_exam(client, Quiet(), asked, sampling=Sampling(max_tokens=96))

    assert list(played) == ["talkback@1", "talkback@0"]
    # 2 models × 3 tasks × 2 attempts; each takes 3 prices, 2 sums and the answer.
    assert {(one.status, one.steps) for each in played.values() for one in each} == {("solved", 6)}
    assert await Episode.objects.acount() == 12
    calls = keeps_till.asked("stream")
    first, second = (
        {(call.prompt, call.sampling.seed) for call in calls if call.adapter == adapter}
        for adapter in ("talkback-1-aaaaaaaa", None)
    )
    assert len(first) == 36  # 3 tasks × 2 attempts × 6 steps, each with a seed of its own
    assert first == second
    assert await sync_to_async(agent_part.is_played)(row)
    again = await play_exam(client, Quiet(), asked, sampling=Sampling(max_tokens=96))
    assert {one.status for each in again.values() for one in each} == {"before"}
    assert await Episode.objects.acount() == 12


async def test_of_a_world_with_fewer_tasks_all_are_played_and_the_exam_is_closed(client, keeps_till, ask):
    await sync_to_async(ask)(tasks=9)
    (asked,) = await list_open(client)
    await play_exam(client, Quiet(), asked, sampling=Sampling(max_tokens=96))
    assert await Episode.objects.acount() == 20  # 2 models × 5 tasks × 2
    row = await Exam.objects.aget()
    assert (row.ended_at is not None, row.reason) == (True, "till has 5 held-out tasks, and 9 were asked for.")


@pytest.mark.parametrize(("there", "count"), [(5, 48), (1, 48), (47, 48), (48, 48), (1, 1)])
def test_as_many_tasks_are_drawn_as_there_are(monkeypatch, there, count):
    def tasks(self, split, number, seed):
        if number > there:
            raise Unplayable(f"There are {there}.")
        return list(range(number))

    monkeypatch.setattr(Quiet, "tasks", tasks)
    assert len(draw(Quiet(), "heldout", count, 1)) == min(there, count)


def test_a_world_without_a_held_out_task_says_so(monkeypatch):
    def none(self, split, number, seed):
        raise Unplayable("There is no held-out task.")

    monkeypatch.setattr(Quiet, "tasks", none)
    for count in (1, 9):
        with pytest.raises(Unplayable, match="no held-out task"):
            draw(Quiet(), "heldout", count, 1)


async def test_the_command_plays_what_is_asked_in_worlds_that_it_has(play, keeps_till, ask, ben):
    assert (await play())[2] == "The gate asks for nothing now.\n"
    await sync_to_async(ask)()
    await sync_to_async(ask)(world="chess")
    await sync_to_async(ask)(person=ben)
    exam = await Exam.objects.aget(world="till", user__username="ana")

    status, out, err = await play("--world", f"{HERE}:Quiet", "--parallel", "4")

    assert status == 0
    assert err.count("talkback@1\n") == err.count("talkback@0\n") == 1
    assert f"exam {exam.pk}: talkback@1 and talkback@0 in till" in err
    assert "in chess is left to another player: --world names till alone." in err
    assert out.splitlines()[-1].split()[:2] == ["all", "12"]  # 2 models × 3 tasks × 2 attempts
    assert {one.group.world async for one in Episode.objects.select_related("group")} == {"till"}
    user = await sync_to_async(get_user_model().objects.get)(username="ana")
    assert {one.group.user_id async for one in Episode.objects.select_related("group")} == {user.pk}


async def test_an_exam_in_a_world_that_is_not_here_is_left_to_another_player(play, keeps_till, ask):
    await sync_to_async(ask)(world="chess")
    status, _, err = await play()
    assert status == 0
    assert "in chess is left to another player: There is no world 'chess'" in err
    assert (await Exam.objects.aget()).ended_at is None


async def test_an_exam_that_ends_meanwhile_stops_no_player(play, keeps_till, ask, monkeypatch):
    row = await sync_to_async(ask)()
    listed = Client.exams

    async def list_and_end(self):
        found = await listed(self)
        await sync_to_async(exams.end)(row, "talkback@1 is approved by now.")
        return found

    monkeypatch.setattr(Client, "exams", list_and_end)
    status, _, err = await play("--world", f"{HERE}:Quiet")
    assert status == 0
    assert "talkback@1 is approved by now." in err

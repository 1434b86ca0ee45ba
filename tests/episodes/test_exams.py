"""The gate asks a person's players to play held-out tasks: what they may play, with which weights, and for how long."""

from __future__ import annotations

import pytest
from asgiref.sync import sync_to_async

from chat.api_keys import ApiKey
from chat.models import Turn
from checkpoints.models import Checkpoint
from episodes import exams
from episodes.models import Episode, Exam, Group
from tests.episodes.answers import SOLVED, code
from tests.episodes.conftest import HI, issued

pytestmark = pytest.mark.django_db(transaction=True, serialized_rollback=True)


@pytest.fixture
def candidate(db):
    return Checkpoint.objects.create(
        number=1, adapter="talkback-1-aaaaaaaa", path="checkpoints/1", parent=Checkpoint.live()
    )


@pytest.fixture
def exam(candidate, ana) -> Exam:
    return exams.ask(candidate, Checkpoint.live(), ana.pk, "till", tasks=12, attempts=4, seed=1001)


@pytest.fixture
def of_exam(exam):
    """The body that begins an attempt of this exam, by the candidate."""
    return {
        "world": "till", "task": "heldout-3-17", "split": "heldout", "group": f"exam-{exam.pk}/1/0", "attempt": 0,
        "attempts": 4, "model": "talkback@1",
    }  # fmt: skip


async def test_a_player_is_told_what_to_play_and_the_candidate_answers_it(ask, exam, of_exam, engine):
    status, listed = await ask("episodes/exams", method="get")
    assert status == 200
    assert listed["data"] == [
        {
            "object": "episode.exam", "id": exam.pk, "world": "till", "split": "heldout", "tasks": 12, "attempts": 4,
            "seed": 1001, "models": ["talkback@1", "talkback@0"], "groups": f"exam-{exam.pk}/", "state": "open",
            "reason": None, "created": int(exam.created_at.timestamp()),
        }
    ]  # fmt: skip
    status, episode = await ask("episodes", of_exam)
    assert (status, episode["model"]) == (200, "talkback@1")
    for model in ("talkback", "talkback@1"):
        body = {"messages": HI, "max_tokens": 4, "model": model}
        status, answer = await ask("chat/completions", body, secret=episode["key"])
        assert (status, answer["model"]) == (200, "talkback@1")
    assert {turn.checkpoint_id async for turn in Turn.objects.all()} == {exam.candidate_id}
    assert {call.adapter for call in engine.asked("stream")} == {"talkback-1-aaaaaaaa"}
    assert (await ask(f"episodes/{episode['id']}/close", SOLVED))[0] == 200


async def test_live_plays_the_same_task_in_a_group_of_its_own(ask, exam, of_exam):
    await ask("episodes", of_exam)
    other = of_exam | {"group": f"exam-{exam.pk}/0/0", "model": "talkback@0"}
    assert (await ask("episodes", other))[1]["model"] == "talkback@0"
    assert code(await ask("episodes", other | {"attempt": 1, "model": "talkback@1"})) == (409, "group_differs")


async def test_another_persons_key_neither_sees_an_exam_nor_plays_its_candidate(ask, exam, of_exam, ben):
    secret = (await issued(ben)).secret
    assert (await ask("episodes/exams", method="get", secret=secret))[1]["data"] == []
    assert code(await ask("episodes", of_exam, secret=secret)) == (404, "exam_not_found")
    assert code(await ask("episodes", of_exam | {"group": "mine"}, secret=secret)) == (404, "model_not_found")
    assert code(await ask(f"episodes/exams/{exam.pk}/close", {}, secret=secret)) == (404, "exam_not_found")
    chat = {"messages": HI, "model": "talkback@1"}
    assert code(await ask("chat/completions", chat, secret=secret)) == (404, "model_not_found")
    assert not await Episode.objects.aexists()


async def test_its_owner_plays_a_candidate_in_its_exam_alone_and_with_the_scope_alone(ask, exam, of_exam, ana):
    assert code(await ask("episodes", of_exam | {"group": "mine"})) == (404, "model_not_found")
    assert code(await ask("chat/completions", {"messages": HI, "model": "talkback@1"})) == (404, "model_not_found")
    chats = await issued(ana, scopes=["chat"])
    assert code(await ask("episodes", of_exam, secret=chats.secret)) == (403, "insufficient_scope")
    assert code(await ask("episodes/exams", method="get", secret=chats.secret)) == (403, "insufficient_scope")
    live = await sync_to_async(Checkpoint.live)()
    pinned = await issued(ana, checkpoint=live)
    assert code(await ask("episodes", of_exam, secret=pinned.secret)) == (404, "model_not_found")


@pytest.mark.parametrize(
    ("differs", "param"),
    [
        ({"world": "shell"}, "world"),
        ({"split": "train"}, "split"),
        ({"attempts": 8}, "attempts"),
        ({"model": "talkback@7"}, "model"),
        ({"model": ""}, "model"),
    ],
)
async def test_what_an_exam_does_not_ask_for_is_refused(ask, of_exam, differs, param):
    answer = await ask("episodes", of_exam | differs)
    assert code(answer) == (409, "exam_differs")
    assert answer[1]["error"]["param"] == param
    assert not await Group.objects.aexists()


async def test_a_player_ends_an_exam_once_and_nothing_more_is_played(ask, exam, of_exam):
    path = f"episodes/exams/{exam.pk}/close"
    _, ended = await ask(path, {"reason": "The world has 5 held-out tasks."})
    assert (ended["state"], ended["reason"]) == ("over", "The world has 5 held-out tasks.")
    assert await ask(path, {"reason": "Another."}) == (200, ended)
    assert (await ask("episodes/exams", method="get"))[1]["data"] == []
    answer = await ask("episodes", of_exam)
    assert code(answer) == (409, "exam_over")
    assert "The world has 5 held-out tasks." in answer[1]["error"]["message"]


async def test_any_group_may_name_who_plays_it(ask, candidate):
    def retire():
        live = Checkpoint.live()
        Checkpoint.objects.filter(pk=candidate.pk).update(status="approved")
        Checkpoint.objects.get(pk=candidate.pk).go_live()
        return live

    await sync_to_async(retire)()
    body = {"world": "till", "task": "t", "split": "train", "group": "g", "attempt": 0, "model": "talkback@0"}
    assert (await ask("episodes", body))[1]["model"] == "talkback@0"  # retired, and may be asked for by number
    assert (await ask("episodes", body | {"group": "h", "model": ""}))[1]["model"] == "talkback@1"
    assert code(await ask("episodes", body | {"attempt": 1, "model": "talkback"})) == (409, "group_differs")
    assert code(await ask("episodes", body | {"group": "i", "model": "other@1"})) == (404, "model_not_found")


async def test_an_exams_turns_teach_nothing(ask, of_exam):
    await ask("episodes", of_exam)
    key = await ApiKey.objects.filter(parent__isnull=False).aget()
    assert not key.learns

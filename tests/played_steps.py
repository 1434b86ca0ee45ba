"""Attempts at a task, as they were played, and how their steps are judged."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.utils import timezone

from chat.models import Session, Turn
from checkpoints.models import Checkpoint
from episodes.attempts import Result, end
from episodes.models import Episode, Group
from judge import steps, steps_worth
from judge.votes import judges
from training.config import Recipe
from training.models import Sample

PLAIN = {"temperature": 1.0, "top_p": 1.0, "top_k": -1}


@pytest.fixture
def no_worker(monkeypatch):
    steps_worth.forget()
    monkeypatch.setattr("celery.Task.apply_async", lambda task, arguments=(), **options: None)


@pytest.fixture
def group(person) -> Group:
    return Group.objects.create(
        user=person, name="g", world="till", task="sum", split="train", attempts=2, checkpoint=Checkpoint.live()
    )


@pytest.fixture
def play(person, group, renderer, no_worker):
    """One attempt of so many steps; the last has no next state. Not ended yet. `fields` are each turn's own."""

    def play(number=3, *, into=None, came_back="pears cost 3", attempt=None, **fields) -> Episode:
        into = into or group
        session = Session.objects.create(user=person, learns=into.split == "train")
        messages = [{"role": "user", "content": f"What do three pears cost, try {into.episodes.count()}?"}]
        for position in range(number):
            reply = f"calls look, step {position}"
            ids = [*renderer.encode(reply), 2]
            is_last = position == number - 1
            back = [] if is_last else [{"role": "tool", "content": came_back}]
            said = {
                "status": "served" if is_last or not session.learns else "observed",
                "learns": session.learns,
                "finish_reason": "tool_calls",
                "sampling": PLAIN,
                "logprobs": [-0.25] * len(ids),
            } | fields
            Turn.objects.create(
                session=session,
                position=position,
                checkpoint=Checkpoint.live(),
                messages=list(messages),
                prompt_ids=renderer.prompt_ids(messages),
                response_ids=ids,
                text=reply,
                next_state=back,
                **said,
            )
            messages += [{"role": "assistant", "content": reply}, *back]
        return Episode.objects.create(
            group=into,
            attempt=into.episodes.count() if attempt is None else attempt,
            session=session,
            lease_s=600,
            lease_until=timezone.now() + timedelta(hours=1),
        )

    return play


def stop(episode, ending="solved", outcome=1.0, **fields) -> None:
    end(episode, Result(ending, outcome, **fields))


@pytest.fixture
def judge_all(engine, renderer):
    def judge_all(episode, recipe=None) -> bool:
        return steps.judge(episode.pk, who=judges.judge(), engine=engine, renderer=renderer, recipe=recipe or Recipe())

    return judge_all


def turns_of(episode) -> list[Turn]:
    return list(Turn.objects.filter(session=episode.session_id).order_by("position"))


def samples_of(episode) -> list[Sample]:
    return list(Sample.objects.filter(episode=episode).exclude(status="stale").order_by("step"))

"""The cast of the console: an operator, a talker, and rows at every stop of the loop."""

from __future__ import annotations

import io
import logging
import re
import time
from datetime import timedelta
from typing import Any

import pytest
import redis
from django.contrib.auth import get_user_model
from django.urls import reverse
from django.utils import timezone

from chat.models import Session, Turn
from checkpoints.models import Checkpoint
from gate.models import Examination
from judge.models import Judgement, Vote
from tests.rows import made_by
from training import config
from training.models import Run, Sample
from webapp import health, heartbeats, logs

PROMPT, RESPONSE = [5, 6, 7], [8, 9, 2]


def text_of(response) -> str:
    """A page's markup on one line, so that a claim about a sentence need not know where the template breaks it."""
    return " ".join(response.content.decode().split())


def unfolded(client, number: int, **asked: Any) -> str:
    """A checkpoint's page on one line, in each of its folds what a browser fetches once it is opened."""
    page = text_of(client.get(reverse("console:checkpoint", args=[number]), **asked))
    headers = {"HX-Request": "true", **asked.pop("headers", {})}
    for later in re.findall(r'<p hx-get="[^"]+" hx-trigger="toggle once from:closest details".*?</p>', page):
        part = text_of(client.get(later.split('"')[1], headers=headers, **asked))
        page = page.replace(later, part)
    return page


@pytest.fixture
def operator(db):
    return get_user_model().objects.create_user("ana", is_staff=True)


@pytest.fixture
def talker(db):
    return get_user_model().objects.create_user("ben")


@pytest.fixture
def console(client, operator):
    """The operator's browser."""
    client.force_login(operator)
    return client


class Heartbeats:
    """Redis, as far as heartbeats go: both workers have just been heard, until a test says otherwise."""

    def __init__(self) -> None:
        self.away = self.is_full = False
        self.looks = 0
        self.spoken = {f"talkback:alive:{queue}": time.time() for queue in heartbeats.QUEUES}

    def silent(self, queue, seconds):
        self.spoken[f"talkback:alive:{queue}"] = time.time() - seconds

    def never_heard(self, queue):
        del self.spoken[f"talkback:alive:{queue}"]

    def mset(self, values):
        self.answer()
        self.spoken.update(values)

    def mget(self, names):
        self.answer()
        return [self.spoken.get(name) for name in names]

    def set(self, name, value, ex):
        if self.is_full:
            raise redis.ResponseError("MISCONF Redis is configured to save RDB snapshots, but it's unable to. Errors.")

    def answer(self):
        self.looks += 1
        if self.away:
            raise redis.ConnectionError("refused")


@pytest.fixture(autouse=True)
def workers(monkeypatch):
    """Who is alive."""
    workers = Heartbeats()
    monkeypatch.setattr(heartbeats, "_redis", lambda url: workers)
    return workers


@pytest.fixture(autouse=True)
def unheard(monkeypatch):
    """What an earlier test heard of its engine is not known here."""
    monkeypatch.setattr(health, "_heard", (-health.KNOWN_S, True))


class Logged:
    """The log as it is written: through the handler of the settings."""

    def __init__(self) -> None:
        self.stream = io.StringIO()

    @property
    def text(self) -> str:
        return self.stream.getvalue()

    def of(self, logger: str) -> list[str]:
        return [line for line in self.text.splitlines() if f" {logger} " in line]


@pytest.fixture
def logged(monkeypatch):
    logged = Logged()
    handler = next(one for one in logging.getLogger().handlers if isinstance(one.formatter, logs.Line))
    monkeypatch.setattr(handler, "stream", logged.stream)
    return logged


@pytest.fixture
def make_turn(talker):
    def make_turn(status="served", text="Paris, of course.", **fields):
        session = Session.objects.create(user=talker)
        said = [{"role": "user", "content": "What is the capital of France?"}]
        fields = {"checkpoint": Checkpoint.live(), "messages": said, "finish_reason": "stop"} | fields
        return Turn.objects.create(
            session=session, position=0, status=status, text=text, response_ids=RESPONSE, **fields
        )

    return make_turn


@pytest.fixture
def make_lesson(make_turn):
    """A judged turn with its sample: three votes, one of them failed, and a person's hint."""

    def make_lesson(status="ready", *, run=None, hint="Say it in one word."):
        turn = make_turn("judged")
        sample = Sample.objects.create(
            status=status,
            run=run,
            checkpoint=turn.checkpoint,
            prompt_ids=PROMPT,
            response_ids=RESPONSE,
            behaviour_logprobs=[-1.0, -1.0, -1.0],
            teacher_prompt_ids=[*PROMPT, 11],
            reward=-1.0,
        )
        for index, score in enumerate((-1, -1, None)):
            failure = "" if score else "unreadable: no score in the reply"
            Vote.objects.create(
                turn=turn, question="score", index=index, judge="j", prompt_version="1", raw=f"raw {index}",
                score=score, failure=failure,
            )  # fmt: skip
        return Judgement.objects.create(
            turn=turn,
            reward=-1,
            reward_from="votes",
            confidence=1.0,
            hint=hint,
            hint_from="guidance",
            teacher={
                "tokens": ["Paris", ",", " of course."],
                "old_logprobs": [-1.0, -1.0, -1.0],
                "logprobs": [-0.2, -1.05, -4.0],
            },
            sample=sample,
            evidence="the evidence",
        )

    return make_lesson


@pytest.fixture
def make_run(db):
    def make_run(status="finished", **fields):
        fields = {"recipe": config.PRESETS["combined"].model_dump(), "parent": Checkpoint.live(), **fields}
        return Run.objects.create(status=status, **fields)

    return make_run


@pytest.fixture
def make_checkpoint(engine, make_run):
    """A checkpoint with its run, and an examination unless it is still to come; the engine answers for it truly."""

    def make_checkpoint(number, status="passed", **fields):
        adapter = f"talkback-{number}-{number:08x}"
        run = make_run(metrics=[{"loss": 0.5, "kl": 0.01}, {"loss": 0.4, "kl": 0.02}], finished_at=timezone.now())
        checkpoint = made_by(
            run,
            Checkpoint.objects.create(
                number=number,
                status=status,
                parent=Checkpoint.live(),
                adapter=adapter,
                path=f"checkpoints/{number}",
                probe=engine.probe(adapter),
                moved_at=timezone.now() - timedelta(minutes=3),
                **fields,
            ),
        )
        if status != "candidate":
            pair = {"prompt": "Why is the sky blue?", "live": "It is blue, you see.", "candidate": "It is blue."}
            check = {"name": "length", "passed": True, "value": 12.0, "limit": 8.0, "sentence": "Long enough."}
            Examination.objects.create(
                checkpoint=checkpoint,
                against=Checkpoint.live(),
                pairs=[pair | {"live_tokens": 7, "candidate_tokens": 4}],
                checks=[check],
                passed=True,
                finished_at=timezone.now(),
            )
        return checkpoint

    return make_checkpoint

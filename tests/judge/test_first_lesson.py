"""README's first lesson, twelve questions with one wish, in one chat and in twelve: each of them teaches."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import repeat
from pathlib import Path

import pytest
from asgiref.sync import async_to_sync, sync_to_async
from django.urls import reverse

from chat.models import Session, Turn
from chat.rendering.renderer import Renderer
from chat.replying import replies
from feedback.models import Feedback
from gpu_workers import engines
from gpu_workers.engine.engine_client import EngineClient
from gpu_workers.engine.interface import Engine
from gpu_workers.servers.processes import ONE_THREAD, EngineProcess, embedded_command
from gpu_workers.types import Sampling
from installation.diagnosis import free_port
from judge import verdicts
from judge.models import Judgement
from judge.samples.sample_rows import Reason
from judge.votes import judges
from tests.chat.conftest import ask_in
from training.config import Recipe
from training.models import Sample

pytestmark = pytest.mark.django_db(transaction=True, serialized_rollback=True)

WISH = "Answer in one or two short sentences."
QUESTIONS = (
    "Why is the sky blue?",
    "How do magnets work?",
    "What is a glacier?",
    "Why do cats purr?",
    "How is paper made?",
    "What causes thunder?",
    "Why do leaves change colour?",
    "How does a bicycle stay up?",
    "What is yeast?",
    "Why is sea water salty?",
    "How do bees make honey?",
    "What is a rainbow?",
)
MOST_TOKENS = 48
"""So few that nearly every reply of the real model is cut, as 5 of 12 were at the page's own limit."""


@pytest.fixture(scope="module")
def smol_engine(smol_model: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    """The real embedded engine with the real small model."""
    port = free_port()
    log = tmp_path_factory.mktemp("engine") / "engine.log"
    keys = {"ENGINE_API_KEY": "key", "ENGINE_ADMIN_KEY": "admin"}
    command = embedded_command(str(smol_model), port)
    with EngineProcess(command, f"http://127.0.0.1:{port}", log, environment={**ONE_THREAD, **keys}) as process:
        yield EngineClient(process.url, api_key="key", admin_key="admin", timeout_s=120)


@pytest.fixture(params=["one chat", "twelve chats"])
def chats(request, transactional_db, person) -> Iterator[Session]:
    """A chat for each question: always the same one, or each time another."""

    def new() -> Session:
        return Session.objects.create(user=person)

    return repeat(new()) if request.param == "one chat" else iter(new, None)


async def answered(session: Session, question: str, engine: Engine) -> Turn:
    """One question of a chat, and its reply as the row keeps it."""
    before = await session.turns.order_by("-position").afirst()
    said = [*before.messages, {"role": "assistant", "content": before.text}] if before is not None else []
    messages = [*said, {"role": "user", "content": question}]
    sampling = Sampling(max_new_tokens=MOST_TOKENS, temperature=0.7, seed=3)
    turn = await sync_to_async(ask_in)(session, messages, follows=before, sampling=sampling)
    async for _ in replies.reply(turn, engine):
        pass
    await engine.aclose()
    return await Turn.objects.select_related("session", "checkpoint").aget(pk=turn.pk)


def learned(client, chats: Iterator[Session], engine: Engine, renderer: Renderer) -> list[Turn]:
    """Play the lesson: ask, say the wish on the page, judge. Returns the turns."""
    asked = []
    for question in QUESTIONS:
        turn = async_to_sync(answered)(next(chats), question, engine)
        said = client.post(reverse("feedback:give", args=[turn.pk]), {"kind": "guidance", "text": WISH})
        assert said.status_code in (200, 302)
        asked.append(turn)
    for turn in asked:
        verdicts.judge(str(turn.pk), who=judges.judge(), engine=engine, renderer=renderer, recipe=Recipe())
    return asked


def taught(asked: list[Turn]) -> int:
    """How many of these turns became a sample with the wish as its hint; of those that were cut, without a reward."""
    for turn in asked:
        judgement = Judgement.objects.select_related("sample").get(turn=turn)
        assert judgement.hint == WISH
        assert judgement.sample is not None, judgement.reason
        assert judgement.reason != Reason.TRUNCATED
        sample = judgement.sample
        assert (sample.has_teacher, sample.reward, sample.response_ids) == (True, 0, turn.response_ids)
    return Sample.objects.filter(status=Sample.Status.READY).count()


def test_each_of_twelve_cut_replies_teaches_its_wish(client, person, chats, engine, renderer):
    client.force_login(person)
    engine.says("There is more to say of this than fits. " * 12, times=None)
    asked = learned(client, chats, engine, renderer)
    assert {turn.finish_reason for turn in asked} == {"length"}
    assert taught(asked) == 12


@pytest.mark.real_model
@pytest.mark.processes
@pytest.mark.timeout(900)
def test_the_first_lesson_teaches_twelve_of_twelve_on_the_real_model(
    client, person, chats, smol_engine, smol_model, settings, monkeypatch
):
    settings.MODEL = str(smol_model)
    monkeypatch.setattr(engines, "policy", lambda: smol_engine)
    client.force_login(person)
    asked = learned(client, chats, smol_engine, Renderer.for_model(smol_model))
    assert sum(turn.is_cut for turn in asked) >= 5  # as many as taught nothing once
    assert taught(asked) == 12
    assert Feedback.objects.standing().filter(text=WISH).count() == 12

"""The official client against a live server: what it must be pleased with, it is."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import openai
import pytest

from chat.models import Turn
from feedback.models import Feedback

pytestmark = pytest.mark.django_db(transaction=True, serialized_rollback=True)


@pytest.fixture
def client(site, key) -> Iterator[openai.OpenAI]:
    with openai.OpenAI(base_url=f"{site}/v1", api_key=key.secret, max_retries=0, timeout=20) as client:
        yield client


HI = [{"role": "user", "content": "Say hello"}]


def test_plain(client, engine):
    engine.says("Hello, captain.")
    answer = client.chat.completions.create(model="talkback", messages=HI)
    assert answer.choices[0].message.content == "Hello, captain."
    assert answer.choices[0].finish_reason == "stop"
    assert answer.model == "talkback@0"
    assert answer.usage.total_tokens == answer.usage.prompt_tokens + answer.usage.completion_tokens


def test_streaming_comes_token_by_token(client, engine):
    engine.says("Hello, captain.")
    engine.hold(after=3)
    options = {"include_usage": True}
    stream = client.chat.completions.create(model="talkback", messages=HI, stream=True, stream_options=options)
    texts = []
    for chunk in stream:
        if chunk.choices:
            texts.append(chunk.choices[0].delta.content or "")
        if engine.holding.is_set() and "".join(texts):
            engine.release()  # the first words were here before the last were sampled
    assert "".join(texts) == "Hello, captain."
    assert chunk.usage.completion_tokens > 3


def test_a_client_that_hangs_up_stops_the_engine(client, engine):
    engine.says("Hello, captain, and welcome.")
    engine.hold(after=3)
    stream = client.chat.completions.create(model="talkback", messages=HI, stream=True)
    for chunk in stream:
        if chunk.choices[0].delta.content:
            break
    stream.close()
    client.close()

    async def aborted() -> None:
        while not engine.aborted:
            await asyncio.sleep(0.01)

    asyncio.run(asyncio.wait_for(aborted(), 10))
    engine.release()
    assert len(engine.aborted) == 1


def test_models(client):
    assert [model.id for model in client.models.list()] == ["talkback", "talkback@0", "talkback@base"]
    assert client.models.retrieve("talkback@0").id == "talkback@0"


def test_errors_are_the_clients_own(client, site, engine):
    with pytest.raises(openai.BadRequestError) as too_long:
        client.chat.completions.create(model="talkback", messages=[{"role": "user", "content": "word " * 3000}])
    assert too_long.value.code == "context_length_exceeded"
    with pytest.raises(openai.NotFoundError):
        client.chat.completions.create(model="gpt-4o", messages=HI)
    engine.goes_down()
    with pytest.raises(openai.InternalServerError) as away:
        client.chat.completions.create(model="talkback", messages=HI)
    assert away.value.code == "engine_unavailable"
    assert away.value.response.headers["Retry-After"]
    stranger = openai.OpenAI(base_url=f"{site}/v1", api_key="tb-wrong", max_retries=0)
    with stranger, pytest.raises(openai.AuthenticationError):
        stranger.models.list()


def test_feedback_on_a_completion(client, engine):
    answer = client.chat.completions.create(model="talkback", messages=HI)
    said = {"completion_id": answer.id, "thumb": "down", "guidance": "Be brief."}
    assert client.post("/feedback", body=said, cast_to=dict)["thumb"] == "down"
    assert Feedback.objects.standing().count() == 2
    assert Turn.objects.get().status == Turn.Status.OBSERVED

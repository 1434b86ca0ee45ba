"""A reply that is drawn at Tinker, through the same door; on a stand-in that computes."""

from __future__ import annotations

import json

import pytest

from chat.models import Turn
from gpu_workers import engines
from gpu_workers.tinker.service import Service
from tests.chat.conftest import user
from tests.doubles.fake_tinker import MODEL, FakeTinker

pytestmark = pytest.mark.django_db(transaction=True, serialized_rollback=True)


@pytest.fixture
def cloud(settings, tmp_path, monkeypatch):
    cloud = FakeTinker(vocabulary=512)
    service = Service(MODEL, api_key="key", package=cloud)
    settings.LEARNER, settings.DATA_DIR = "tinker", tmp_path
    monkeypatch.setattr(engines, "service", lambda: service)
    return cloud


@pytest.fixture
def ask(async_client, key, cloud):
    async def ask(**body):
        sent = json.dumps({"messages": [user("Say hello")]} | body).encode()
        headers = {"Authorization": f"Bearer {key.secret}"}
        return await async_client.post("/v1/chat/completions", sent, content_type="application/json", headers=headers)

    return ask


async def test_the_tokens_that_were_drawn_there_are_kept_with_their_log_probs(ask, cloud):
    answer = (await ask(max_tokens=6, temperature=1.0, seed=5)).json()

    turn = await Turn.objects.aget()
    (sent,) = cloud.asked("sample")
    assert sent["prompt"] == len(turn.prompt_ids)
    assert (sent["max_tokens"], sent["seed"], sent["temperature"]) == (6, 5, 1.0)
    assert 2 in sent["stop"]  # <|im_end|>: stops that are named take the place of the model's own
    assert answer["usage"]["completion_tokens"] == len(turn.response_ids) == len(turn.logprobs) > 0
    assert answer["choices"][0]["message"]["content"] == turn.text
    scored = await engines.policy().score(turn.prompt_ids, turn.response_ids)
    assert turn.logprobs == pytest.approx(list(scored.logprobs), abs=1e-4)


async def test_a_stream_is_the_whole_reply_in_one_chunk(ask):
    answer = await ask(max_tokens=6, stream=True)

    events = "".join([part.decode() async for part in answer]).split("\n\n")
    said = [json.loads(one.removeprefix("data: ")) for one in events if one and not one.endswith("[DONE]")]
    pieces = [one["choices"][0]["delta"].get("content") for one in said if one["choices"]]
    turn = await Turn.objects.aget()
    assert [piece for piece in pieces if piece] == [turn.text]


async def test_what_it_has_not_is_an_error_that_says_so(ask, cloud):
    answer = await ask(frequency_penalty=0.5)

    assert answer.status_code == 400
    assert "Tinker's sampling has no frequency_penalty" in answer.json()["error"]["message"]
    assert cloud.asked("sample") == []


async def test_a_service_that_is_away_is_an_error_and_no_reply(ask, cloud):
    cloud.fails("sample", cloud.InternalServerError("overloaded"))

    answer = await ask(max_tokens=6)

    assert answer.status_code == 503
    assert "Tinker does not answer" in answer.json()["error"]["message"]

"""Answering at the service: replies, scores and adapters as an engine has them."""

from __future__ import annotations

import asyncio
import concurrent.futures

import pytest

from gpu_workers.errors import (
    AdapterInvalid,
    AdapterMissing,
    EngineRefused,
)
from gpu_workers.tinker.service import Service
from gpu_workers.tinker.tinker_engine import TinkerEngine
from gpu_workers.types import Sampling
from tests.doubles.fake_tinker import SamplingClient
from tests.gpu_workers.tinker.examples import PROMPT, RESPONSE, example, learned


@pytest.fixture
def room(service, tmp_path, tiny_model):
    return TinkerEngine(service, tiny_model, tmp_path / "held")


@pytest.fixture
def saved(there, tmp_path):
    """A folder that a run at Tinker left, and the learner that left it."""
    learned(there, example(there, reward=1.0))
    there.save(tmp_path / "talkback-1-abc")
    return tmp_path / "talkback-1-abc"


async def test_a_reply_arrives_whole_as_one_piece(room):
    asked = Sampling(max_new_tokens=12, temperature=1.0, seed=3, top_logprobs=2)
    whole = await room.generate(PROMPT, asked)
    pieces = [piece async for piece in room.stream(PROMPT, asked)]

    assert len(whole.ids) == len(whole.logprobs) == len(whole.top) > 0
    assert (whole.finish_reason, whole.prompt_tokens, whole.weight_version) == ("length", 4, "base")
    assert [(p.text, p.ids, p.logprobs, p.finish_reason) for p in pieces] == [
        (whole.text, whole.ids, whole.logprobs, "length")
    ]
    assert all(row[0][1] >= logprob for row, logprob in zip(whole.top, whole.logprobs, strict=True))


async def test_at_temperature_one_a_reply_is_scored_as_it_was_drawn(room, rounding):
    drawn = await room.generate(PROMPT, Sampling(max_new_tokens=12, temperature=1.0, seed=3))

    scored = await room.score(PROMPT, drawn.ids)

    assert scored.ids == drawn.ids
    assert list(scored.logprobs) == pytest.approx(list(drawn.logprobs), abs=rounding.logprob)


async def test_log_probs_are_those_of_the_temperature_drawn_at(room, cloud, rounding):
    drawn = await room.generate(PROMPT, Sampling(max_new_tokens=1, temperature=0.5, seed=3))

    logs = (cloud.table.logits(PROMPT)[-1] / 0.5).log_softmax(-1)
    assert drawn.logprobs[0] == pytest.approx(float(logs[drawn.ids[0]]), abs=rounding.logprob)


async def test_a_reply_ends_at_the_models_own_end(room, cloud):
    cloud.table.out[:, 2] += 5 * (cloud.table.tokens[PROMPT].mean(0) + cloud.table.tokens[40])  # id 2 is <|im_end|>

    ended = await room.generate(PROMPT, Sampling(max_new_tokens=12, temperature=1.0, skip_special_tokens=False))
    ignored = await room.generate(PROMPT, Sampling(max_new_tokens=3, temperature=1.0, ignore_eos=True))

    assert (ended.ids, ended.text, ended.finish_reason) == ((2,), "", "stop")  # the ids hold it, the text does not
    assert (len(ignored.ids), ignored.finish_reason) == (3, "length")


async def test_a_stop_string_cuts_text_ids_and_log_probs(room):
    whole = await room.generate(PROMPT, Sampling(max_new_tokens=12, temperature=1.0, seed=3))
    stop = whole.text[4:6]

    cut = await room.generate(PROMPT, Sampling(max_new_tokens=12, temperature=1.0, seed=3, stop=(stop,)))

    assert cut.text == whole.text[: whole.text.index(stop)]
    assert cut.finish_reason == "stop"
    assert cut.ids == whole.ids[: len(cut.ids)]
    assert len(cut.logprobs) == len(cut.ids) < len(whole.ids)
    assert stop in room._text(cut.ids, Sampling())
    assert stop not in room._text(cut.ids[:-1], Sampling())


@pytest.fixture
async def waiting(room, monkeypatch):
    """A reply with the name "a" that the service is still drawing."""
    never: concurrent.futures.Future[None] = concurrent.futures.Future()
    monkeypatch.setattr(SamplingClient, "sample", lambda *args, **kwargs: asyncio.wrap_future(never))
    reply = asyncio.create_task(room.generate(PROMPT, Sampling(), request_id="a"))
    while "a" not in room._running:
        await asyncio.sleep(0)
    return reply


async def test_a_reply_that_is_stopped_ends_with_what_there_is(room, waiting):
    await room.abort("another")
    assert not waiting.done()

    await room.abort("a")
    said = await waiting

    assert (said.ids, said.text, said.finish_reason, said.prompt_tokens) == ((), "", "abort", 4)


async def test_a_reply_whose_reader_left_is_not_waited_for(room, waiting):
    waiting.cancel()

    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert room._running == {}


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        ({"frequency_penalty": 0.5}, "no frequency_penalty"),
        ({"regex": "yes|no"}, "no regex"),
        ({"json_schema": "{}", "repetition_penalty": 1.1}, "no repetition_penalty and no json_schema"),
    ],
)
async def test_what_it_cannot_do_is_refused_before_anything_is_sent(room, cloud, asked, words):
    with pytest.raises(EngineRefused, match=words):
        await room.generate(PROMPT, Sampling(**asked))
    assert cloud.calls == []


async def test_an_adapter_answers_as_its_learner_says(room, there, saved, rounding):
    await room.load_adapter("talkback-1-abc", str(saved))

    with_it = await room.score(PROMPT, RESPONSE, adapter="talkback-1-abc")
    without = await room.score(PROMPT, RESPONSE)

    assert list(with_it.logprobs) == pytest.approx(there.score(PROMPT, RESPONSE), abs=rounding.logprob)
    assert list(without.logprobs) == pytest.approx(there.score(PROMPT, RESPONSE, adapter=False), abs=rounding.logprob)
    assert sum(with_it.logprobs) > sum(without.logprobs)
    said = await room.generate(PROMPT, Sampling(max_new_tokens=2), adapter="talkback-1-abc")
    assert said.weight_version == "tinker://run-1/sampler_weights/talkback-1-abc"


async def test_every_process_holds_the_same_names(room, service, saved, tiny_model, tmp_path):
    await room.load_adapter("talkback-1-abc", str(saved))
    await room.load_adapter("talkback-1-abc", str(saved))  # no change
    other = TinkerEngine(service, tiny_model, tmp_path / "held")

    assert await other.adapters() == {"talkback-1-abc": str(saved)}
    await other.unload_adapter("talkback-1-abc")
    with pytest.raises(AdapterMissing):
        await room.score(PROMPT, RESPONSE, adapter="talkback-1-abc")
    with pytest.raises(AdapterMissing):
        await room.unload_adapter("talkback-1-abc")


async def test_a_name_stands_for_one_folder(room, saved, tmp_path):
    await room.load_adapter("talkback-1-abc", str(saved))

    with pytest.raises(AdapterInvalid, match="already loaded from another folder"):
        await room.load_adapter("talkback-1-abc", str(tmp_path))


async def test_weights_that_are_gone_there_are_invalid(room, cloud, saved):
    cloud.kept.clear()

    with pytest.raises(AdapterInvalid, match="is not there"):
        await room.load_adapter("talkback-1-abc", str(saved))
    assert await room.adapters() == {}


async def test_it_is_ready_when_the_service_has_the_model(room, cloud):
    assert await room.ready()

    other = TinkerEngine(Service("big/Other", api_key="key", package=cloud), room.model, room.names.folder)
    assert not await other.ready()

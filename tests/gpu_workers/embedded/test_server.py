"""The embedded server in this process, launched without --incremental-streaming-output and without keys."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from transformers import AutoTokenizer

from gpu_workers.embedded.batching import Batcher
from gpu_workers.embedded.model import Model
from gpu_workers.embedded.server import Server, Settings
from gpu_workers.engine.native_wire import samples


@pytest.fixture(scope="module")
def app(tiny_model: Path) -> Iterator[Any]:
    model, tokenizer = Model(str(tiny_model), "float32"), AutoTokenizer.from_pretrained(tiny_model)
    batcher = Batcher(
        model,
        lambda ids, skip, spaces: str(tokenizer.decode(list(ids), skip_special_tokens=skip)),
        max_running=4,
        max_tokens=4096,
        weight_version="base",
    )
    batcher.start()
    yield Server(model, tokenizer, batcher, Settings(served_name="tiny")).app()
    batcher.stop()


@pytest.fixture
async def http(app: Any) -> AsyncIterator[httpx.AsyncClient]:
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://engine") as client:
        yield client


def events(response: httpx.Response) -> list[dict[str, Any]]:
    lines = [line[6:] for line in response.text.splitlines() if line.startswith("data: ")]
    assert lines[-1] == "[DONE]"
    return [json.loads(line) for line in lines[:-1]]


def body(ids: Any, **more: Any) -> dict[str, Any]:
    params = {"max_new_tokens": 5, "temperature": 0, "ignore_eos": True}
    return {"input_ids": ids, "sampling_params": params, "return_logprob": True, **more}


async def test_a_stream_is_cumulative_as_sglang_has_it(http: httpx.AsyncClient) -> None:
    chunks = events(await http.post("/generate", json=body([1, 362, 201], stream=True)))

    last = chunks[-1]
    assert [len(chunk["output_ids"]) for chunk in chunks] == [1, 2, 3, 4, 5]
    assert [len(chunk["meta_info"]["output_token_logprobs"]) for chunk in chunks] == [1, 2, 3, 4, 5]
    for chunk in chunks[:-1]:
        assert last["output_ids"][: len(chunk["output_ids"])] == chunk["output_ids"]
        assert chunk["meta_info"]["finish_reason"] is None
    assert last["meta_info"]["weight_versions"] == [{"version": "base", "start": 0, "end": 5}]


async def test_a_list_streams_with_the_index_of_each(http: httpx.AsyncClient) -> None:
    chunks = events(await http.post("/generate", json=body([[1, 362], [1, 201]], stream=True)))

    assert {chunk["index"] for chunk in chunks} == {0, 1}
    assert sum(chunk["meta_info"]["finish_reason"] is not None for chunk in chunks) == 2


async def test_a_list_of_lists_of_settings_must_be_as_long_as_the_prompts(http: httpx.AsyncClient) -> None:
    response = await http.post("/generate", json=body([[1], [2]], rid=["only-one"]))

    assert response.status_code == 400
    assert "rid has 1 entries for 2 prompts" in response.json()["error"]["message"]


async def test_the_texts_of_tokens_come_when_asked(http: httpx.AsyncClient) -> None:
    answer = (await http.post("/generate", json=body([1, 362, 201], return_text_in_logprobs=True))).json()

    assert all(isinstance(text, str) for _, _, text in answer["meta_info"]["output_token_logprobs"])


async def test_a_token_that_may_not_come_has_no_logprob(http: httpx.AsyncClient) -> None:
    params = {"max_new_tokens": 2, "min_new_tokens": 2, "temperature": 0}  # the end token 2 is barred
    response = await http.post("/generate", json=body([1, 362], token_ids_logprob=[2]) | {"sampling_params": params})

    assert "Infinity" not in response.text
    assert response.json()["meta_info"]["output_token_ids_logprobs"][0] == [[None, 2, None]]


async def test_room_that_can_never_be_is_refused_with_a_sentence(tiny_model: Path) -> None:
    model, tokenizer = Model(str(tiny_model), "float32"), AutoTokenizer.from_pretrained(tiny_model)
    batcher = Batcher(model, lambda *_: "", max_running=1, max_tokens=64, weight_version="base")
    app = Server(model, tokenizer, batcher, Settings(served_name="tiny")).app()
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://engine") as client:
        response = await client.post("/generate", json=body([5] * 60))

    assert response.status_code == 400
    assert "--max-total-tokens" in response.json()["error"]["message"]


async def test_without_keys_every_door_is_open(http: httpx.AsyncClient) -> None:
    assert (await http.get("/v1/models")).json()["data"][0]["id"] == "tiny"
    assert (await http.post("/flush_cache")).status_code == 200
    assert (await http.post("/flush_cache?timeout=soon")).status_code == 400


async def test_a_stream_is_said_so_many_tokens_at_a_time_where_it_asks_for_that(http: httpx.AsyncClient) -> None:
    asked = body([1, 362, 201], stream=True)
    asked["sampling_params"]["stream_interval"] = 3
    chunks = events(await http.post("/generate", json=asked))

    assert [len(chunk["output_ids"]) for chunk in chunks] == [1, 4, 5]


async def test_metrics_say_what_holds_the_memory(http: httpx.AsyncClient, tiny_model: Path) -> None:
    from safetensors import safe_open

    await http.post("/generate", json=body([5, 6, 7]))
    schema = {"max_new_tokens": 3, "json_schema": json.dumps({"type": "object", "properties": {"once": {"const": 7}}})}
    await http.post("/generate", json={"input_ids": [5, 6], "sampling_params": schema})
    told = samples((await http.get("/metrics")).text)

    with safe_open(tiny_model / "model.safetensors", "pt") as weights:
        numbers = sum(weights.get_tensor(name).numel() for name in weights.keys())  # noqa: SIM118
    assert 4 * numbers <= told["memory_weights_bytes"] < 4.2 * numbers  # float32; buffers are not in the file
    assert told["memory_kv_kept_bytes"] > 0
    assert told["memory_kv_running_bytes"] == told["memory_adapters_bytes"] == 0
    assert told["grammars_kept"] >= 1
    assert told["memory_resident_bytes"] > told["memory_weights_bytes"]

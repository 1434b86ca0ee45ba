"""What both engines must answer to a prompt."""

from __future__ import annotations

import asyncio
import json
import re
from contextlib import aclosing
from itertools import pairwise
from typing import Any

import httpx
import pytest
import torch

from gpu_workers.engine.engine_client import EngineClient
from gpu_workers.engine.interface import Engine
from gpu_workers.errors import EngineRefused, KeyRefused
from gpu_workers.types import Sampling
from tests.contract.conftest import Server, generate_body
from tests.contract.reference import Reference

PROMPT = (1, 362, 201, 50, 326, 264, 2, 201, 1, 327, 85, 437, 201)
CLOSE = 1e-3  # what the issue asks of float32 log-probs


async def test_a_greedy_reply_and_its_logprobs_are_the_learners(client: Engine, reference: Reference) -> None:
    reply = await client.generate(PROMPT, Sampling(max_new_tokens=12, temperature=0))

    assert list(reply.ids) == reference.greedy(PROMPT, 12)
    assert reply.logprobs == pytest.approx(reference.response_logprobs(PROMPT, reply.ids), abs=CLOSE)
    assert (reply.prompt_tokens, reply.weight_version) == (len(PROMPT), "base")


async def test_logprobs_while_sampling_are_of_the_sampling_temperature(client: Engine, reference: Reference) -> None:
    reply = await client.generate(PROMPT, Sampling(max_new_tokens=12, temperature=0.5, ignore_eos=True))

    wanted = reference.response_logprobs(PROMPT, reply.ids, temperature=0.5)
    assert reply.logprobs == pytest.approx(wanted, abs=CLOSE)


async def test_scoring_is_at_temperature_one_and_the_first_token_is_real(client: Engine, reference: Reference) -> None:
    response = (310, 194, 423, 392)

    scored = await client.score(PROMPT, response)

    assert scored.ids == response
    assert scored.logprobs == pytest.approx(reference.response_logprobs(PROMPT, response), abs=CLOSE)


async def test_scoring_names_the_likeliest_tokens_at_each_place_where_they_are_asked_for(
    client: Engine, reference: Reference
) -> None:
    response = (310, 194, 423)

    scored = await client.score(PROMPT, response, top=3)

    for place, row in enumerate(scored.top):
        best = reference.logits([*PROMPT, *response[:place]])[-1].log_softmax(-1).topk(3)
        assert [id for id, _ in row] == best.indices.tolist()
        assert [logprob for _, logprob in row] == pytest.approx(best.values.tolist(), abs=CLOSE)
    assert len(scored.top) == len(response)
    assert (await client.score(PROMPT, response)).top == ()


async def test_choices_have_their_log_probs_at_temperature_one_and_nothing_is_generated(
    client: Engine, reference: Reference
) -> None:
    choices = (423, 5, 194, 6)

    found = await client.score_choices(PROMPT, choices)
    again = await client.score_choices(PROMPT, choices[::-1])

    wanted = reference.logits(PROMPT)[-1].log_softmax(-1)[torch.tensor(choices)].tolist()
    assert found.logprobs == pytest.approx(wanted, abs=CLOSE)
    assert again.logprobs == pytest.approx(wanted[::-1], abs=CLOSE)
    assert found.prompt_tokens == len(PROMPT)


async def test_a_prompt_of_one_token_can_be_scored_from(client: Engine, reference: Reference) -> None:
    scored = await client.score((1,), (310,))

    assert scored.logprobs == pytest.approx(reference.response_logprobs((1,), (310,)), abs=CLOSE)


async def test_a_stream_brings_what_a_whole_reply_would(client: Engine) -> None:
    sampling = Sampling(max_new_tokens=16, temperature=0, ignore_eos=True)
    whole = await client.generate(PROMPT, sampling)

    pieces = [piece async for piece in client.stream(PROMPT, sampling)]

    assert "".join(piece.text for piece in pieces) == whole.text
    assert tuple(i for piece in pieces for i in piece.ids) == whole.ids
    assert [lp for piece in pieces for lp in piece.logprobs] == pytest.approx(whole.logprobs, abs=CLOSE)
    assert [piece.finish_reason for piece in pieces] == [None] * (len(pieces) - 1) + ["length"]


async def test_a_stream_begins_before_its_reply_has_ended(client: Engine) -> None:
    stream = client.stream(PROMPT, Sampling(max_new_tokens=400, temperature=0, ignore_eos=True))
    async with aclosing(stream):
        first = await anext(stream)

    # What arrives at once is one piece; that all 400 tokens do, no reader is slow enough for.
    assert first.finish_reason is None
    assert 0 < len(first.ids) < 400


async def test_a_stop_token_is_in_the_ids_and_not_in_the_text(client: Engine) -> None:
    whole = await client.generate(PROMPT, Sampling(max_new_tokens=16, temperature=0))
    stop = next(i for i in whole.ids[2:] if i not in whole.ids[:2])

    cut = await client.generate(PROMPT, Sampling(max_new_tokens=16, temperature=0, stop_token_ids=(stop,)))

    assert cut.finish_reason == "stop"
    assert cut.ids == whole.ids[: whole.ids.index(stop) + 1]
    assert whole.text.startswith(cut.text)
    assert len(cut.text) < len(whole.text)


async def test_a_stop_string_ends_a_reply_and_is_cut_off(client: Engine) -> None:
    whole = await client.generate(PROMPT, Sampling(max_new_tokens=16, temperature=0))
    stop = next(c for c in whole.text[3:] if c.isalpha() and c not in whole.text[:3])
    sampling = Sampling(max_new_tokens=16, temperature=0, stop=(stop,))

    cut = await client.generate(PROMPT, sampling)
    pieces = [piece async for piece in client.stream(PROMPT, sampling)]

    assert (cut.finish_reason, cut.text) == ("stop", whole.text[: whole.text.index(stop)])
    assert "".join(piece.text for piece in pieces) == cut.text


async def test_nothing_is_generated_when_nothing_is_asked(wire: httpx.AsyncClient) -> None:
    answer = (await wire.post("/generate", json=generate_body(list(PROMPT), max_new_tokens=0))).json()

    assert (answer["text"], answer["output_ids"]) == ("", [])
    assert answer["meta_info"]["finish_reason"] == {"type": "length", "length": 0}


async def test_logprobs_of_the_prompt_start_with_null(wire: httpx.AsyncClient, reference: Reference) -> None:
    body = generate_body(list(PROMPT)) | {"return_logprob": True, "logprob_start_len": 4, "top_logprobs_num": 3}

    meta = (await wire.post("/generate", json=body)).json()["meta_info"]

    entries = meta["input_token_logprobs"]
    assert [entry[1] for entry in entries] == list(PROMPT[4:])
    assert entries[0][0] is None
    wanted = reference.response_logprobs(PROMPT[:5], PROMPT[5:])
    assert [entry[0] for entry in entries[1:]] == pytest.approx(wanted, abs=CLOSE)
    assert meta["input_top_logprobs"][0] is None
    best = reference.logits(PROMPT)[4].log_softmax(-1).topk(3)
    assert [entry[1] for entry in meta["input_top_logprobs"][1]] == best.indices.tolist()
    assert [entry[0] for entry in meta["input_top_logprobs"][1]] == pytest.approx(best.values.tolist(), abs=CLOSE)


async def test_logprobs_of_chosen_tokens_come_with_each_token(wire: httpx.AsyncClient, reference: Reference) -> None:
    body = generate_body(list(PROMPT)) | {"return_logprob": True, "token_ids_logprob": [5, 6]}

    meta = (await wire.post("/generate", json=body)).json()["meta_info"]

    first = meta["output_token_ids_logprobs"][0]
    wanted = reference.logits(PROMPT)[-1].log_softmax(-1)[torch.tensor([5, 6])]
    assert [entry[1] for entry in first] == [5, 6]
    assert [entry[0] for entry in first] == pytest.approx(wanted.tolist(), abs=CLOSE)


async def test_the_likeliest_tokens_come_with_each_token(client: Engine) -> None:
    sampling = Sampling(max_new_tokens=6, temperature=0, ignore_eos=True, top_logprobs=3)
    whole = await client.generate(PROMPT, sampling)
    pieces = [piece async for piece in client.stream(PROMPT, sampling)]

    assert [len(row) for row in whole.top] == [3] * 6
    assert [row[0][0] for row in whole.top] == list(whole.ids)  # greedy draws the likeliest
    assert [row[0][1] for row in whole.top] == pytest.approx(whole.logprobs, abs=CLOSE)
    assert all(a[1] >= b[1] for row in whole.top for a, b in pairwise(row))
    assert [[id for id, _ in row] for piece in pieces for row in piece.top] == [
        [id for id, _ in row] for row in whole.top
    ]
    assert (await client.generate(PROMPT, Sampling(max_new_tokens=2))).top == ()


SCHEMA = {
    "type": "object",
    "properties": {"name": {"enum": ["read", "write"]}, "yes": {"type": "boolean"}},
    "required": ["name", "yes"],
    "additionalProperties": False,
}


@pytest.mark.parametrize("temperature", [0, 1.0])
async def test_a_reply_is_held_to_a_json_schema(client: Engine, temperature: float) -> None:
    sampling = Sampling(max_new_tokens=200, temperature=temperature, json_schema=json.dumps(SCHEMA))
    reply = await client.generate(PROMPT, sampling)

    said = json.loads(reply.text)
    assert said["name"] in ("read", "write")
    assert type(said["yes"]) is bool
    assert (reply.finish_reason, reply.ids[-1]) == ("stop", 2)  # the end token, as in any other reply
    assert reply.logprobs[-1] == pytest.approx(0, abs=CLOSE)  # log-probs are of what the grammar left: only the end


async def test_a_stream_is_held_to_a_json_schema(client: Engine) -> None:
    sampling = Sampling(max_new_tokens=200, temperature=0, json_schema=json.dumps(SCHEMA))
    whole = await client.generate(PROMPT, sampling)
    pieces = [piece async for piece in client.stream(PROMPT, sampling)]

    assert "".join(piece.text for piece in pieces) == whole.text
    assert pieces[-1].finish_reason == "stop"


async def test_a_reply_is_held_to_a_regular_expression(client: Engine) -> None:
    reply = await client.generate(PROMPT, Sampling(max_new_tokens=50, temperature=1.0, regex="(yes|no), [0-9]{3}"))

    assert re.fullmatch("(yes|no), [0-9]{3}", reply.text)
    assert reply.finish_reason == "stop"


async def test_a_grammar_ends_at_the_length_too(client: Engine) -> None:
    reply = await client.generate(PROMPT, Sampling(max_new_tokens=2, json_schema=json.dumps(SCHEMA)))
    assert (len(reply.ids), reply.finish_reason) == (2, "length")


@pytest.mark.parametrize("sampling", [Sampling(json_schema='{"type": "nonsense"}'), Sampling(json_schema="{")])
async def test_a_schema_that_is_none_is_refused(client: Engine, sampling: Sampling) -> None:
    with pytest.raises(EngineRefused):
        await client.generate(PROMPT, sampling)
    with pytest.raises(EngineRefused):
        await anext(client.stream(PROMPT, sampling))


async def test_a_list_is_answered_by_a_list_in_its_order(wire: httpx.AsyncClient) -> None:
    prompts = [list(PROMPT), [1, 5, 6], [7, 8]]
    alone = [(await wire.post("/generate", json=generate_body(ids))).json()["output_ids"] for ids in prompts]
    body = {"input_ids": prompts, "sampling_params": {"max_new_tokens": 4, "temperature": 0}}

    answers = (await wire.post("/generate", json=body)).json()

    assert [answer["output_ids"] for answer in answers] == alone


async def test_n_replies_come_as_a_list(wire: httpx.AsyncClient) -> None:
    answers = (await wire.post("/generate", json=generate_body(list(PROMPT), n=2, temperature=1.0))).json()

    assert len(answers) == 2
    assert all(len(answer["output_ids"]) <= 4 for answer in answers)


async def test_text_is_a_prompt_as_well(wire: httpx.AsyncClient) -> None:
    body = {"text": "What is the capital", "sampling_params": {"max_new_tokens": 4, "temperature": 0}}

    answer = (await wire.post("/generate", json=body)).json()

    assert answer["meta_info"]["prompt_tokens"] > 2
    assert len(answer["output_ids"]) == 4


async def test_a_prefix_that_was_computed_is_not_computed_again(client: Engine) -> None:
    prompt = (*range(40, 90), 201)
    first = await client.generate(prompt, Sampling(max_new_tokens=4, temperature=0))

    second = await client.generate((*prompt, *first.ids[:2], 77), Sampling(max_new_tokens=4, temperature=0))

    assert second.cached_tokens >= len(prompt)


async def test_each_token_carries_the_version_of_its_weights(wire: httpx.AsyncClient) -> None:
    meta = (await wire.post("/generate", json=generate_body(list(PROMPT)))).json()["meta_info"]

    assert meta["weight_version"] == "base"
    assert meta["weight_versions"] == [{"version": "base", "start": 0, "end": meta["completion_tokens"]}]


async def test_a_reply_can_be_aborted_by_its_id(client: Engine) -> None:
    sampling = Sampling(max_new_tokens=1500, temperature=1.0, ignore_eos=True)
    pieces = []
    async for piece in client.stream(PROMPT, sampling, request_id="to-abort"):
        if not pieces:
            await client.abort("to-abort")
        pieces.append(piece)

    assert pieces[-1].finish_reason == "abort"
    assert sum(len(piece.ids) for piece in pieces) < 1500


async def test_a_reader_that_leaves_frees_its_place(client: Engine) -> None:
    before = (await client.metrics()).get("num_aborted_requests_total", 0)
    stream = client.stream(PROMPT, Sampling(max_new_tokens=2000, temperature=1.0, ignore_eos=True))
    await anext(stream)
    await stream.aclose()

    async with asyncio.timeout(20):
        while (await client.metrics()).get("num_aborted_requests_total", 0) == before:
            await asyncio.sleep(0.05)
        while (await client.metrics())["num_running_reqs"]:
            await asyncio.sleep(0.05)


async def test_several_stream_at_once(client: Engine) -> None:
    sampling = Sampling(max_new_tokens=400, temperature=1.0, ignore_eos=True)
    order: list[int] = []

    async def read(n: int) -> None:
        async for _ in client.stream((1, 362, 50 + n), sampling):
            order.append(n)

    await asyncio.gather(*(read(n) for n in range(4)))

    first_end = min(len(order) - 1 - order[::-1].index(n) for n in range(4))
    assert set(order[:first_end]) == {0, 1, 2, 3}  # all had begun before the first was done


BAD_BODIES: list[tuple[dict[str, Any], str]] = [
    ({"input_ids": [1, 2], "sampling_params": {"temperature": -1}}, "temperature must be"),
    ({"input_ids": [1, 2], "sampling_params": {"top_p": 0}}, "top_p must be"),
    ({"input_ids": [1, 2], "sampling_params": {"max_new_tokens": -1}}, "max_new_tokens must be"),
    ({"input_ids": []}, "cannot be empty"),
    ({}, "should be provided"),
    ({"input_ids": [5] * 2048, "sampling_params": {"max_new_tokens": 4}}, "context length"),
    ({"input_ids": [5], "sampling_params": {"max_new_tokens": 5000}}, "context length"),
    ({"input_ids": [5], "lora_path": "unknown"}, "loaded"),
    ({"input_ids": [5, 6], "return_logprob": True, "logprob_start_len": 9}, "higher than the number of input tokens"),
]


@pytest.mark.parametrize(("body", "words"), BAD_BODIES, ids=[words for _, words in BAD_BODIES])
async def test_a_value_that_makes_no_sense_is_refused_with_a_sentence(
    wire: httpx.AsyncClient, body: dict[str, Any], words: str
) -> None:
    response = await wire.post("/generate", json=body)

    assert response.status_code == 400
    assert words in response.json()["error"]["message"]


async def test_an_unknown_sampling_parameter_is_refused_with_a_plain_string(wire: httpx.AsyncClient) -> None:
    response = await wire.post("/generate", json=generate_body([1, 2], max_new=3))

    assert response.status_code == 400
    assert response.json()["error"].startswith("unknown field `max_new`")


@pytest.mark.parametrize("content", [b"{x", b"[1, 2]", b'{"input_ids": ["a"]}', b"\xff\xfe"])
async def test_a_body_of_another_shape_is_refused_as_openai_does(wire: httpx.AsyncClient, content: bytes) -> None:
    response = await wire.post("/generate", content=content, headers={"Content-Type": "application/json"})

    assert response.status_code == 400
    assert {"object": "error", "code": 400}.items() <= response.json().items()


async def test_an_error_inside_a_stream_is_an_event(wire: httpx.AsyncClient) -> None:
    response = await wire.post("/generate", json={"input_ids": [5], "stream": True, "lora_path": "unknown"})

    events = [line[6:] for line in response.text.splitlines() if line.startswith("data: ")]
    assert response.status_code == 200
    assert events[-1] == "[DONE]"
    assert json.loads(events[0])["error"]["code"] == 400


async def test_the_client_raises_what_the_engine_refuses(client: Engine) -> None:
    with pytest.raises(EngineRefused, match="context length"):
        await client.generate((5,), Sampling(max_new_tokens=5000))
    with pytest.raises(EngineRefused, match="context length"):
        await anext(client.stream((5,), Sampling(max_new_tokens=5000)))


async def test_two_keys_open_different_doors(server: Server) -> None:
    async with httpx.AsyncClient(base_url=server.url, trust_env=False) as http:
        plain = {"Authorization": f"Bearer {server.api_key}"}
        admin = {"Authorization": f"Bearer {server.admin_key}"}
        tries = [
            await http.get("/v1/models"),
            await http.get("/v1/models", headers=admin),
            await http.post("/flush_cache", headers=plain),
            await http.get("/v1/models", headers={"Authorization": "Bearer wrong"}),
        ]
        assert [(answer.status_code, answer.json()) for answer in tries] == [(401, {"error": "Unauthorized"})] * 4
        assert (await http.get("/v1/models", headers=plain)).status_code == 200
        assert (await http.get("/ready")).status_code == 200
        assert (await http.get("/metrics")).status_code == 200


async def test_a_wrong_key_is_named_by_the_client(server: Server) -> None:
    with pytest.raises(KeyRefused, match="ENGINE_API_KEY"):
        await EngineClient(server.url, api_key="wrong").info()

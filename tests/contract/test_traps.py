"""The traps of SGLang's interface (thirteen of shared/dependencies.md, D.10, and those found since), each shown on the
server that has it, beside what keeps us out of it.

| trap | where |
|---|---|
| 1 an unloaded name is served | test_differences: ..._that_was_unloaded_... |
| 2 what was dropped is read from its folder again | here |
| 3 log-probs while sampling are of the temperature | test_replies: ..._of_the_sampling_temperature |
| 4 seeds are ignored | test_differences: ..._ignores_a_seed_... |
| 5 rsLoRA, patterns and biases are taken and ignored | test_differences: ..._rslora_...; the rest here |
| 6 an update waits for the longest reply; another ends them all | here |
| 7 the served name becomes a path; any model's name is taken | here |
| 8 in_place without a flush leaves what the old weights read | here |
| 9 /health fails while paused | here |
| 10 two keys, three shapes of error | test_replies: ..._two_keys_..., and the refusals around it |
| 11 null first, cumulative streams, no ids in chat streams | test_replies: ..._start_with_null; the rest here |
| 12 bfloat16 is far from float32 | here: the server says which it is, and the tolerance follows that |
| 13 rollout and training drift apart | here: sampling and scoring agree on one server; runs stop at `max_gap` |
| 14 the vocabulary's last token is scored, and called 0 | here |
| 15 an adapter of k_proj or up_proj alone ends the server | gpu_workers/test_stacks: imports refuse it |
"""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import httpx
import pytest

from benchmarks.tiny import VOCABULARY, write_tiny_adapter
from gpu_workers.engine.interface import Engine
from gpu_workers.errors import AdapterInvalid, NoRoom
from gpu_workers.types import Sampling
from tests.contract.conftest import Server, generate_body
from tests.contract.reference import Reference
from tests.contract.test_replies import CLOSE, PROMPT

GREEDY = Sampling(max_new_tokens=8, temperature=0, ignore_eos=True)
HELD = 16

of_sglang_alone = pytest.mark.parametrize("server", [pytest.param("sglang", marks=pytest.mark.sglang)], indirect=True)
"""The embedded engine has no such route: it speaks the native interface alone."""


async def admin(server: Server, path: str, body: dict[str, object]) -> httpx.Response:
    headers = {"Authorization": f"Bearer {server.admin_key}"}
    async with httpx.AsyncClient(base_url=server.url, headers=headers, timeout=60, trust_env=False) as http:
        return await http.post(path, json=body)


async def test_2_past_its_room_sglang_drops_an_adapter_silently_and_ours_says_so(
    client: Engine, server: Server, tmp_path: Path
) -> None:
    for n in range(HELD):
        await client.load_adapter(f"held-{n}", str(write_tiny_adapter(tmp_path / str(n), seed=n)))
    one_more = str(write_tiny_adapter(tmp_path / "more", seed=99))
    before = await client.generate(PROMPT, GREEDY, adapter="held-0")

    if server.kind == "embedded":
        with pytest.raises(NoRoom):
            await client.load_adapter("more", one_more)
        return
    await client.load_adapter("more", one_more)
    held = await client.adapters()
    assert len(held) == HELD
    [dropped] = {f"held-{n}" for n in range(HELD)} - held.keys()
    # It is read from its folder when it is next asked for: a folder is never changed, and a name never used twice.
    assert (await client.generate(PROMPT, GREEDY, adapter=dropped)).ids
    assert dropped in await client.adapters()
    assert (await client.generate(PROMPT, GREEDY, adapter="held-0")).ids == before.ids


@pytest.mark.parametrize("config", [{"rank_pattern": {"q_proj": 8}}, {"alpha_pattern": {"q_proj": 64}}])
async def test_5_sglang_ignores_a_pattern_of_ranks_and_ours_refuses_it(
    client: Engine, server: Server, tmp_path: Path, config: dict[str, object]
) -> None:
    folder = write_tiny_adapter(tmp_path / "pattern", seed=1, **config)
    if server.kind == "embedded":
        with pytest.raises(AdapterInvalid, match="pattern"):
            await client.load_adapter("pattern", str(folder))
        return
    await client.load_adapter("pattern", str(folder))
    await client.load_adapter("plain", str(write_tiny_adapter(tmp_path / "plain", seed=1)))

    as_if_plain = (await client.score(PROMPT, (310, 194), adapter="plain")).logprobs
    assert (await client.score(PROMPT, (310, 194), adapter="pattern")).logprobs == pytest.approx(as_if_plain, abs=1e-4)


async def test_6_an_update_lets_running_replies_end_on_the_weights_they_began_with(
    client: Engine, other_model: Path
) -> None:
    stream = client.stream(PROMPT, Sampling(max_new_tokens=400, temperature=1.0, ignore_eos=True))
    pieces = [await anext(stream)]

    updating = asyncio.create_task(client.update_weights(str(other_model), version="v2"))
    pieces += [piece async for piece in stream]
    await updating

    assert pieces[-1].finish_reason == "length"
    assert {piece.weight_version for piece in pieces} == {"base"}
    assert (await client.info())["weight_version"] == "v2"


@of_sglang_alone
async def test_6_a_mere_new_name_for_the_weights_ends_every_reply_on_sglang(client: Engine, server: Server) -> None:
    stream = client.stream(PROMPT, Sampling(max_new_tokens=1500, temperature=1.0, ignore_eos=True))
    pieces = [await anext(stream)]

    renaming = asyncio.create_task(admin(server, "/update_weight_version", {"new_version": "renamed"}))
    pieces += [piece async for piece in stream]
    await renaming

    assert pieces[-1].finish_reason == "abort"  # so the client never asks for it


async def test_7_a_server_is_never_known_by_the_name_of_its_model(
    client: Engine, server: Server, wire: httpx.AsyncClient, other_model: Path
) -> None:
    await client.update_weights(str(other_model), version="v2")
    served = (await wire.get("/v1/models")).json()["data"][0]["id"]
    if server.kind == "sglang":
        assert served == str(other_model)
        body = {"model": "unknown-model", "messages": [{"role": "user", "content": "hi"}], "max_tokens": 1}
        answer = await wire.post("/v1/chat/completions", json=body)
        assert (answer.status_code, answer.json()["model"]) == (200, "unknown-model")
    assert (await client.info())["weight_version"] == "v2"  # which is what is asked instead


async def test_8_in_place_without_a_flush_answers_from_what_the_old_weights_read_on_sglang(
    client: Engine, server: Server, other_model: Path
) -> None:
    prompt = tuple(range(40, 104))
    await client.generate(prompt, GREEDY)
    body = {"model_path": str(other_model), "weight_version": "v2"}
    await client.pause("in_place")
    done = await admin(server, "/update_weights_from_disk", body | {"flush_cache": False})
    await client.resume()
    assert done.status_code == 200

    reply = await client.generate((*prompt, 7), GREEDY)
    wanted = Reference(other_model).response_logprobs((*prompt, 7), reply.ids)
    is_stale = reply.logprobs != pytest.approx(wanted, abs=CLOSE)
    assert is_stale == bool(reply.cached_tokens) == (server.kind == "sglang")

    await client.update_weights(str(server.model), version="base")  # the client flushes
    await client.update_weights(str(other_model), version="v3")
    reply = await client.generate((*prompt, 7), GREEDY)
    assert reply.cached_tokens == 0
    assert reply.logprobs == pytest.approx(Reference(other_model).response_logprobs((*prompt, 7), reply.ids), abs=CLOSE)


async def test_9_while_paused_only_ready_answers_at_once(
    client: Engine, server: Server, wire: httpx.AsyncClient
) -> None:
    await client.pause("retract")
    assert (await wire.get("/ready")).status_code == 503
    assert not await client.ready()
    if server.kind == "sglang":  # /health asks for a token, which is not sampled now
        with pytest.raises(httpx.ReadTimeout):
            await wire.get("/health", timeout=2)


@of_sglang_alone
async def test_11_a_stream_of_chat_has_no_ids_on_sglang(server: Server, wire: httpx.AsyncClient) -> None:
    body = {"model": "m", "messages": [{"role": "user", "content": "hi"}], "max_tokens": 3, "stream": True}
    streamed = (await wire.post("/v1/chat/completions", json=body)).text
    events = [json.loads(line[6:]) for line in streamed.splitlines() if line.startswith("data: {")]
    assert events
    assert not any("token_ids" in json.dumps(event) for event in events)
    assert (await wire.post("/v1/chat/completions", json=body | {"return_token_ids": True})).status_code == 400


async def test_11_the_client_reads_both_kinds_of_stream(wire: httpx.AsyncClient) -> None:
    """The total tells which: all tokens so far, or the new ones alone; both servers were launched for the latter."""
    body = generate_body(list(PROMPT), ignore_eos=True) | {"stream": True, "return_logprob": True}
    streamed = (await wire.post("/generate", json=body)).text
    events = [json.loads(line[6:]) for line in streamed.splitlines() if line.startswith("data: {")]

    assert sum(len(event["output_ids"]) for event in events) == events[-1]["meta_info"]["completion_tokens"] == 4


async def test_12_the_server_says_how_exact_it_is(client: Engine) -> None:
    assert (await client.server_info())["dtype"] == "float32"  # which checkpoints.proofs.LIMITS is chosen by


async def test_13_sampling_and_scoring_give_the_same_numbers(client: Engine, adapters: dict[str, Path]) -> None:
    for name in (None, *adapters):
        reply = await client.generate(PROMPT, Sampling(max_new_tokens=24, temperature=1.0), adapter=name)
        scored = await client.score(PROMPT, reply.ids, adapter=name)
        assert scored.logprobs == pytest.approx(reply.logprobs, abs=CLOSE)


async def test_14_sglang_calls_the_last_token_0_and_the_client_asks_for_it_by_its_name(
    client: Engine, server: Server, wire: httpx.AsyncClient, reference: Reference, adapters: dict[str, Path]
) -> None:
    last = VOCABULARY - 1
    response = (310, last, 0, last, 392)
    body = generate_body([*PROMPT, *response], max_new_tokens=0) | {"return_logprob": True}
    body["logprob_start_len"] = len(PROMPT) - 1
    meta = (await wire.post("/generate", json=body)).json()["meta_info"]
    called = [entry[1] for entry in meta["input_token_logprobs"][1:]]
    assert called == [310, 0, 0, 0, 392] if server.kind == "sglang" else called == list(response)

    # By adapters and by the base, in one batch with scores and replies that name nothing.
    asked = [(name, ids) for name in (None, *adapters) for ids in (response, (310, 0, 392))]
    replies = [client.generate(PROMPT, GREEDY, adapter=name) for name in (None, *adapters)]
    scores = [client.score(PROMPT, ids, adapter=name) for name, ids in asked]
    *_, read = await asyncio.gather(*replies, asyncio.gather(*scores))
    for (name, ids), scored in zip(asked, read, strict=True):
        wanted = reference.response_logprobs(PROMPT, ids, adapter=adapters.get(name or ""))
        assert scored.ids == ids
        assert scored.logprobs == pytest.approx(wanted, abs=CLOSE)

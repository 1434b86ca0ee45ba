"""What both engines must do with adapters, weights and the brakes."""

from __future__ import annotations

import asyncio
from pathlib import Path

import httpx
import pytest

from benchmarks.tiny import write_tiny_adapter
from gpu_workers.engine.interface import Engine
from gpu_workers.errors import AdapterInvalid, AdapterMissing, EngineRefused
from gpu_workers.types import Sampling
from tests.contract.conftest import Server, generate_body
from tests.contract.reference import Reference
from tests.contract.test_replies import CLOSE, PROMPT

GREEDY = Sampling(max_new_tokens=8, temperature=0, ignore_eos=True)
LONG = Sampling(max_new_tokens=400, temperature=1.0, ignore_eos=True)


async def test_an_adapter_gives_the_numbers_that_peft_gives(
    client: Engine, adapters: dict[str, Path], reference: Reference
) -> None:
    for name, folder in adapters.items():
        reply = await client.generate(PROMPT, GREEDY, adapter=name)
        scored = await client.score(PROMPT, reply.ids, adapter=name)

        wanted = reference.response_logprobs(PROMPT, reply.ids, adapter=folder)
        assert reply.logprobs == pytest.approx(wanted, abs=CLOSE)
        assert scored.logprobs == pytest.approx(wanted, abs=CLOSE)
        assert wanted != pytest.approx(reference.response_logprobs(PROMPT, reply.ids), abs=0.05)  # it does something


async def test_base_and_adapters_are_answered_in_one_batch(wire: httpx.AsyncClient, adapters: dict[str, Path]) -> None:
    names = [None, "a", "b", "a", None]
    alone = [
        (await wire.post("/generate", json=generate_body(list(PROMPT)) | {"lora_path": name})).json() for name in names
    ]
    body = {
        "input_ids": [list(PROMPT)] * len(names),
        "lora_path": names,
        "sampling_params": {"max_new_tokens": 4, "temperature": 0},
    }

    together = (await wire.post("/generate", json=body)).json()

    assert [answer["output_ids"] for answer in together] == [answer["output_ids"] for answer in alone]


async def test_loaded_adapters_are_listed_with_their_folders(client: Engine, adapters: dict[str, Path]) -> None:
    assert await client.adapters() == {name: str(folder) for name, folder in adapters.items()}


async def test_loading_twice_is_harmless_and_another_folder_is_refused(
    client: Engine, adapters: dict[str, Path]
) -> None:
    await client.load_adapter("a", str(adapters["a"]))

    with pytest.raises(AdapterInvalid, match="never used twice"):
        await client.load_adapter("a", str(adapters["b"]))


async def test_an_adapter_that_is_not_held_is_missing(client: Engine) -> None:
    with pytest.raises(AdapterMissing):
        await client.generate(PROMPT, GREEDY, adapter="unknown")
    with pytest.raises(AdapterMissing):
        await anext(client.stream(PROMPT, GREEDY, adapter="unknown"))
    with pytest.raises(AdapterMissing):
        await client.score(PROMPT, (5,), adapter="unknown")
    with pytest.raises(AdapterMissing):
        await client.unload_adapter("unknown")


async def test_of_two_who_unload_an_adapter_the_later_one_is_told_that_it_is_gone(
    client: Engine, tmp_path: Path
) -> None:
    await client.load_adapter("twice", str(write_tiny_adapter(tmp_path / "twice", seed=4)))
    stream = client.stream(PROMPT, LONG, adapter="twice")
    await anext(stream)

    unloading = asyncio.gather(*(client.unload_adapter("twice") for _ in range(4)), return_exceptions=True)
    assert [piece async for piece in stream]
    ends = await unloading

    assert ends.count(None) >= 1
    assert all(end is None or isinstance(end, AdapterMissing) for end in ends)
    assert "twice" not in await client.adapters()


async def test_broken_adapters_are_refused_and_the_server_lives(client: Engine, tmp_path: Path) -> None:
    truncated = write_tiny_adapter(tmp_path / "truncated", seed=1)
    content = (truncated / "adapter_model.safetensors").read_bytes()
    (truncated / "adapter_model.safetensors").write_bytes(content[: len(content) // 2])
    folders = {
        "nowhere": tmp_path / "nowhere",
        "truncated": truncated,
        "dora": write_tiny_adapter(tmp_path / "dora", seed=1, use_dora=True),
        "huge": write_tiny_adapter(tmp_path / "huge", seed=1, rank=65),
    }
    for name, folder in folders.items():
        with pytest.raises(AdapterInvalid):
            await client.load_adapter(name, str(folder))

    assert not folders.keys() & (await client.adapters()).keys()
    assert (await client.generate(PROMPT, GREEDY)).ids


async def test_unloading_waits_for_the_replies_that_use_it(client: Engine, tmp_path: Path) -> None:
    await client.load_adapter("leaving", str(write_tiny_adapter(tmp_path / "leaving", seed=3)))
    stream = client.stream(PROMPT, LONG, adapter="leaving")
    await anext(stream)

    unloading = asyncio.create_task(client.unload_adapter("leaving"))
    pieces = [piece async for piece in stream]
    await unloading

    assert pieces[-1].finish_reason == "length"
    assert "leaving" not in await client.adapters()


async def test_new_weights_answer_and_bad_ones_change_nothing(
    client: Engine, server: Server, other_model: Path, tmp_path: Path
) -> None:
    before = await client.generate(PROMPT, GREEDY)
    with pytest.raises(EngineRefused):
        await client.update_weights(str(tmp_path / "nowhere"), version="bad")
    assert (await client.generate(PROMPT, GREEDY)).ids == before.ids

    await client.update_weights(str(other_model), version="v2")
    after = await client.generate(PROMPT, GREEDY)

    assert list(after.ids) == Reference(other_model).greedy(PROMPT, 8)
    assert (after.weight_version, after.cached_tokens) == ("v2", 0)  # no prefix of the old weights was used
    assert (await client.info())["weight_version"] == "v2"

    await client.update_weights(str(server.model), version="base")
    assert (await client.generate(PROMPT, GREEDY)).ids == before.ids


async def test_adapters_stay_loaded_over_new_weights(
    client: Engine, adapters: dict[str, Path], other_model: Path
) -> None:
    await client.update_weights(str(other_model), version="v2")

    reply = await client.generate(PROMPT, GREEDY, adapter="a")

    wanted = Reference(other_model).response_logprobs(PROMPT, reply.ids, adapter=adapters["a"])
    assert reply.logprobs == pytest.approx(wanted, abs=CLOSE)


async def test_a_reply_goes_on_correctly_over_a_swap_when_retracted(client: Engine, other_model: Path) -> None:
    stream = client.stream(PROMPT, LONG)
    pieces = [await anext(stream)]

    await client.pause("retract")
    await client.update_weights(str(other_model), version="v2")
    await client.resume()
    pieces += [piece async for piece in stream]

    ids = [i for piece in pieces for i in piece.ids]
    logprobs = [lp for piece in pieces for lp in piece.logprobs]
    assert (len(ids), pieces[-1].finish_reason, pieces[-1].weight_version) == (400, "length", "v2")
    # The last tokens are as if the new weights had read everything before them.
    wanted = Reference(other_model).response_logprobs([*PROMPT, *ids[:-20]], ids[-20:])
    assert logprobs[-20:] == pytest.approx(wanted, abs=CLOSE)


async def test_a_swap_in_the_middle_shows_in_the_versions(
    client: Engine, wire: httpx.AsyncClient, other_model: Path
) -> None:
    body = generate_body(list(PROMPT), max_new_tokens=600, ignore_eos=True, temperature=1.0)
    asked = asyncio.create_task(wire.post("/generate", json=body))
    async with asyncio.timeout(20):
        while not (await client.metrics())["num_running_reqs"]:
            await asyncio.sleep(0.01)

    await client.pause("retract")
    await client.update_weights(str(other_model), version="v2")
    await client.resume()
    meta = (await asked).json()["meta_info"]

    spans = meta["weight_versions"]
    assert [span["version"] for span in spans] == ["base", "v2"]
    assert (spans[0]["start"], spans[0]["end"], spans[1]["end"]) == (0, spans[1]["start"], 600)
    assert meta["num_retractions"] == 1


async def test_pausing_with_abort_ends_replies_with_what_they_have(client: Engine) -> None:
    stream = client.stream(PROMPT, LONG)
    pieces = [await anext(stream)]

    await client.pause("abort")
    pieces += [piece async for piece in stream]

    assert pieces[-1].finish_reason == "abort"


async def test_what_is_asked_while_paused_waits_and_is_answered(client: Engine) -> None:
    await client.pause("retract")
    asked = asyncio.create_task(client.generate(PROMPT, GREEDY))
    done, _ = await asyncio.wait({asked}, timeout=0.5)
    assert not done
    assert not await client.ready()  # nothing new should be sent to it now

    await client.resume()

    assert (await asked).ids
    assert await client.ready()


async def flushed(client: Engine) -> bool:
    try:
        await client.flush()
    except EngineRefused:
        return False
    return True


async def test_flushing_is_refused_while_a_reply_is_running(client: Engine) -> None:
    stream = client.stream(PROMPT, Sampling(max_new_tokens=1500, temperature=1.0, ignore_eos=True))
    await anext(stream)

    with pytest.raises(EngineRefused, match=r"(?i)flush"):
        await client.flush()
    await stream.aclose()

    async with asyncio.timeout(60):  # what is left behind is ended in its own time; no counter says when exactly
        while not await flushed(client):
            await asyncio.sleep(0.05)
    assert (await client.generate(PROMPT, GREEDY)).cached_tokens == 0


async def test_counters_are_there_to_be_read(client: Engine) -> None:
    before = await client.metrics()
    await client.generate(PROMPT, GREEDY)
    names = ("prompt_tokens_total", "generation_tokens_total", "cached_tokens_total", "num_requests_total")

    async with asyncio.timeout(20):
        while (await client.metrics()).get("num_requests_total", 0) == before.get("num_requests_total", 0):
            await asyncio.sleep(0.05)
    after = await client.metrics()

    assert {"num_running_reqs", "num_queue_reqs", "token_usage", "gen_throughput", *names} <= after.keys()
    assert after["generation_tokens_total"] - before.get("generation_tokens_total", 0) == 8
    assert after["time_to_first_token_seconds_count"] > before.get("time_to_first_token_seconds_count", 0)


async def test_what_is_served_can_be_asked(client: Engine, server: Server) -> None:
    assert (await client.info())["model_path"] == str(server.model) or server.kind == "sglang"
    assert "weight_version" in await client.server_info()

"""Where the embedded engine is not SGLang, on purpose: each line of gpu_workers/embedded's list, on both sides.

When a newer SGLang behaves otherwise, the test that fails here says which guard of ours has become needless.
"""

from __future__ import annotations

from pathlib import Path

import httpx
import pytest

from benchmarks.tiny import write_tiny_adapter
from gpu_workers.engine.interface import Engine
from gpu_workers.errors import AdapterInvalid, AdapterMissing
from gpu_workers.types import Sampling
from tests.contract.conftest import Server, generate_body
from tests.contract.test_replies import PROMPT

GREEDY = Sampling(max_new_tokens=4, temperature=0, ignore_eos=True)


async def test_sglang_serves_an_adapter_that_was_unloaded_and_ours_refuses_it(
    client: Engine, server: Server, tmp_path: Path
) -> None:
    await client.load_adapter("unloaded", str(write_tiny_adapter(tmp_path, seed=1)))
    reply = await client.generate(PROMPT, GREEDY, adapter="unloaded")
    await client.unload_adapter("unloaded")
    assert "unloaded" not in await client.adapters()

    if server.kind == "sglang":
        assert (await client.generate(PROMPT, GREEDY, adapter="unloaded")).ids == reply.ids
        assert "unloaded" in await client.adapters()
    else:
        with pytest.raises(AdapterMissing):
            await client.generate(PROMPT, GREEDY, adapter="unloaded")


async def test_sglang_ignores_a_seed_and_ours_repeats_the_reply(client: Engine, server: Server) -> None:
    sampling = Sampling(max_new_tokens=30, temperature=1.0, seed=4, ignore_eos=True)

    first, second = [await client.generate(PROMPT, sampling) for _ in range(2)]

    assert (first.ids == second.ids) == (server.kind == "embedded")


async def test_sglang_loads_an_rslora_adapter_and_scales_it_wrongly_and_ours_refuses_it(
    client: Engine, server: Server, tmp_path: Path
) -> None:
    folder = write_tiny_adapter(tmp_path / "rs", seed=1, use_rslora=True)
    if server.kind == "embedded":
        with pytest.raises(AdapterInvalid, match="rsLoRA"):
            await client.load_adapter("rs", str(folder))
        return
    await client.load_adapter("rs", str(folder))
    await client.load_adapter("plain", str(write_tiny_adapter(tmp_path / "plain", seed=1)))

    # sqrt(r) too weak: as if the setting were not there.
    wrong = await client.score(PROMPT, (310, 194), adapter="rs")
    assert wrong.logprobs == pytest.approx((await client.score(PROMPT, (310, 194), adapter="plain")).logprobs, abs=1e-4)


# One such id ends the whole SGLang server on a CPU; on a GPU it answers garbage.
@pytest.mark.parametrize("server", ["embedded"], indirect=True)
async def test_ours_refuses_ids_outside_the_vocabulary(wire: httpx.AsyncClient) -> None:
    response = await wire.post("/generate", json=generate_body([1, 600]))

    assert response.status_code == 400
    assert "input_ids must lie in" in response.json()["error"]["message"]

"""Promotion's proof against the real embedded engine and the real learner, on the tiny model in float32."""

from __future__ import annotations

import asyncio

import pytest
from asgiref.sync import async_to_sync

from benchmarks.tiny import write_tiny_adapter
from checkpoints import lines, loading, promotion, repairs
from checkpoints.models import Checkpoint
from gpu_workers import engines
from gpu_workers.learner.learner import Learner

PROMPT, RESPONSE = [1, 40, 41, 42, 43], [60, 61, 62, 63, 64, 65, 66, 67]


@pytest.fixture
def policy(embedded_engine, monkeypatch):
    monkeypatch.setattr(engines, "policy", lambda: embedded_engine)
    yield embedded_engine
    for name in async_to_sync(embedded_engine.adapters)():
        async_to_sync(embedded_engine.unload_adapter)(name)


@pytest.fixture
def saved(tiny_model, tmp_path, db):
    """An approved checkpoint whose files are one adapter, and whose probe is the learner's word on `probed`."""

    def saved(number, *, files, probed):
        folder = write_tiny_adapter(tmp_path / f"{number}-{files}", seed=files, scale=0.1)
        told = write_tiny_adapter(tmp_path / f"{number}-{probed}", seed=probed, scale=0.1)
        learner = Learner(tiny_model, adapter_dir=told, dtype="float32")
        probe = {
            "prompt_ids": PROMPT,
            "response_ids": RESPONSE,
            "logprobs": learner.score(PROMPT, RESPONSE),
            "base_logprobs": learner.score(PROMPT, RESPONSE, adapter=False),
            "dtype": "float32",
        }
        name = f"proof-{number}-{tmp_path.name}"
        return Checkpoint.objects.create(
            number=number, status="approved", adapter=name, path=str(folder), probe=probe, parent=Checkpoint.live()
        )

    return saved


def test_what_the_learner_saved_is_what_the_engine_serves(policy, saved):
    checkpoint = saved(1, files=1, probed=1)

    async_to_sync(promotion.promote)(checkpoint)
    proof = async_to_sync(loading.prove)(checkpoint, policy)

    assert Checkpoint.live() == checkpoint
    assert proof.limit == 1e-3
    assert proof.gap < 1e-4  # seen: 1e-7
    assert proof.share == pytest.approx(1.0, abs=1e-3)
    assert proof.shift > 0.01  # the adapter says other things than the base


def test_other_weights_under_the_name_are_found_out(policy, saved):
    checkpoint = saved(1, files=1, probed=2)
    with pytest.raises(loading.Unproven):
        async_to_sync(promotion.promote)(checkpoint)
    assert Checkpoint.live().number == 0
    assert checkpoint.adapter not in async_to_sync(policy.adapters)()  # and nothing is left behind


def test_files_that_are_broken_are_refused_and_nothing_changes(policy, saved):
    checkpoint = saved(1, files=1, probed=1)
    (checkpoint.folder / "adapter_model.safetensors").write_bytes(b"not weights")
    with pytest.raises(loading.Unproven):
        async_to_sync(promotion.promote)(checkpoint)
    checkpoint.refresh_from_db()
    assert (checkpoint.status, Checkpoint.live().number) == ("rejected", 0)
    assert checkpoint.reason


def test_a_roll_back_is_proven_too(policy, saved):
    first, second = saved(1, files=1, probed=1), saved(2, files=2, probed=2)
    async_to_sync(promotion.promote)(first)
    async_to_sync(promotion.promote)(second)
    assert async_to_sync(promotion.roll_back)() == first
    assert Checkpoint.live() == first


def test_adapters_that_were_lost_are_loaded_again(policy, saved):
    checkpoint = saved(1, files=1, probed=1)
    async_to_sync(promotion.promote)(checkpoint)
    async_to_sync(policy.unload_adapter)(checkpoint.adapter)
    assert async_to_sync(repairs.repair)() == [checkpoint.adapter]
    assert checkpoint.adapter in async_to_sync(policy.adapters)()


def test_two_lines_go_live_beside_one_another_and_each_answers_with_its_own_weights(policy, saved):
    shared, own = saved(1, files=1, probed=1), saved(2, files=2, probed=2)
    own.line = lines.make("Ana")
    own.save()
    for checkpoint in (shared, own):
        async_to_sync(promotion.promote)(checkpoint)
    assert (Checkpoint.live(), Checkpoint.live("ana")) == (shared, own)
    assert {shared.adapter, own.adapter} <= async_to_sync(policy.adapters)().keys()

    async def at_once():
        asked = (policy.score(PROMPT, RESPONSE, adapter=one.adapter) for one in (shared, own))
        return await asyncio.gather(*asked)

    for checkpoint, answer in zip((shared, own), async_to_sync(at_once)(), strict=True):
        assert answer.logprobs == pytest.approx(checkpoint.probe["logprobs"], abs=1e-4)

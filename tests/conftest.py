"""The cast: a scripted engine, a model small enough for any test, the real small model, a live embedded engine."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from gpu_workers import engines
from gpu_workers.fakes import FakeEngine
from tests.tiny import write_tiny_model

ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="session")
def tiny_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A Hugging Face folder: a 2-layer Llama with seeded float32 weights and a byte-level tokenizer."""
    return write_tiny_model(tmp_path_factory.mktemp("models") / "tiny")


@pytest.fixture(scope="session")
def smol_model() -> Path:
    """SmolLM2-135M-Instruct as the set-up converted it; tests that take it are marked real_model."""
    folder = Path(os.environ.get("DATA_DIR") or ROOT / "var") / "models" / "smollm2-135m-instruct"
    if not (folder / "config.json").exists():
        pytest.skip(f"the real small model is not in {folder}: run `make model` to bring it")
    return folder


@pytest.fixture
def engine(tiny_model: Path, monkeypatch: pytest.MonkeyPatch) -> FakeEngine:
    """A scripted engine that answers for the policy and for the judge."""
    fake = FakeEngine(tiny_model)
    monkeypatch.setattr(engines, "policy", lambda: fake)
    monkeypatch.setattr(engines, "judge", lambda: fake)
    return fake

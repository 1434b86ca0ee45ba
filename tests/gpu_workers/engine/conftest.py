"""Engines, and a fleet of them."""

from __future__ import annotations

import pytest

from tests.gpu_workers.engine.scene import Scene


@pytest.fixture
async def scene() -> Scene:
    return Scene()

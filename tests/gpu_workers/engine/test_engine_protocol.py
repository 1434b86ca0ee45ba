"""The engine protocol: every engine can be asked the same, in the same words."""

from __future__ import annotations

import inspect

import pytest

from gpu_workers.engine.engine_client import EngineClient
from gpu_workers.engine.fleet import Fleet
from gpu_workers.engine.interface import Engine
from gpu_workers.engine.router import Router
from gpu_workers.tinker.engine import TinkerEngine
from tests.doubles.fake_engine import FakeEngine

CALLS = [name for name, member in vars(Engine).items() if inspect.isfunction(member) and not name.startswith("_")]


def asked(call: object) -> list[tuple[str, object, object]]:
    parameters = inspect.signature(call).parameters.values()  # type: ignore[arg-type]
    return [(one.name, one.kind, one.default) for one in parameters]


@pytest.mark.parametrize("engine", [EngineClient, Fleet, Router, TinkerEngine, FakeEngine])
def test_every_engine_takes_the_calls_of_the_protocol(engine: type) -> None:
    assert len(CALLS) == 18  # four that draw or score, five of weights, four of pace, five that report or close
    assert {name: asked(getattr(engine, name)) for name in CALLS} == {name: asked(vars(Engine)[name]) for name in CALLS}

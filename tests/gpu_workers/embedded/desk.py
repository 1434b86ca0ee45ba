"""A batch of the embedded engine that tests move step by step, and who reads its replies."""

from __future__ import annotations

import threading
from collections import abc
from collections.abc import Callable
from typing import Any

import torch

from gpu_workers.embedded.batching import Batcher
from gpu_workers.embedded.generate_requests import Ask
from gpu_workers.embedded.model import Model, Piece
from gpu_workers.embedded.sampling import Params
from gpu_workers.embedded.sequences import Sequence, StepOutput

DEADLINE_S = 60


class Reader:
    """Collects what comes for one ask."""

    def __init__(self) -> None:
        self.ids: list[int] = []
        self.heard: list[StepOutput] = []
        self.finish: dict[str, Any] | None = None
        self.begun, self.ended = threading.Event(), threading.Event()
        self.sequence: Sequence | None = None
        self.on_token: Callable[[], None] = lambda: None

    def __call__(self, output: StepOutput) -> None:
        self.ids += output.ids
        self.heard.append(output)
        if output.ids:
            self.begun.set()
            self.on_token()
        if output.finish is not None:
            self.finish = output.finish
            self.ended.set()

    @property
    def cached_tokens(self) -> int:
        assert self.sequence is not None
        return self.sequence.cached_tokens or 0

    @property
    def versions(self) -> list[dict[str, Any]]:
        assert self.sequence is not None
        return self.sequence.versions

    @property
    def ending(self) -> dict[str, Any]:
        assert self.finish is not None
        return self.finish

    def wait(self) -> list[int]:
        assert self.ended.wait(DEADLINE_S)
        return self.ids


class Desk:
    """A batcher, and the pieces of every forward it ran."""

    def __init__(self, model: Model, **settings: Any) -> None:
        self.forwards: list[list[Piece]] = []
        run = type(model).forward

        def watched(pieces: abc.Sequence[Piece], wanted: abc.Sequence[int]) -> torch.Tensor:
            self.forwards.append(list(pieces))
            return run(model, pieces, wanted)

        model.forward = watched  # type: ignore[method-assign]  # of this model alone
        defaults = {"max_running": 8, "max_tokens": 8192, "weight_version": "base"}
        self.batcher = Batcher(model, lambda ids, skip, spaces: " ".join(map(str, ids)), **{**defaults, **settings})
        self.batcher.start()
        self._asked = 0

    def ask(self, ids: abc.Sequence[int], *, priority: int = 0, adapter: str | None = None, **params: Any) -> Reader:
        return self.ask_all([ids], priority=priority, adapter=adapter, **params)[0]

    def meanwhile(self, act: Callable[[], object], ids: abc.Sequence[int], **about: Any) -> Reader:
        """Ask, and `act` as its first token is told: on the model's thread, so surely before the second is drawn."""
        self.batcher.pause("in_place").result(DEADLINE_S)
        reader = self.ask(ids, **about)

        def once() -> None:
            reader.on_token = lambda: None
            act()

        reader.on_token = once
        self.batcher.resume().result(DEADLINE_S)
        return reader

    def ask_all(
        self, prompts: abc.Sequence[abc.Sequence[int]], *, priority: int = 0, adapter: str | None = None, **params: Any
    ) -> list[Reader]:
        """Ask all at the same moment."""
        settings = Params(**{"max_new_tokens": 8, "ignore_eos": True, **params})
        readers = [Reader() for _ in prompts]
        asks = []
        for ids in prompts:
            self._asked += 1
            asks.append(Ask(f"r{self._asked}", tuple(ids), settings, adapter=adapter, priority=priority))
        sequences = self.batcher.submit(list(zip(asks, readers, strict=True)))
        for reader, sequence in zip(readers, sequences, strict=True):
            reader.sequence = sequence
        return readers

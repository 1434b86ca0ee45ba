"""The shared learner runs in several processes, a device each: torchrun starts them, and all make the same calls.

Every process takes its part of the samples. Each sample's gradient is weighed by its share of the whole, and the
gradients are added up once before an update, so an update is the one that a single process would make, whatever the
number of samples. An adapter lies whole with every process, and so does its base (data parallel); full weights, and a
base too large for one card, lie in shards, and a layer is whole only while it works (FSDP2). Embeddings, the last norm
and the head are whole everywhere: they are used outside of any layer.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import fields
from pathlib import Path
from typing import Any, TypeVar

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import FSDPModule, fully_shard
from torch.distributed.tensor import DTensor, distribute_tensor

from gpu_workers.errors import OutOfMemory
from gpu_workers.learner.answers import Answers
from gpu_workers.learner.branching import Pair
from gpu_workers.learner.head import Divergence
from gpu_workers.learner.learner import EPSILON, Learner
from gpu_workers.learner.policy import LoraShape, chosen_dtype
from gpu_workers.learner.scores import Objective, ScoredExample, replies
from gpu_workers.types import Example

SUMMED = frozenset({"tokens", "computed"})
"""Figures that are counts; of "seconds" the slowest process's count."""

T = TypeVar("T")


class SharedLearner(Learner):
    """Train one policy in a group of processes. What one is told, all are told in the same order; what one says, all
    say."""

    def __init__(
        self,
        model_dir: Path | str,
        *,
        lora: LoraShape | None,
        dtype: str = "auto",
        device: str = "cpu",
        is_sharded: bool = False,
        **more: Any,
    ) -> None:
        """As a Learner. Full weights are always sharded; `is_sharded` says so of an adapter's base too."""
        self.rank, self.world = dist.get_rank(), dist.get_world_size()
        self.is_sharded = is_sharded or lora is None
        self.is_summed = False
        if self.is_sharded and more.get("base_bits") == 4:
            raise ValueError("a base in shards cannot be held in 4 bits: set base_bits to 16")
        # What is quickest is measured, and may come out differently: all take what the first one found.
        found = str(chosen_dtype(dtype, torch.device(device))).removeprefix("torch.")
        super().__init__(model_dir, lora=lora, dtype=self._exchanged(found)[0], device=device, **more)

    # Where weights lie

    def _load(self, folder: Path | str) -> Any:
        if not self.is_sharded:
            return super()._load(folder)
        arrived, self.device = self.device, torch.device("cpu")  # a card never has to hold all of it
        try:
            return super()._load(folder)
        finally:
            self.device = arrived

    def _spread(self) -> list[dict[str, Any]]:
        if self.is_sharded:
            mesh = init_device_mesh(self.device.type, (self.world,))
            for causal in filter(None, (self.causal, self.frozen)):
                self._shard(causal, mesh)
        trained = [parameter for _, parameter in self.trainable()]
        whole = [parameter for parameter in trained if not isinstance(parameter, DTensor)]
        for parameter in whole:
            dist.broadcast(parameter.data, 0)
        parts = [parameter for parameter in trained if isinstance(parameter, DTensor)]
        return [{"params": group} for group in (whole, parts) if group]

    def _shard(self, causal: Any, mesh: Any) -> None:
        decoder = causal.get_decoder()
        adapted = {parameter for name, parameter in causal.named_parameters() if "lora_" in name}
        for layer in decoder.layers:
            fully_shard(layer, mesh=mesh, reshard_after_forward=True, ignored_params=adapted)
        rest = {parameter for parameter in causal.parameters() if not isinstance(parameter, DTensor)}
        fully_shard(decoder, mesh=mesh, ignored_params=rest)  # brings each layer while the one before it works
        for tensor in [*rest, *causal.buffers()]:
            tensor.data = tensor.data.to(self.device)
        for module in causal.modules():
            if isinstance(module, FSDPModule):
                module.set_force_sum_reduction_for_comms(True)
                module.set_gradient_divide_factor(1.0)  # the shares are weighed here already

    def _length(self, tensors: Sequence[Tensor]) -> float:
        whole = [tensor for tensor in tensors if not isinstance(tensor, DTensor)]
        parts = [tensor.to_local() for tensor in tensors if isinstance(tensor, DTensor)]
        squares = super()._length(parts) ** 2
        if self.is_sharded:
            squares = sum(self._exchanged(squares))
        return math.sqrt(super()._length(whole) ** 2 + squares)

    def _whole(self, tensor: Tensor) -> Tensor:
        return super()._whole(tensor.full_tensor() if isinstance(tensor, DTensor) else tensor)

    def _laid_out(self, tensor: Tensor, parameter: nn.Parameter) -> Tensor:
        if not isinstance(parameter, DTensor):
            return super()._laid_out(tensor, parameter)
        return distribute_tensor(tensor.to(parameter.dtype), parameter.device_mesh, parameter.placements)

    # Passes

    def each(
        self, look: Callable[[Sequence[Example]], list[ScoredExample]], examples: Sequence[Example]
    ) -> Iterator[list[ScoredExample]]:
        """Score examples with `look`, a call of `score_examples`, a micro-batch of every process's at a time: each
        process looks at its part, and all get all."""
        for first in range(0, len(examples), self.world * self.micro_batch):
            part = examples[first : first + self.world * self.micro_batch]
            mine = part[self.rank * self.micro_batch : (self.rank + 1) * self.micro_batch]
            # A process without any of its own repeats the last: sharded layers work only while everybody does.
            with self._alone():
                seen = look(mine or part[-1:])
            every = self._exchanged([_moved(sample, "cpu") for sample in seen])
            yield [_moved(sample, self.device) for samples in every for sample in samples][: len(part)]

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """One process cannot go on with smaller passes while the others wait: what it has no room for ends them all."""
        try:
            yield
        except OutOfMemory as error:
            raise MemoryError(str(error)) from error

    def forward_backward(
        self,
        samples: Sequence[ScoredExample],
        objective: Objective,
        *,
        scale: float = 1.0,
        divergence: Divergence | None = None,
        answers: Sequence[Answers] = (),
        progress: Callable[[int], None] | None = None,
    ) -> dict[str, float]:
        """As a Learner's, over all of the group's samples, and then its answers; the figures are of all of them too."""

        def learned(
            part: Sequence[ScoredExample], share: float, told: Callable[[int], None] | None
        ) -> dict[str, float]:
            return Learner.forward_backward(
                self, part, objective, scale=scale * share, divergence=divergence, progress=told
            )

        def seen(done: int) -> None:
            if progress:
                progress(min(len(samples), done * self.world))

        figures = self._parted(samples, learned, seen, replies(samples))
        for one in answers:
            said = self.supervise(one.pairs, weights=one.weights, scale=scale * one.scale)
            figures = one.beside(figures, said)
        return figures

    def supervise(
        self, pairs: Sequence[Pair], *, weights: Sequence[Sequence[float]] | None = None, scale: float = 1.0
    ) -> dict[str, float]:
        """As a Learner's, over all of the group's pairs."""
        weights = weights or [share.tolist() for share in Answers(pairs).shares]
        items = list(zip(pairs, weights, strict=True))

        def learned(
            part: Sequence[tuple[Pair, Sequence[float]]], share: float, told: Callable[[int], None] | None
        ) -> dict[str, float]:
            mine, theirs = zip(*part, strict=True)
            return Learner.supervise(self, mine, weights=theirs, scale=scale * share)

        return self._parted(items, learned, None, [True] * len(items))

    def logprobs(self, pairs: Sequence[Pair], *, adapter: bool = True) -> list[list[float]]:
        """As a Learner's: every process takes its part, and all have all. All parts are equally long, since sharded
        layers work only while every process does: one that has fewer repeats the last."""
        part = math.ceil(len(pairs) / self.world)
        mine = [pairs[min(at, len(pairs) - 1)] for at in range(self.rank * part, (self.rank + 1) * part)]
        with self._alone():
            found = super().logprobs(mine, adapter=adapter)
        return [one for each in self._exchanged(found) for one in each][: len(pairs)]

    def _parted(
        self,
        items: Sequence[T],
        learned: Callable[[Sequence[T], float, Callable[[int], None] | None], dict[str, float]],
        told: Callable[[int], None] | None,
        heard: Sequence[bool],
    ) -> dict[str, float]:
        """This process's part of the items, each with its share of the whole, and the figures of everybody's, which
        speak of those that are `heard`."""
        if not items:
            raise ValueError("nothing to learn from")
        if self.is_summed:
            raise RuntimeError("this step's gradients are added up already: take the step first")
        mine = items[self.rank :: self.world]
        with self._alone():
            figures = learned(mine, len(mine) / len(items), told) if mine else {}
            if self.is_sharded:  # everybody passes equally often, with nothing of their own if need be
                most = self._passes(math.ceil(len(items) / self.world))
                for _ in range(most - self._passes(len(mine))):
                    learned(items[:1], 0.0, None)
        return merge_figures(self._exchanged((len(mine), sum(heard[self.rank :: self.world]), figures)))

    def _passes(self, count: int) -> int:
        return math.ceil(count / self.micro_batch)

    def _together(self, pairs: Sequence[Pair], *, is_read: bool = False) -> list[list[int]]:
        """As a Learner's; by count alone where layers lie in shards, so that everybody passes equally often."""
        if not self.is_sharded:
            return super()._together(pairs, is_read=is_read)
        places, rows = list(range(len(pairs))), self.micro_batch * (2 if is_read else 1)
        return [places[first : first + rows] for first in range(0, len(pairs), rows)]

    # A step

    def has_gradient(self) -> bool:
        self._add_up()
        return self._length([p.grad for _, p in self.trainable() if p.grad is not None]) > 0.0

    def optim_step(
        self, lr: float, *, weight_decay: float = 0.1, max_grad_norm: float = 1.0, epsilon: float = EPSILON
    ) -> dict[str, float]:
        """As a Learner's, with the gradients of all."""
        self._add_up()
        self.is_summed = False
        return super().optim_step(lr, weight_decay=weight_decay, max_grad_norm=max_grad_norm, epsilon=epsilon)

    def _add_up(self) -> None:
        """Add the gradients of what lies whole everywhere; those of shards were added on the way back."""
        if self.is_summed:
            return
        self.is_summed = True
        waiting = []
        for _, parameter in self.trainable():
            if isinstance(parameter, DTensor):
                continue
            if parameter.grad is None:
                parameter.grad = torch.zeros_like(parameter)
            waiting.append(dist.all_reduce(parameter.grad, async_op=True))
        for work in waiting:
            work.wait()

    # Files

    def save(self, folder: Path | str) -> None:
        """As a Learner's: the first process writes what all of them hold, and none returns before it is written."""
        weights: dict[str, Tensor] | None = {} if self.is_full else None
        if weights is not None:
            for name, tensor in self.model.state_dict().items():
                whole = self._whole(tensor)
                if self.rank == 0:
                    weights[name] = whole
        moments = self._moments()
        if self.rank == 0:
            self._write(Path(folder), weights, moments)
        dist.barrier()

    def _exchanged(self, mine: T) -> list[T]:
        """What each process brings, in their order."""
        every: list[Any] = [None] * self.world
        dist.all_gather_object(every, mine)
        return every


def merge_figures(parts: Sequence[tuple[int, int, dict[str, float]]]) -> dict[str, float]:
    """Merge figures of several processes as one would have given them: (how many samples, how many of them replies that
    figures speak of, its figures) of each.

    >>> first = {"loss": 1.0, "kl": 0.25, "tokens": 8.0}
    >>> merge_figures([(2, 1, first), (1, 1, {"loss": 4.0, "kl": 0.75, "tokens": 5.0}), (0, 0, {})])
    {'loss': 2.0, 'kl': 0.5, 'tokens': 13.0}
    """
    names = dict.fromkeys(name for _, _, figures in parts for name in figures)
    found = {}
    for name in names:
        plain = [figures[name] for _, _, figures in parts if name in figures]
        if name in SUMMED:
            found[name] = sum(plain)
        elif name == "seconds" or name.endswith("_max"):
            found[name] = max(plain)
        elif name.endswith("_min"):
            found[name] = min(plain)
        else:
            weighed = [(count if name == "loss" else heard, figures.get(name, 0.0)) for count, heard, figures in parts]
            found[name] = sum(count * value for count, value in weighed) / sum(count for count, _ in weighed)
    return found


def _moved(sample: ScoredExample, device: torch.device | str) -> ScoredExample:
    values: dict[str, Any] = {field.name: getattr(sample, field.name) for field in fields(sample)}
    values |= {name: value.to(device) for name, value in values.items() if isinstance(value, Tensor)}
    return ScoredExample(**values)

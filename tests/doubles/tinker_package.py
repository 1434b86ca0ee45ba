"""What the `tinker` package raises, sends and receives: its names and signatures. `fake_tinker` answers with them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import Future as ConcurrentFuture
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

# What fails


class TinkerError(Exception):
    """The package's own; the rest hangs below it as it does there."""


class APIError(TinkerError): ...


class APIConnectionError(APIError): ...


class APIStatusError(APIError): ...


class BadRequestError(APIStatusError): ...


class AuthenticationError(APIStatusError): ...


class BillingError(APIStatusError): ...


class PermissionDeniedError(APIStatusError): ...


class NotFoundError(APIStatusError): ...


class RateLimitError(APIStatusError): ...


class InternalServerError(APIStatusError): ...


class RequestFailedError(TinkerError):
    def __init__(self, message: str, request_id: str = "", category: str = "unknown") -> None:
        super().__init__(message)
        self.category = category


# What is sent and comes back


@dataclass(frozen=True)
class ModelInput:
    tokens: list[int]

    @classmethod
    def from_ints(cls, tokens: list[int]) -> ModelInput:
        return cls(list(tokens))

    def to_ints(self) -> list[int]:
        return self.tokens


class TensorData:
    """float32 or int64, as the service takes numbers."""

    def __init__(self, tensor: Tensor) -> None:
        self.dtype = "float32" if tensor.is_floating_point() else "int64"
        self._tensor = tensor.to(torch.float32 if tensor.is_floating_point() else torch.int64)
        self.shape = list(tensor.shape)

    @classmethod
    def from_torch(cls, tensor: Tensor) -> TensorData:
        return cls(tensor)

    def to_torch(self, pad_value: int = 0) -> Tensor:
        return self._tensor


@dataclass(frozen=True)
class Datum:
    model_input: ModelInput
    loss_fn_inputs: dict[str, Any] = field(default_factory=dict)

    @property
    def shapes(self) -> dict[str, Any]:
        inputs = {name: [value.dtype, value.shape] for name, value in self.loss_fn_inputs.items()}
        return {"model_input": len(self.model_input.tokens), "loss_fn_inputs": inputs}


@dataclass(frozen=True)
class SamplingParams:
    max_tokens: int | None = None
    seed: int | None = None
    stop: str | Sequence[str] | Sequence[int] | None = None
    temperature: float = 1
    top_k: int = -1
    top_p: float = 1


@dataclass(frozen=True)
class AdamParams:
    learning_rate: float = 0.0001
    beta1: float = 0.9
    beta2: float = 0.95
    eps: float = 1e-12
    weight_decay: float = 0.0
    grad_clip_norm: float = 0.0


class Future:
    """A request that has been answered already; what it came to is only told when it is asked for."""

    def __init__(self, ask: Callable[[], Any]) -> None:
        self._future: ConcurrentFuture[Any] = ConcurrentFuture()
        try:
            self._future.set_result(ask())
        except Exception as error:
            self._future.set_exception(error)

    def result(self, timeout: float | None = None) -> Any:
        return self._future.result(timeout)

    async def result_async(self, timeout: float | None = None) -> Any:
        return await asyncio.wait_for(asyncio.wrap_future(self._future), timeout)

    def future(self) -> ConcurrentFuture[Any]:
        return self._future

    def __await__(self) -> Any:
        return self.result_async().__await__()

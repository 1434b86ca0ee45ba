"""The engine interface: what every engine can be asked, whichever answers.

EngineClient (one server), Fleet (several as one), Router (SGLang's own in front of several), TinkerEngine (a service)
and the tests' fakes all satisfy `Engine`, and callers depend on it alone.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Sequence
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any, Literal, Protocol

from gpu_workers.types import Choices, Completion, Delta, Sampling, Scored

PauseMode = Literal["abort", "retract", "in_place"]


class Engine(Protocol):
    """An engine generates and scores: token ids in, token ids and log-probs out.

    Every call raises EngineUnavailable when no server answers, and EngineRefused when the engine says no.
    """

    @property
    def url(self) -> str: ...

    @property
    def failures(self) -> int:
        """How often no server answered: behind each may stand a server that was started again, and forgot all."""
        ...

    @property
    def spare(self) -> SpareEngine | None:
        """The second server, for weights that this one does not serve at the time."""
        ...

    async def generate(
        self,
        prompt_ids: Sequence[int],
        sampling: Sampling,
        *,
        adapter: str | None = None,
        request_id: str | None = None,
        priority: int = 0,
        pictures: Sequence[str] = (),
    ) -> Completion:
        """Generate one whole reply. `adapter` may also name full weights. Raises AdapterMissing."""
        ...

    def stream(
        self,
        prompt_ids: Sequence[int],
        sampling: Sampling,
        *,
        adapter: str | None = None,
        request_id: str | None = None,
        priority: int = 0,
        pictures: Sequence[str] = (),
    ) -> AsyncGenerator[Delta, None]:
        """Generate a reply piece by piece; the last piece has the finish reason. Closing the iterator aborts it.
        `pictures`: data: URLs, one for each placeholder of the prompt, for an engine that sees."""
        ...

    async def score(
        self,
        prompt_ids: Sequence[int],
        response_ids: Sequence[int],
        *,
        adapter: str | None = None,
        priority: int = 0,
        top: int = 0,
    ) -> Scored:
        """Score each response token at temperature 1, with the `top` likeliest tokens at its place."""
        ...

    async def score_choices(
        self,
        prompt_ids: Sequence[int],
        choice_ids: Sequence[int],
        *,
        adapter: str | None = None,
        priority: int = 0,
    ) -> Choices:
        """Score each of these ids as the next token, at temperature 1."""
        ...

    async def load_adapter(self, name: str, path: str) -> None:
        """Load the adapter in folder `path`, on the engine's disk. Raises AdapterInvalid, and NoRoom."""
        ...

    async def unload_adapter(self, name: str) -> None:
        """Unload an adapter once its requests have ended. Raises AdapterMissing."""
        ...

    async def adapters(self) -> dict[str, str]:
        """List the loaded adapters: name to folder."""
        ...

    async def update_weights(self, path: str, *, version: str) -> None:
        """Serve the full weights in folder `path`, and stamp answers with `version`. Raises AdapterInvalid."""
        ...

    async def serving(self) -> str:
        """Name the full weights that answer now; empty for the base, with adapters or without."""
        ...

    async def pause(self, mode: PauseMode = "retract") -> None:
        """Stop sampling. retract: requests go on correctly afterwards; abort: they end with what they have."""
        ...

    async def resume(self) -> None: ...

    async def flush(self) -> None:
        """Forget all cached prefixes. Raises EngineRefused while requests are running."""
        ...

    async def abort(self, request_id: str) -> None:
        """End this request with what it has; no error when there is none."""
        ...

    async def ready(self) -> bool:
        """Tell whether new requests are taken. Never raises."""
        ...

    async def info(self) -> dict[str, Any]:
        """Describe the model: its folder, and the version of its weights as `weight_version`."""
        ...

    async def server_info(self) -> dict[str, Any]:
        """Read the server's settings. May hold keys: never show it to people."""
        ...

    async def metrics(self) -> dict[str, float]:
        """Read Prometheus samples, summed over their labels; empty when they are switched off."""
        ...

    async def aclose(self) -> None:
        """Close this event loop's connections."""
        ...


class SpareEngine(Protocol):
    """A second server serves the full weights, or the base, that the first does not at the time."""

    def know(self, name: str, folder: str | Path) -> None:
        """Note where the full weights of this name lie."""
        ...

    def serving(self, weights: str) -> AbstractAsyncContextManager[Engine]:
        """Lend the server with these full weights in place (empty: the base). Raises AdapterMissing."""
        ...

    async def load_adapter(self, name: str, path: str) -> None:
        """Load an adapter beside the base."""
        ...

    def aclose(self) -> Awaitable[None]: ...

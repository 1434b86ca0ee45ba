"""The service is the boundary to Tinker, Thinking Machines' training and sampling: its clients, and how they fail.

Everything that is asked of it leaves this machine. The `tinker` package is imported here, when it is asked, and
nowhere else; `package` takes a stand-in with the same names (tests/doubles/fake_tinker.py).
"""

from __future__ import annotations

import importlib
import os
import threading
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any

from gpu_workers.errors import EngineGarbled, EngineRefused, EngineUnavailable, KeyRefused

URL = "https://tinker.thinkingmachines.dev/services/tinker-prod"
"""Where the package sends everything, unless TINKER_BASE_URL says otherwise."""

PATIENCE_S = 1800.0
"""How long one answer is waited for: the service queues requests while it is short of machines."""


class TinkerMissing(KeyRefused):
    """The package, the key or the model's name is not there: an operator's omission; waiting does not help."""

    code, status, retryable = "tinker_missing", 503, False


class Service:
    """Ask one account at Tinker for one base model. Safe to share between threads; connects when first asked."""

    def __init__(self, model: str, *, api_key: str, url: str = URL, package: Any = None) -> None:
        """`model` is Tinker's name for the base, as in Qwen/Qwen3-8B; `package` stands in for the real one."""
        self.model, self.url = model, url.rstrip("/")
        self._api_key = api_key
        self._package = package
        self._client: Any = None
        self._samplers: dict[str, Any] = {}
        self._lock = threading.Lock()

    @property
    def package(self) -> Any:
        """The `tinker` package. Raises TinkerMissing with what to install."""
        if self._package is None:
            # It reports its own errors, which may quote a request, unless it is told not to before it is imported.
            os.environ.setdefault("TINKER_TELEMETRY", "0")
            try:
                self._package = importlib.import_module("tinker")
            except ImportError as error:
                raise TinkerMissing("LEARNER=tinker needs: python3 -m installation install tinker.") from error
        return self._package

    @property
    def client(self) -> Any:
        """The session that everything of this process belongs to. Blocks while it is opened."""
        package = self.package
        if not self._api_key:
            raise TinkerMissing("LEARNER=tinker needs TINKER_API_KEY.")
        if not self.model:
            raise TinkerMissing("LEARNER=tinker needs TINKER_MODEL, the base's name there, as in Qwen/Qwen3-8B.")
        with self._lock:
            if self._client is None:
                self._client = self._tried(lambda: package.ServiceClient(base_url=self.url, api_key=self._api_key))
            return self._client

    def trainer(self, *, rank: int, seed: int) -> Any:
        """A fresh adapter of the base under training; the head is left alone, as our own adapters leave it."""
        return self.answered(
            self.client.create_lora_training_client(self.model, rank=rank, seed=seed, train_unembed=False)
        )

    def trainer_from(self, state: str) -> Any:
        """The adapter saved at `state`, under training again with its optimiser."""
        return self.answered(self.client.create_training_client_from_state_with_optimizer(state))

    def sampler(self, weights: str | None = None) -> Any:
        """The client that samples and scores with the weights at that path; with the base's where there is none.
        Kept."""
        key = weights or ""
        if (known := self._samplers.get(key)) is None:
            client = self.client
            known = self.answered(
                client.create_sampling_client(model_path=weights)
                if weights
                else client.create_sampling_client(base_model=self.model)
            )
            self._samplers[key] = known
        return known

    def forget(self, weights: str) -> None:
        """Let go of a sampler; its weights stay where they are."""
        self._samplers.pop(weights, None)

    def offers(self) -> bool:
        """Whether the service answers and has the model now. Sends no text."""
        rest = self._tried(lambda: self.package.RestClient(base_url=self.url, api_key=self._api_key))
        models = self.answered(rest.get_server_capabilities()).supported_models
        return any(one.model_name == self.model and one.sampleable is not False for one in models)

    def fetch(self, path: str, folder: Path, download: Callable[[str, Path], object]) -> list[str]:
        """Copy the files of external weights at `path` to `folder`; `download` takes an address and a file.

        Returns their names. A name that leads out of the folder raises EngineRefused.
        """
        rest = self._tried(lambda: self.package.RestClient(base_url=self.url, api_key=self._api_key))
        urls: dict[str, str] = self.answered(rest.get_external_weights_urls(path)).urls
        for name, url in urls.items():
            file = folder / name
            if folder.resolve() not in file.resolve().parents:
                raise EngineRefused(f"Tinker named a file outside of the checkpoint's folder: {name}")
            file.parent.mkdir(parents=True, exist_ok=True)
            download(url, file)
        return sorted(urls)

    def datum(self, ids: Sequence[int], **inputs: Any) -> Any:
        """A sequence with its inputs of the loss, each as long as what is predicted: one less than the ids."""
        tensor = self.package.TensorData.from_torch
        return self.package.Datum(
            model_input=self.package.ModelInput.from_ints(list(ids[:-1])),
            loss_fn_inputs={name: tensor(value) for name, value in inputs.items()},
        )

    def answered(self, future: Any) -> Any:
        """What a request came to. Blocks. Raises EngineUnavailable, EngineRefused or KeyRefused."""
        return self._tried(lambda: future.result(timeout=PATIENCE_S))

    async def awaited(self, future: Awaitable[Any]) -> Any:
        """The same for a caller in an event loop."""
        try:
            return await future
        except Exception as error:
            raise self._named(error) from error

    def _tried(self, ask: Callable[[], Any]) -> Any:
        try:
            return ask()
        except Exception as error:
            named = self._named(error)
            if named is error:
                raise
            raise named from error

    def _named(self, error: Exception) -> Exception:
        """A failure of the package's in our words; whatever has no name there stays what it is."""
        there = self.package
        if isinstance(error, (there.AuthenticationError, there.PermissionDeniedError)):
            return KeyRefused("Tinker refuses this key: check TINKER_API_KEY.")
        if isinstance(error, there.BillingError):
            return KeyRefused(f"Tinker asks for payment first: {error}")
        if isinstance(error, (there.RateLimitError, there.InternalServerError, there.APIConnectionError, TimeoutError)):
            return EngineUnavailable(f"Tinker does not answer: {str(error) or type(error).__name__}")
        if isinstance(error, there.RequestFailedError) and str(error.category) != "user":
            return EngineUnavailable(f"Tinker failed: {error}")
        if isinstance(error, there.TinkerError):
            return EngineRefused(f"Tinker refused: {error}")
        return error


def scored(said: Sequence[float | None] | None, length: int, count: int) -> list[float]:
    """Read the last `count` of a prompt's log-probs. Raises EngineGarbled where one is missing or the lengths
    disagree."""
    if said is None or len(said) != length:
        raise EngineGarbled(f"Tinker returned {len(said or ())} log-probs for {length} tokens.")
    last = [value for value in said[-count:] if value is not None]
    if len(last) != count:
        raise EngineGarbled(f"Tinker returned no log-prob for {count - len(last)} of {count} tokens.")
    return [float(value) for value in last]

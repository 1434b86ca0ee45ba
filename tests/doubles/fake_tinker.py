"""Stand in for the `tinker` package: its names and signatures, and a model small enough to check every number.

It computes: log-probs, gradients, AdamW and draws are real, on a table with a low-rank adapter. What it was asked is
kept as shapes. It was written from the package's own source (0.38.0) and is held to it by tests; nothing of it was
ever compared with the service.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Literal

import torch
from torch import Tensor

from tests.doubles.tinker_package import (
    AdamParams,
    APIConnectionError,
    APIError,
    APIStatusError,
    AuthenticationError,
    BadRequestError,
    BillingError,
    Datum,
    Future,
    InternalServerError,
    ModelInput,
    NotFoundError,
    PermissionDeniedError,
    RateLimitError,
    RequestFailedError,
    SamplingParams,
    TensorData,
    TinkerError,
)
from tests.doubles.tinker_table import WIDTH, Saved, Table, copied

MODEL = "table/Table-1"


# The clients


class ServiceClient:
    cloud: FakeTinker

    def __init__(
        self,
        user_metadata: dict[str, str] | None = None,
        project_id: str | None = None,
        *,
        display_name: str | None = None,
        base_url: str | None = None,
        api_key: str | None = None,
        default_headers_overrides: Mapping[str, str] | None = None,
        **kwargs: Any,
    ) -> None:
        self.cloud.enter(api_key)

    def create_lora_training_client(
        self,
        base_model: str,
        rank: int = 32,
        seed: int | None = None,
        train_mlp: bool = True,
        train_attn: bool = True,
        train_unembed: bool = True,
        user_metadata: dict[str, str] | None = None,
        optimizer: Any = None,
    ) -> Future:
        def create() -> TrainingClient:
            self.cloud.note("create_lora_training_client", base_model=base_model, rank=rank, seed=seed)
            self.cloud.knows(base_model)
            draw = torch.Generator().manual_seed(seed or 0)
            fresh = (torch.randn(WIDTH, rank, generator=draw), torch.zeros(rank, self.cloud.vocabulary))
            return TrainingClient(self.cloud, Saved(fresh, {}, rank, base_model))

        return Future(create)

    def create_training_client_from_state_with_optimizer(
        self,
        path: str,
        base_model: str | None = None,
        user_metadata: dict[str, str] | None = None,
        weights_access_token: str | None = None,
    ) -> Future:
        def create() -> TrainingClient:
            self.cloud.note("create_training_client_from_state_with_optimizer", path=path)
            return TrainingClient(self.cloud, self.cloud.found(path))

        return Future(create)

    def create_sampling_client(
        self,
        model_path: str | None = None,
        base_model: str | None = None,
        retry_config: Any = None,
        record_stability_info: bool = False,
    ) -> Future:
        def create() -> SamplingClient:
            self.cloud.note("create_sampling_client", model_path=model_path, base_model=base_model)
            if model_path is None and base_model is None:
                raise ValueError("Either model_path or base_model must be provided")
            if model_path is None:
                self.cloud.knows(str(base_model))
                return SamplingClient(self.cloud, None)
            return SamplingClient(self.cloud, self.cloud.found(model_path).adapter)

        return Future(create)


class TrainingClient:
    """An adapter under training."""

    def __init__(self, cloud: FakeTinker, saved: Saved) -> None:
        self.cloud, self.rank, self.model = cloud, saved.rank, saved.model
        self.adapter = tuple(part.clone().requires_grad_() for part in saved.adapter)
        self.optimizer = torch.optim.AdamW(self.adapter, lr=0.0)
        self.sloped: list[Datum] = []
        """What the last custom loss became."""
        if saved.optimizer:
            self.optimizer.load_state_dict(saved.optimizer)

    def forward(
        self, data: list[Datum], loss_fn: str, loss_fn_config: Mapping[str, float | str] | None = None
    ) -> Future:
        return Future(lambda: self._cross_entropy("forward", data, loss_fn, backward=False))

    def forward_backward(
        self, data: list[Datum], loss_fn: str, loss_fn_config: Mapping[str, float | str] | None = None
    ) -> Future:
        return Future(lambda: self._cross_entropy("forward_backward", data, loss_fn, backward=True))

    def forward_backward_custom(
        self,
        data: list[Datum],
        loss_fn: Callable[[list[Datum], list[Tensor]], tuple[Tensor, dict[str, float]]],
        *,
        loss_type_input: Literal["logprobs"] | None = None,
    ) -> Future:
        """The caller differentiates the loss; its slopes come back as weights of a cross entropy."""

        def ask() -> Any:
            targets = [datum.loss_fn_inputs["target_tokens"] for datum in data]
            blank = [
                Datum(
                    datum.model_input,
                    {"target_tokens": target, "weights": TensorData(torch.zeros(target.shape))},
                )
                for datum, target in zip(data, targets, strict=True)
            ]
            said = self._cross_entropy("forward", blank, "cross_entropy", backward=False)
            leaves = [one["logprobs"].to_torch().clone().requires_grad_() for one in said.loss_fn_outputs]
            loss, metrics = loss_fn(data, leaves)
            loss.backward()
            slopes = []
            for leaf in leaves:
                if leaf.grad is None:
                    raise ValueError("No gradient computed for logprob tensor")
                slopes.append(leaf.grad)
            self.sloped = [
                Datum(datum.model_input, {"target_tokens": target, "weights": TensorData(-slope)})
                for datum, target, slope in zip(data, targets, slopes, strict=True)
            ]
            answer = self._cross_entropy("forward_backward", self.sloped, "cross_entropy", backward=True)
            answer.metrics.update(metrics, **{"surrogate_loss:sum": answer.metrics["loss:sum"]})
            answer.metrics["loss:sum"] = float(loss.detach())
            return answer

        return Future(ask)

    def _cross_entropy(self, call: str, data: Sequence[Datum], loss_fn: str, *, backward: bool) -> Any:
        """L = −Σ weight · log-prob, over all tokens of all sequences."""
        self.cloud.note(call, loss_fn=loss_fn, data=[datum.shapes for datum in data])
        if loss_fn != "cross_entropy":
            raise BadRequestError(f"the stand-in knows cross_entropy, not {loss_fn}")
        outputs, total = [], torch.zeros(())
        for datum in data:
            target = datum.loss_fn_inputs["target_tokens"].to_torch()
            logits = self.cloud.table.logits(datum.model_input.tokens, self.adapter)  # type: ignore[arg-type]
            logprobs = logits.log_softmax(-1).gather(-1, target[:, None]).squeeze(-1)
            total = total - (datum.loss_fn_inputs["weights"].to_torch() * logprobs).sum()
            outputs.append({"logprobs": TensorData(logprobs.detach())})
        if backward:
            total.backward()
        return SimpleNamespace(
            loss_fn_output_type="ArrayRecord",
            loss_fn_outputs=outputs,
            metrics={"loss:sum": float(total.detach())},
        )

    def optim_step(self, optim_params: AdamParams | None = None, *, adam_params: AdamParams | None = None) -> Future:
        rule = optim_params or adam_params
        assert rule is not None

        def step() -> Any:
            self.cloud.note("optim_step", **vars(rule))
            parts = list(self.adapter)
            norm = float(torch.nn.utils.clip_grad_norm_(parts, rule.grad_clip_norm or float("inf")))
            for group in self.optimizer.param_groups:
                group.update(
                    lr=rule.learning_rate,
                    betas=(rule.beta1, rule.beta2),
                    eps=rule.eps,
                    weight_decay=rule.weight_decay,
                )
            self.optimizer.step()
            self.optimizer.zero_grad()
            return SimpleNamespace(metrics={"unclipped_grad_l2:mean": norm} if self.cloud.tells_norm else None)

        return Future(step)

    def save_state(
        self, name: str, ttl_seconds: int | None = None, overwrite: bool = False, user_metadata: Any = None
    ) -> Future:
        return self._save("save_state", "weights", name)

    def save_weights_for_sampler(
        self, name: str, ttl_seconds: int | None = None, user_metadata: dict[str, str] | None = None
    ) -> Future:
        return self._save("save_weights_for_sampler", "sampler_weights", name)

    def save_weights_external(
        self, name: str, ttl_seconds: int | None = None, age_encryption_recipients: list[str] | None = None
    ) -> Future:
        return self._save("save_weights_external", "external_weights", name)

    def _save(self, call: str, kind: str, name: str) -> Future:
        def save() -> Any:
            self.cloud.note(call, name=name)
            path = f"tinker://run-1/{kind}/{name}"
            weights = tuple(part.detach().clone() for part in self.adapter)
            state = {"state": {}, "param_groups": []} | copied(self.optimizer.state_dict())
            self.cloud.kept[path] = Saved(weights, state, self.rank, self.model)  # type: ignore[arg-type]
            return SimpleNamespace(path=path)

        return Future(save)


class SamplingClient:
    def __init__(self, cloud: FakeTinker, adapter: tuple[Tensor, Tensor] | None) -> None:
        self.cloud, self.adapter = cloud, adapter

    def sample(
        self,
        prompt: ModelInput,
        num_samples: int,
        sampling_params: SamplingParams,
        include_prompt_logprobs: bool = False,
        topk_prompt_logprobs: int = 0,
        topk_sample_logprobs: int = 0,
        target_prompt_logprobs: Any = None,
        prompt_alt_tokens_k: int = 0,
        prompt_logprobs_last_n: int | None = None,
    ) -> Future:
        params = sampling_params

        def draw() -> Any:
            self.cloud.note("sample", prompt=len(prompt.tokens), num_samples=num_samples, **vars(params))
            drawn = [self._drawn(prompt.tokens, params, topk_sample_logprobs) for _ in range(num_samples)]
            return SimpleNamespace(sequences=drawn, prompt_cache_hit_tokens=0)

        return Future(draw)

    @torch.no_grad()
    def _drawn(self, prompt: Sequence[int], params: SamplingParams, top: int) -> Any:
        source = torch.Generator().manual_seed(params.seed or 0)
        ids: list[int] = []
        logprobs: list[float] = []
        likeliest: list[list[tuple[int, float]]] = []
        reason = "length"
        while len(ids) < (params.max_tokens or 64):
            logits = self.cloud.table.logits([*prompt, *ids], self.adapter)[-1]
            logs = (logits / max(params.temperature, 1e-6)).log_softmax(-1)
            allowed = logs.topk(params.top_k if params.top_k > 0 else len(logs))
            before = allowed.values.exp().cumsum(0) - allowed.values.exp()
            weights = allowed.values.exp() * (before < params.top_p)
            chosen = int(allowed.indices[torch.multinomial(weights, 1, generator=source)])
            ids.append(chosen)
            logprobs.append(float(logs[chosen]))
            first = logs.topk(top)
            likeliest.append(list(zip(first.indices.tolist(), first.values.tolist(), strict=True)))
            if chosen in (params.stop or ()):
                reason = "stop"
                break
        return SimpleNamespace(
            tokens=ids, logprobs=logprobs, stop_reason=reason, topk_logprobs=likeliest if top else None
        )

    def compute_logprobs(self, prompt: ModelInput, prompt_logprobs_last_n: int | None = None) -> Future:
        @torch.no_grad()
        def score() -> list[float | None]:
            ids = prompt.tokens
            self.cloud.note("compute_logprobs", prompt=len(ids), prompt_logprobs_last_n=prompt_logprobs_last_n)
            logs = self.cloud.table.logits(ids, self.adapter)[:-1].log_softmax(-1)
            said = logs.gather(-1, torch.tensor(ids[1:])[:, None]).squeeze(-1).tolist()
            last = prompt_logprobs_last_n or len(said)
            if not 1 <= last <= len(said):
                raise BadRequestError(f"prompt_logprobs_last_n is between 1 and {len(said)}")
            return [None] * (len(ids) - last) + said[-last:]

        return Future(score)


class RestClient:
    cloud: FakeTinker

    def __init__(self, _holder: Any = None, *, base_url: str | None = None, api_key: str | None = None) -> None:
        self.cloud.enter(api_key)

    def get_server_capabilities(self) -> Future:
        def ask() -> Any:
            self.cloud.note("get_server_capabilities")
            one = SimpleNamespace(model_name=self.cloud.model, sampleable=True)
            return SimpleNamespace(supported_models=[one])

        return Future(ask)

    def get_external_weights_urls(self, tinker_path: str) -> Future:
        def ask() -> Any:
            self.cloud.note("get_external_weights_urls", tinker_path=tinker_path)
            self.cloud.found(tinker_path)
            base = f"https://storage.fake.internal/{tinker_path.rpartition('/')[2]}"
            return SimpleNamespace(urls={name: f"{base}/{name}" for name in self.cloud.files})

        return Future(ask)


class FakeTinker:
    """What `import tinker` gives, with one account and one model behind it."""

    TinkerError, APIError, APIConnectionError, APIStatusError = (
        TinkerError,
        APIError,
        APIConnectionError,
        APIStatusError,
    )
    BadRequestError, AuthenticationError, BillingError = BadRequestError, AuthenticationError, BillingError
    PermissionDeniedError, NotFoundError, RateLimitError = PermissionDeniedError, NotFoundError, RateLimitError
    InternalServerError, RequestFailedError = InternalServerError, RequestFailedError
    ModelInput, TensorData, Datum = ModelInput, TensorData, Datum
    SamplingParams, AdamParams = SamplingParams, AdamParams
    TrainingClient, SamplingClient = TrainingClient, SamplingClient

    def __init__(self, *, vocabulary: int = 64, seed: int = 0, model: str = MODEL, key: str = "key") -> None:
        self.vocabulary, self.model, self.key = vocabulary, model, key
        self.table = Table(vocabulary, seed)
        self.kept: dict[str, Saved] = {}
        self.calls: list[dict[str, Any]] = []
        self.files = {"adapter_config.json": b"{}", "adapter_model.safetensors": b"weights"}
        self.tells_norm = True
        self._failures: dict[str, Exception] = {}
        self.ServiceClient = type("ServiceClient", (ServiceClient,), {"cloud": self})
        self.RestClient = type("RestClient", (RestClient,), {"cloud": self})

    def fails(self, call: str, error: Exception | None) -> None:
        """Answer this call with `error` from now on; None: as usual again."""
        if error is None:
            self._failures.pop(call, None)
        else:
            self._failures[call] = error

    def enter(self, api_key: str | None) -> None:
        if api_key != self.key:
            raise AuthenticationError("Invalid API key")

    def knows(self, model: str) -> None:
        if model != self.model:
            raise BadRequestError(f"{model} is not supported")

    def found(self, path: str) -> Saved:
        if path not in self.kept:
            raise NotFoundError(f"{path} is not there")
        return self.kept[path]

    def note(self, call: str, **shape: Any) -> None:
        self.calls.append({"call": call, **shape})
        if (failure := self._failures.get(call)) is not None:
            raise failure

    def asked(self, call: str) -> list[dict[str, Any]]:
        return [one for one in self.calls if one["call"] == call]

    def download(self, url: str, file: Path) -> None:
        """Stands in for gpu_workers.tinker.tinker_learner.download."""
        file.write_bytes(self.files[url.rpartition("/")[2]])

"""The Tinker learner takes its gradients at Tinker: the calls of gpu_workers.learner.learner.Learner, the same numbers.

Tinker gives log-probs of chosen tokens and takes any loss of them, by its gradient: forward_backward_custom asks for
the log-probs, has our own objective differentiated here, and sends the derivatives back as weights of a cross entropy.
So every objective of per-token log-probs is exact, clip, anchor and means included. What needs a whole distribution
of the policy is not to be had.
"""

from __future__ import annotations

import logging
import math
import os
import shutil
import time
import uuid
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Literal

import httpx
import torch
from torch import Tensor

from core.errors import TalkbackError
from gpu_workers.errors import AdapterInvalid, EngineRefused, NothingLearned
from gpu_workers.learner.answers import Answers
from gpu_workers.learner.branching import Pair
from gpu_workers.learner.head import Divergence
from gpu_workers.learner.learner import EPSILON
from gpu_workers.learner.scores import Objective, ScoredExample, Scores
from gpu_workers.tinker import archives
from gpu_workers.tinker.service import Service, scored
from gpu_workers.types import Example

log = logging.getLogger(__name__)

GRADIENT_NORM = "unclipped_grad_l2:mean"
"""What the service calls the gradient's length, where it says it."""


def download(url: str, file: Path) -> None:
    """Copy what is at an address to a file."""
    with httpx.stream("GET", url, follow_redirects=True, timeout=300.0) as answer:
        answer.raise_for_status()
        with file.open("wb") as out:
            for piece in answer.iter_bytes():
                out.write(piece)


class TinkerLearner:
    """Train a policy at Tinker, with its optimiser there, beside the frozen base.

    `adapter_dir` is a checkpoint that another run at Tinker left; without one, a fresh adapter. The base's and the
    teacher's numbers come from the service's samplers, the policy's own from its trainer. Nothing here is safe to
    call from two threads.
    """

    precision = "bfloat16"
    """The service does not say what it computes in; numbers are compared as loosely as this one allows."""

    def __init__(
        self,
        service: Service,
        *,
        adapter_dir: Path | str | None = None,
        rank: int = 16,
        seed: int = 0,
        keep: Callable[[str, Path], object] | None = None,
    ) -> None:
        """`keep` (`download`) copies the adapter's files beside each checkpoint; None leaves them at the service.

        Raises AdapterInvalid when the checkpoint is none of Tinker's, or another base's.
        """
        self.service, self.rank, self._keep = service, rank, keep
        self.steps = 0
        self.is_fresh = adapter_dir is None
        if adapter_dir is None:
            self._trainer = service.trainer(rank=rank, seed=seed)
        else:
            place = archives.read(adapter_dir)
            if place.model != service.model:
                raise AdapterInvalid(f"{Path(adapter_dir).name} belongs to {place.model}, not to {service.model}.")
            self.rank, self.steps = place.rank, place.steps
            self._trainer = service.trainer_from(place.state)
        self._pulls = False  # whether anything gathered so far would move a weight

    # Passes

    def score(self, prompt_ids: Sequence[int], response_ids: Sequence[int], *, adapter: bool = True) -> list[float]:
        """Log-probs at temperature 1 of each response id, by the policy, or by the base with `adapter=False`."""
        if not prompt_ids or not response_ids:
            raise ValueError("scoring needs a prompt and a response")
        if not adapter:
            return self._sampled(prompt_ids, response_ids)
        return self._trained([(prompt_ids, response_ids)])[0].tolist()

    def score_example(
        self,
        example: Example,
        *,
        teacher: Literal["base", "policy"] = "base",
        with_distribution: bool = False,
    ) -> ScoredExample:
        """What the frozen models say of an example. Call it before the run's first update, and keep it.

        Distributions are never seen.
        """
        prompt, response = example.prompt_ids, example.response_ids
        start = torch.tensor(self.score(prompt, response))
        reference = start if self.is_fresh else torch.tensor(self._sampled(prompt, response))
        taught: Tensor | None = None
        if example.teacher_prompt_ids is not None:
            hinted = example.teacher_prompt_ids
            taught = torch.tensor(
                self._sampled(hinted, response) if teacher == "base" else self.score(hinted, response)
            )
        return ScoredExample(
            example=example,
            reference_logprobs=reference,
            start_logprobs=start,
            teacher_logprobs=taught,
            target_hidden=torch.zeros(len(response), 0),  # hidden states are not to be had
            teacher_distance=0.0 if taught is None else float((taught - start).abs().mean()),
        )

    def score_examples(self, examples: Sequence[Example], **how: Any) -> list[ScoredExample]:
        """`score_example` of each."""
        return [self.score_example(example, **how) for example in examples]

    def logprobs(self, pairs: Sequence[Pair], *, adapter: bool = True) -> list[list[float]]:
        """`score` of each."""
        if not adapter and not self.is_fresh:
            return [self._sampled(prompt, answer) for prompt, answer in pairs]
        return [one.tolist() for one in self._trained(pairs)]

    def _sampled(self, prompt_ids: Sequence[int], response_ids: Sequence[int]) -> list[float]:
        """The base's log-probs, by a sampler."""
        ids = self.service.package.ModelInput.from_ints([*prompt_ids, *response_ids])
        said = self.service.answered(
            self.service.sampler().compute_logprobs(ids, prompt_logprobs_last_n=len(response_ids))
        )
        return scored(said, len(prompt_ids) + len(response_ids), len(response_ids))

    def _trained(self, pairs: Sequence[Pair]) -> list[Tensor]:
        """The policy's log-probs of each answer, (T,) each, by the trainer: no gradient is kept."""
        data = [self._datum(prompt, answer, torch.zeros(len(answer))) for prompt, answer in pairs]
        said = self.service.answered(self._trainer.forward(data, "cross_entropy"))
        return _responses([one["logprobs"].to_torch() for one in said.loss_fn_outputs], pairs)

    def _datum(self, prompt: Sequence[int], answer: Sequence[int], weights: Tensor | None = None) -> Any:
        """Prompt and answer as the service takes them: inputs but the last, targets but the first."""
        ids = [*prompt, *answer]
        inputs = {"target_tokens": torch.tensor(ids[1:])}
        if weights is not None:
            inputs["weights"] = torch.cat([torch.zeros(len(prompt) - 1), weights])
        return self.service.datum(ids, **inputs)

    # A step

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
        """Add the gradient of scale · (mean loss over the samples + the losses of `answers`), in a request for each.

        As the local learner's, but for "entropy", which takes a whole distribution and is not returned, and
        `divergence`, which takes one too and raises EngineRefused.
        """
        if not samples:
            raise ValueError("nothing to learn from: no samples")
        if divergence is not None:
            raise EngineRefused("Tinker gives log-probs of chosen tokens: a distribution cannot be distilled there.")
        began = time.monotonic()
        examples = [sample.example for sample in samples]
        pairs = [(e.prompt_ids, e.response_ids) for e in examples]
        found: dict[str, float] = {}

        def loss(data: Sequence[Any], logprobs: Sequence[Tensor]) -> tuple[Tensor, dict[str, float]]:
            served = _responses(logprobs, pairs)
            total, figures = objective(Scores.of(samples, served))
            if not torch.isfinite(total):
                raise NothingLearned(f"The loss of this batch is {float(total.detach())}: nothing was changed.")
            found.update({name: float(value) for name, value in figures.items()}, loss=float(total.detach()))
            slopes = torch.autograd.grad(total, served, retain_graph=True)
            self._pulls = self._pulls or any(bool(slope.any()) for slope in slopes)
            return total * scale, {}

        data = [self._datum(prompt, answer) for prompt, answer in pairs]
        self.service.answered(self._trainer.forward_backward_custom(data, loss))
        if progress:
            progress(len(samples))
        tokens = sum(len(e.response_ids) for e in examples)
        figures = {**found, "tokens": float(tokens), "seconds": time.monotonic() - began}
        for one in answers:
            said = self.supervise(one.pairs, weights=one.weights, scale=scale * one.scale)
            figures = one.beside(figures, said)
        return figures

    def supervise(
        self, pairs: Sequence[Pair], *, weights: Sequence[Sequence[float]] | None = None, scale: float = 1.0
    ) -> dict[str, float]:
        """Add the gradient of scale · (mean over (prompt, answer) of the mean −log-prob of the answer's tokens), or,
        with the `weights` of Answers, of their weighted sum."""
        began = time.monotonic()
        shares = Answers(pairs, weights).shares
        data = [
            self._datum(prompt, answer, share * (scale / len(pairs)))
            for (prompt, answer), share in zip(pairs, shares, strict=True)
        ]
        said = self.service.answered(self._trainer.forward_backward(data, "cross_entropy"))
        served = _responses([one["logprobs"].to_torch() for one in said.loss_fn_outputs], pairs)
        loss = -sum(float((one * share).sum()) for one, share in zip(served, shares, strict=True)) / len(pairs)
        if not math.isfinite(loss):
            raise NothingLearned(f"The loss of these pairs is {loss}: nothing was changed.")
        self._pulls = self._pulls or scale != 0
        tokens = float(sum(len(answer) for _, answer in pairs))
        computed = float(sum(len(prompt) + len(answer) - 1 for prompt, answer in pairs))
        return {"loss": loss, "tokens": tokens, "computed": computed, "seconds": time.monotonic() - began}

    def has_gradient(self) -> bool:
        """Whether anything gathered so far would move a weight."""
        return self._pulls

    def optim_step(
        self, lr: float, *, weight_decay: float = 0.1, max_grad_norm: float = 1.0, epsilon: float = EPSILON
    ) -> dict[str, float]:
        """One AdamW update (betas 0.9 and 0.98) at the service, which keeps the optimiser.

        Returns "grad_norm" where the service says it; how long the weights are and how far they moved it does not.
        Raises NothingLearned, with nothing touched, when every derivative that was sent is zero.
        """
        if not self._pulls:
            raise NothingLearned("The gradient is zero everywhere: these samples teach nothing.")
        rule = self.service.package.AdamParams(
            learning_rate=lr,
            beta1=0.9,
            beta2=0.98,
            eps=epsilon,
            weight_decay=weight_decay,
            grad_clip_norm=max_grad_norm,
        )
        said = self.service.answered(self._trainer.optim_step(rule)).metrics or {}
        self._pulls = False
        self.steps += 1
        self.is_fresh = False
        norm = said.get(GRADIENT_NORM)
        if norm is None:
            return {}
        if not math.isfinite(norm):
            raise NothingLearned(f"The gradient is {norm}: throw this policy away.")
        return {"grad_norm": float(norm)}

    # Files

    def save(self, folder: Path | str) -> None:
        """Keep the policy and its optimiser at the service, and in `folder` where they are, whole or not at all.

        The adapter's files are copied beside it where the service hands them out; where it does not, a warning says
        so, and the service has the only copy. Raises FileExistsError when the folder is there already.
        """
        folder = Path(folder)
        if folder.exists():
            raise FileExistsError(f"{folder.name} is there already, and checkpoints are never overwritten")
        folder.parent.mkdir(parents=True, exist_ok=True)
        partial = folder.parent / f".{folder.name}.{uuid.uuid4().hex[:8]}"
        partial.mkdir()
        try:
            state = self.service.answered(self._trainer.save_state(folder.name)).path
            weights = self.service.answered(self._trainer.save_weights_for_sampler(folder.name)).path
            external = self._kept(folder.name, partial / "adapter") if self._keep else ""
            archives.Place(weights, state, self.service.model, self.rank, self.steps, external).write(partial)
            for path in [*(path for path in partial.rglob("*") if path.is_file()), partial]:
                _flush(path)
            partial.rename(folder)
            _flush(folder.parent)
        except BaseException:
            shutil.rmtree(partial, ignore_errors=True)
            raise

    def _kept(self, name: str, folder: Path) -> str:
        """Copy the adapter's files; the path of them at the service, empty where there are none to be had."""
        assert self._keep is not None
        try:
            external = str(self.service.answered(self._trainer.save_weights_external(name)).path)
            self.service.fetch(external, folder, self._keep)
        except (TalkbackError, httpx.HTTPError) as failure:  # the run is not lost for a copy of it
            log.warning("%s has no copy on this machine, Tinker alone holds its weights: %s", name, failure)
            shutil.rmtree(folder, ignore_errors=True)
            return ""
        return external


def _responses(logprobs: Sequence[Tensor], pairs: Sequence[Pair]) -> list[Tensor]:
    """Of each sequence's log-probs those of its answer, (T,). Lengths that disagree raise EngineRefused."""
    rows = []
    for one, (prompt, answer) in zip(logprobs, pairs, strict=True):
        if one.shape != (len(prompt) + len(answer) - 1,):
            raise EngineRefused(
                f"Tinker returned log-probs of shape {tuple(one.shape)} for {len(prompt) + len(answer) - 1} tokens."
            )
        rows.append(one[len(prompt) - 1 :])
    return rows


def _flush(path: Path) -> None:
    """Make sure a file or a folder's list of names is on disk before anything says so."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)

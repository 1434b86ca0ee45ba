"""The learner: takes gradients on token ids. LoRA or full weights, one class; it knows tokens, never turns.

Every pass runs the transformer's body first and the language-model head afterwards, in pieces and on response
positions only: full logits, (tokens, vocabulary), are the largest thing in a step of a small model and are never
kept. The head's own gradient is taken in the same sweep, so its logits are computed once.
"""

from __future__ import annotations

import json
import math
import os
import shutil
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import torch
from peft import LoraConfig, PeftModel, get_peft_model
from safetensors.torch import load_file, save_file
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint
from transformers import AutoModelForCausalLM

from gpu_workers.errors import AdapterInvalid, NothingLearned
from gpu_workers.types import Example

Divergence = Callable[[Tensor, Tensor], Tensor]
"""(N, V) log-probs of the policy and of its teacher to (N,): how far apart they are at each position."""

OPTIMIZER_FILE = "optimizer.safetensors"
STATE_FILE = "learner.json"


@dataclass(frozen=True)
class LoraShape:
    """The low-rank adapter's shape; targets are PEFT's, and "all-linear" leaves the head alone."""

    rank: int = 16
    alpha: int = 32
    targets: str | tuple[str, ...] = "all-linear"


LORA = LoraShape()


@dataclass(frozen=True)
class View:
    """An example as the frozen models see it. It does not change while a run updates the policy."""

    example: Example
    reference_logprobs: Tensor  # (T,) the base's
    start_logprobs: Tensor  # (T,) the policy's before the run's first update
    teacher_logprobs: Tensor | None  # (T,) given the hint
    target_hidden: Tensor  # (T, D) what the head makes the teacher's whole distribution of; the base's, without one
    teacher_distance: float  # mean |log π_T − log π| over the response; 0 says that the hint changes nothing


@dataclass(frozen=True)
class Scores:
    """A micro-batch as an objective sees it; B sequences, T response tokens, padding under mask 0."""

    logprobs: Tensor  # (B, T) under training
    distance: Tensor  # (B, T) the policy's divergence from its teacher, or from the base where there is no teacher
    old_logprobs: Tensor  # (B, T) recorded when served
    start_logprobs: Tensor  # (B, T)
    reference_logprobs: Tensor  # (B, T)
    teacher_logprobs: Tensor  # (B, T) 0 where there is no teacher
    mask: Tensor  # (B, T)
    reward: Tensor  # (B,)
    has_teacher: Tensor  # (B,)
    weight: Tensor  # (B,)


Objective = Callable[[Scores], tuple[Tensor, dict[str, Tensor]]]
"""A micro-batch to its mean loss over its sequences, and figures that are means over its sequences too."""


class _Head(torch.autograd.Function):
    """Hidden states to per-position scalars, with the gradient of each taken while its logits are at hand."""

    @staticmethod
    def forward(
        ctx: Any,
        hidden: Tensor,  # (N, D)
        weight: Tensor,  # (V, D)
        ids: Tensor,  # (N,)
        target_hidden: Tensor,  # (N, D)
        divergence: Divergence | None,
        piece: int,
    ) -> tuple[Tensor, Tensor, Tensor]:
        count = hidden.shape[0]
        logprobs = hidden.new_zeros(count, dtype=torch.float32)
        distance, entropy = torch.zeros_like(logprobs), torch.zeros_like(logprobs)
        grad_logprobs = torch.zeros_like(hidden)  # (N, D) ∂ log-prob / ∂ hidden
        grad_distance = torch.zeros_like(hidden) if divergence else hidden.new_zeros(0)
        for first in range(0, count, piece):
            rows = slice(first, min(first + piece, count))
            logs = F.linear(hidden[rows], weight).float().log_softmax(-1)  # (P, V)
            chosen = ids[rows, None]  # (P, 1)
            logprobs[rows] = logs.gather(-1, chosen).squeeze(-1)
            probs = logs.exp()
            entropy[rows] = -(probs * logs).sum(-1)
            if divergence is not None:
                target = F.linear(target_hidden[rows], weight).float().log_softmax(-1)  # (P, V)
                with torch.enable_grad():
                    leaf = logs.detach().requires_grad_()
                    apart = divergence(leaf, target)  # (P,)
                    (d_logs,) = torch.autograd.grad(apart.sum(), leaf)
                d_logits = d_logs - probs * d_logs.sum(-1, keepdim=True)  # back through log_softmax
                distance[rows] = apart.detach()
                grad_distance[rows] = d_logits.to(hidden.dtype) @ weight
            d_logits = probs.neg_()
            d_logits.scatter_add_(-1, chosen, torch.ones_like(chosen, dtype=d_logits.dtype))
            grad_logprobs[rows] = d_logits.to(hidden.dtype) @ weight
        ctx.save_for_backward(grad_logprobs, grad_distance)
        ctx.mark_non_differentiable(entropy)
        return logprobs, distance, entropy

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Any:
        d_logprobs, d_distance, _ = grads
        grad_logprobs, grad_distance = ctx.saved_tensors
        total = grad_logprobs * d_logprobs[:, None].to(grad_logprobs.dtype)
        if grad_distance.numel():
            total = total + grad_distance * d_distance[:, None].to(grad_distance.dtype)
        return total, None, None, None, None, None


class Learner:
    """A policy under training, its optimiser, and the frozen base beside it.

    One class for both parameter sets. With a LoraShape only the adapter trains, and the base is the same weights
    with the adapter off; without one every weight trains, and the base is a frozen second copy. `adapter_dir` is
    the checkpoint to go on from: an adapter's folder, or a whole model's when every weight trains. Nothing here is
    safe to call from two threads.
    """

    def __init__(
        self,
        model_dir: Path | str,
        *,
        adapter_dir: Path | str | None = None,
        lora: LoraShape | None = LORA,
        dtype: str = "auto",
        device: str = "cpu",
        seed: int = 0,
        micro_batch: int = 1,
        piece: int = 64,
    ) -> None:
        """Load the base, and the adapter in `adapter_dir` with its optimiser state; a fresh adapter (B = 0) without.

        `dtype` is the base's: "float32", "bfloat16", or "auto" for whichever this machine multiplies faster; an
        adapter always trains in float32, and so do full weights. `piece` is how many positions the head takes at
        once. Raises AdapterInvalid when the adapter cannot be read.
        """
        if micro_batch < 1 or piece < 1:
            raise ValueError("micro_batch and piece are at least 1")
        torch.manual_seed(seed)
        self.device = torch.device(device)
        self.is_full = lora is None
        self.dtype = torch.float32 if self.is_full else chosen_dtype(dtype, self.device)
        self.micro_batch, self.piece = micro_batch, piece
        weights = model_dir if adapter_dir is None or not self.is_full else adapter_dir
        self.causal = _loaded(weights, self.dtype, self.device)
        if getattr(self.causal.config, "final_logit_softcapping", None):
            raise ValueError("this model caps its final logits, which the piecewise head does not do")
        self.frozen: Any = None
        if self.is_full:
            self.frozen = _loaded(model_dir, self.dtype, self.device).requires_grad_(False).eval()
            self.model: Any = self.causal
        elif adapter_dir is not None:
            try:
                self.model = PeftModel.from_pretrained(self.causal, str(adapter_dir), is_trainable=True)
            except (OSError, ValueError, KeyError, RuntimeError) as error:
                raise AdapterInvalid(f"The adapter in {Path(adapter_dir).name} cannot be loaded: {error}") from error
        else:
            assert lora is not None
            targets = lora.targets if isinstance(lora.targets, str) else list(lora.targets)
            self.model = get_peft_model(
                self.causal,
                LoraConfig(
                    r=lora.rank,
                    lora_alpha=lora.alpha,
                    target_modules=targets,
                    lora_dropout=0.0,
                    bias="none",
                    task_type="CAUSAL_LM",
                ),
            )
        self.model.eval()  # no dropout anywhere: served, scored and trained log-probs are one function
        self.optimizer = torch.optim.AdamW(
            [parameter for _, parameter in self.trainable()], lr=0.0, betas=(0.9, 0.98), weight_decay=0.1
        )
        self.steps = 0
        self.is_fresh = adapter_dir is None  # the policy is still the base, to the last bit
        if adapter_dir is not None and (Path(adapter_dir) / OPTIMIZER_FILE).exists():
            self._load_optimizer(Path(adapter_dir))

    # What trains

    def trainable(self) -> list[tuple[str, nn.Parameter]]:
        """Names and parameters that a step changes, in a stable order."""
        return [(name, p) for name, p in self.model.named_parameters() if p.requires_grad]

    def adapter_norm(self) -> float:
        """Euclidean norm of everything that trains."""
        return math.sqrt(sum(float(p.detach().double().square().sum()) for _, p in self.trainable()))

    # Passes

    @contextmanager
    def _as_base(self) -> Iterator[Any]:
        if self.frozen is not None:
            yield self.frozen
        else:
            with self.model.disable_adapter():
                yield self.causal

    def _hidden(self, causal: Any, pairs: Sequence[tuple[Sequence[int], Sequence[int]]]) -> Tensor:
        """Last hidden states that predict each response token, (N, D), of all pairs, one after the other.

        Padding goes to the right, where a causal model's real tokens never look: no mask is needed, and none of
        the numbers depend on what else is in the micro-batch.
        """
        width = max(len(prompt) + len(response) for prompt, response in pairs)
        ids = torch.zeros(len(pairs), width, dtype=torch.long, device=self.device)
        for row, (prompt, response) in enumerate(pairs):
            ids[row, : len(prompt) + len(response)] = torch.tensor([*prompt, *response], device=self.device)
        hidden = causal.get_decoder()(input_ids=ids, use_cache=False).last_hidden_state  # (B, L, D)
        return torch.cat([hidden[row, len(p) - 1 : len(p) + len(r) - 1] for row, (p, r) in enumerate(pairs)])

    def _head_weight(self, causal: Any) -> Tensor:
        head = causal.get_output_embeddings()
        if getattr(head, "bias", None) is not None:
            raise ValueError("this model's head has a bias, which the piecewise head does not add")
        weight: Tensor = head.weight
        return weight

    @torch.no_grad()
    def _scored(self, causal: Any, prompt: Sequence[int], response: Sequence[int]) -> tuple[Tensor, Tensor]:
        """Log-probs (T,) and hidden states (T, D) of one response."""
        hidden = self._hidden(causal, [(prompt, response)])
        weight = self._head_weight(causal)
        ids = torch.tensor(list(response), device=self.device)
        pieces = [
            F.linear(hidden[at : at + self.piece], weight)
            .float()
            .log_softmax(-1)
            .gather(-1, ids[at : at + self.piece, None])
            .squeeze(-1)
            for at in range(0, len(ids), self.piece)
        ]
        return torch.cat(pieces), hidden

    def score(self, prompt_ids: Sequence[int], response_ids: Sequence[int], *, adapter: bool = True) -> list[float]:
        """Log-probs at temperature 1 of each response id, by the policy, or by the base with `adapter=False`."""
        if not prompt_ids or not response_ids:
            raise ValueError("scoring needs a prompt and a response")
        if adapter:
            return self._scored(self.causal, prompt_ids, response_ids)[0].tolist()
        with self._as_base() as base:
            return self._scored(base, prompt_ids, response_ids)[0].tolist()

    def view(self, example: Example, *, teacher: Literal["base", "policy"] = "base") -> View:
        """What the frozen models say of an example. Call it before the run's first update, and keep it.

        The teacher is the base or the policy as it is now, shown the hinted prompt.
        """
        prompt, response = example.prompt_ids, example.response_ids
        with self._as_base() as base:
            reference, unhinted = self._scored(base, prompt, response)
        start = reference if self.is_fresh else self._scored(self.causal, prompt, response)[0]
        if example.teacher_prompt_ids is None:
            return View(example, reference, start, None, unhinted, 0.0)
        if teacher == "base":
            with self._as_base() as base:
                taught, hidden = self._scored(base, example.teacher_prompt_ids, response)
        else:
            taught, hidden = self._scored(self.causal, example.teacher_prompt_ids, response)
        return View(example, reference, start, taught, hidden, float((taught - start).abs().mean()))

    # A step

    def forward_backward(
        self,
        views: Sequence[View],
        objective: Objective,
        *,
        scale: float = 1.0,
        divergence: Divergence | None = None,
        progress: Callable[[int], None] | None = None,
    ) -> dict[str, float]:
        """Add the gradient of scale · (mean loss over the views); micro-batching changes nothing but rounding.

        `objective` turns each micro-batch's Scores into its mean loss and figures. `divergence` says how far
        policy and teacher are apart at a position; without one, Scores.distance is 0. `progress` is called with
        the number of views done. Returns the figures (means over the views; the extreme where a name ends in _max
        or _min) with "loss", "entropy", "tokens" and "seconds". Raises NothingLearned when the loss is no number.
        """
        if not views:
            raise ValueError("nothing to learn from: no views")
        began = time.monotonic()
        totals: dict[str, float] = {}
        tokens = 0
        for first in range(0, len(views), self.micro_batch):
            part = views[first : first + self.micro_batch]
            scores, entropy = self._scores(part, divergence)
            loss, figures = objective(scores)
            if not torch.isfinite(loss):
                raise NothingLearned(f"The loss of sample {first + 1} is {float(loss.detach())}: nothing was changed.")
            share = len(part) / len(views)
            if loss.requires_grad:
                (loss * (scale * share)).backward()
            figures = {"loss": loss.detach(), "entropy": entropy, **figures}
            for name, value in figures.items():
                if name.endswith(("_max", "_min")):
                    extreme = max if name.endswith("_max") else min
                    totals[name] = extreme(totals.get(name, float(value)), float(value))
                else:
                    totals[name] = totals.get(name, 0.0) + float(value) * share
            tokens += sum(len(view.example.response_ids) for view in part)
            if progress:
                progress(first + len(part))
        seconds = time.monotonic() - began
        return {**totals, "tokens": float(tokens), "seconds": seconds}

    def _scores(self, views: Sequence[View], divergence: Divergence | None) -> tuple[Scores, Tensor]:
        examples = [view.example for view in views]
        hidden = self._hidden(self.causal, [(e.prompt_ids, e.response_ids) for e in examples])  # (N, D)
        lengths = [len(e.response_ids) for e in examples]
        ids = torch.tensor([i for e in examples for i in e.response_ids], device=self.device)
        target = torch.cat([view.target_hidden for view in views])  # (N, D)
        weight = self._head_weight(self.causal)
        if self.is_full:
            flat, distance, entropy = self._full_head(hidden, weight, ids, target, divergence)
        else:
            flat, distance, entropy = _Head.apply(hidden, weight, ids, target, divergence, self.piece)

        def padded(rows: Sequence[Tensor]) -> Tensor:  # (B, T)
            return nn.utils.rnn.pad_sequence(list(rows), batch_first=True)

        def numbers(values: Sequence[float]) -> Tensor:
            return torch.tensor(list(values), dtype=torch.float32, device=self.device)

        mask = padded([numbers(e.mask or [1.0] * len(e.response_ids)) for e in examples])
        scores = Scores(
            logprobs=padded(flat.split(lengths)),
            distance=padded(distance.split(lengths)),
            old_logprobs=padded([numbers(e.old_logprobs) for e in examples]),
            start_logprobs=padded([view.start_logprobs for view in views]),
            reference_logprobs=padded([view.reference_logprobs for view in views]),
            teacher_logprobs=padded(
                [
                    view.teacher_logprobs
                    if view.teacher_logprobs is not None
                    else torch.zeros_like(view.start_logprobs)
                    for view in views
                ]
            ),
            mask=mask,
            reward=numbers([e.reward for e in examples]),
            has_teacher=numbers([float(e.has_teacher) for e in examples]),
            weight=numbers([e.weight for e in examples]),
        )
        surprise = padded(entropy.split(lengths))
        return scores, ((surprise * mask).sum(-1) / mask.sum(-1).clamp(min=1)).mean()

    def _full_head(
        self,
        hidden: Tensor,
        weight: Tensor,
        ids: Tensor,
        target_hidden: Tensor,
        divergence: Divergence | None,
    ) -> tuple[Tensor, Tensor, Tensor]:
        """The same as _Head when the head's own weights train: a piece's logits are computed again on the way back."""
        assert self.frozen is not None
        target_weight = self._head_weight(self.frozen)

        def piece(states: Tensor, rows: Tensor, weight: Tensor) -> tuple[Tensor, Tensor, Tensor]:
            logs = F.linear(states, weight).float().log_softmax(-1)  # (P, V)
            entropy = -(logs.exp() * logs).sum(-1).detach()
            apart = logs.new_zeros(len(rows))
            if divergence is not None:
                with torch.no_grad():
                    target = F.linear(target_hidden[rows], target_weight).float().log_softmax(-1)
                apart = divergence(logs, target)
            return logs.gather(-1, ids[rows, None]).squeeze(-1), apart, entropy

        parts = [
            checkpoint(piece, hidden[rows], rows, weight, use_reentrant=False)
            for rows in torch.arange(len(ids), device=self.device).split(self.piece)
        ]
        logprobs, distance, entropy = (torch.cat(list(column)) for column in zip(*parts, strict=True))
        return logprobs, distance, entropy

    def has_gradient(self) -> bool:
        """Whether anything gathered so far would move a weight."""
        return any(p.grad is not None and bool(p.grad.any()) for _, p in self.trainable())

    def optim_step(self, lr: float, *, weight_decay: float = 0.1, max_grad_norm: float = 1.0) -> dict[str, float]:
        """One AdamW update (betas 0.9 and 0.98) with the gradient gathered so far, which it forgets.

        Returns "grad_norm" before clipping, "adapter_norm" after the update, and "update_norm", how far the
        weights moved. Raises NothingLearned when there is no gradient, when it is not a number, or when no
        weight changed; in the first two cases nothing was touched.
        """
        parameters = [parameter for _, parameter in self.trainable()]
        norm = float(nn.utils.clip_grad_norm_(parameters, max_grad_norm))
        if not math.isfinite(norm):
            self.optimizer.zero_grad()
            raise NothingLearned(f"The gradient is {norm}: the weights were not touched.")
        if norm == 0.0:
            self.optimizer.zero_grad()
            raise NothingLearned("The gradient is zero everywhere: these samples teach nothing.")
        before = [parameter.detach().clone() for parameter in parameters]
        for group in self.optimizer.param_groups:
            group["lr"], group["weight_decay"] = lr, weight_decay
        self.optimizer.step()
        self.optimizer.zero_grad()
        self.steps += 1
        moved = math.sqrt(
            sum(
                float((new.detach() - old).double().square().sum()) for new, old in zip(parameters, before, strict=True)
            )
        )
        if not math.isfinite(moved):
            raise NothingLearned("The update made weights that are not numbers: throw this policy away.")
        if moved == 0.0:
            raise NothingLearned("The update changed no weight at all: the rate is too small for these weights.")
        self.is_fresh = False
        return {"grad_norm": norm, "adapter_norm": self.adapter_norm(), "update_norm": moved}

    # Files

    def save(self, folder: Path | str) -> None:
        """Write the policy and the optimiser's state to `folder`, whole or not at all.

        An adapter is written as PEFT writes it (adapter_config.json, adapter_model.safetensors), full weights as
        transformers do; the optimiser stands beside them in safetensors too. The folder appears by a rename once
        everything is on disk. Raises FileExistsError when it is there already: a checkpoint never changes.
        """
        folder = Path(folder)
        if folder.exists():
            raise FileExistsError(f"{folder.name} is there already, and checkpoints are never overwritten")
        folder.parent.mkdir(parents=True, exist_ok=True)
        partial = folder.parent / f".{folder.name}.{uuid.uuid4().hex[:8]}"
        try:
            self.model.save_pretrained(str(partial), safe_serialization=True)
            (partial / "README.md").unlink(missing_ok=True)  # PEFT's empty model card
            self._save_optimizer(partial)
            for path in [*partial.iterdir(), partial]:
                _flush(path)
            partial.rename(folder)
            _flush(folder.parent)
        except BaseException:
            shutil.rmtree(partial, ignore_errors=True)
            raise

    def _save_optimizer(self, folder: Path) -> None:
        state = {
            f"{slot}.{name}": self.optimizer.state[parameter][slot].detach().cpu().contiguous()
            for name, parameter in self.trainable()
            if parameter in self.optimizer.state
            for slot in ("exp_avg", "exp_avg_sq")
        }
        if state:
            save_file(state, str(folder / OPTIMIZER_FILE))
        (folder / STATE_FILE).write_text(json.dumps({"steps": self.steps, "dtype": str(self.dtype)}))

    def _load_optimizer(self, folder: Path) -> None:
        state = load_file(str(folder / OPTIMIZER_FILE), device=str(self.device))
        self.steps = int(json.loads((folder / STATE_FILE).read_text())["steps"])
        for name, parameter in self.trainable():
            try:
                average, square = state[f"exp_avg.{name}"], state[f"exp_avg_sq.{name}"]
            except KeyError as error:
                raise AdapterInvalid(f"{folder.name} has no optimiser state for {name}.") from error
            self.optimizer.state[parameter] = {
                "step": torch.tensor(float(self.steps)),
                "exp_avg": average.to(parameter),
                "exp_avg_sq": square.to(parameter),
            }


def _loaded(folder: Path | str, dtype: torch.dtype, device: torch.device) -> Any:
    causal: Any = AutoModelForCausalLM.from_pretrained(str(folder), dtype=dtype)
    return causal.to(device)


def chosen_dtype(name: str, device: torch.device) -> torch.dtype:
    """The dtype called `name`; "auto" is bfloat16 where this machine multiplies it clearly faster than float32."""
    if name != "auto":
        known = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}
        if name not in known:
            raise ValueError(f"dtype is one of auto, {', '.join(known)}; it is {name!r}")
        return known[name]
    if device.type == "cuda":
        return torch.bfloat16

    def fastest(dtype: torch.dtype) -> float:
        left, right = torch.ones(128, 768, dtype=dtype), torch.ones(768, 2048, dtype=dtype)
        times = []
        for _ in range(5):
            began = time.perf_counter()
            torch.mm(left, right)
            times.append(time.perf_counter() - began)
        return min(times)

    return torch.bfloat16 if fastest(torch.bfloat16) < 0.8 * fastest(torch.float32) else torch.float32


def _flush(path: Path) -> None:
    """Make sure a file or a folder's list of names is on disk before anything says so."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)

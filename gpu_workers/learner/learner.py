"""The learner takes gradients on token ids: LoRA or full weights, one class. It knows tokens, never turns."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from peft import set_peft_model_state_dict
from safetensors.torch import load_file
from torch import Tensor

from gpu_workers.errors import AdapterInvalid, NothingLearned
from gpu_workers.learner import head, policy_files
from gpu_workers.learner.answers import Answers
from gpu_workers.learner.branching import Pair
from gpu_workers.learner.head import Divergence, Head
from gpu_workers.learner.policy import Policy
from gpu_workers.learner.scores import Objective, ScoredExample, Scores, padded, replies

EPSILON = 1e-8
"""Adam's, as everybody has it: next to nothing."""


class Learner(Policy):
    """Train a policy: gradients, optimiser steps, and checkpoints that hold both weights and optimiser."""

    def __init__(self, model_dir: Path | str, *, adapter_dir: Path | str | None = None, **how: Any) -> None:
        """As a Policy's, with the optimiser's state in `adapter_dir` where there is one."""
        super().__init__(model_dir, adapter_dir=adapter_dir, **how)
        groups = self._spread()
        self.optimizer = torch.optim.AdamW(groups, lr=0.0, betas=(0.9, 0.98), weight_decay=0.1)
        self.steps = 0
        if adapter_dir is not None:
            self._load_optimizer(Path(adapter_dir))

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
        """Add the gradient of scale · (mean loss over the samples + the losses of `answers`). Which of them go through
        the model together changes nothing but rounding; what they begin with alike goes through it once.

        `objective` turns each micro-batch's Scores into its mean loss and figures. `divergence` says how far
        policy and teacher are apart at a position; without one, Scores.distance is 0. `progress` is called with
        the number of samples done. Returns the figures (means over the samples, but for what is rehearsed; the extreme
        where a name ends in _max or _min) with "loss", "entropy", "tokens", "computed" (positions that went through the
        model), "seconds", and the loss of each of `answers` by its name. Raises NothingLearned when the loss is no
        number, and OutOfMemory, both with nothing changed; OutOfMemory drops the gradients gathered before it too.
        """
        if not samples:
            raise ValueError("nothing to learn from: no samples")
        with self._room():
            return self._gather(samples, objective, answers, scale, divergence, progress)

    def supervise(
        self, pairs: Sequence[Pair], *, weights: Sequence[Sequence[float]] | None = None, scale: float = 1.0
    ) -> dict[str, float]:
        """Add the gradient of scale · (mean over (prompt, answer) of the mean −log-prob of the answer's tokens), or,
        with the `weights` of Answers, of their weighted sum.

        Returns "loss", "tokens" (of answers), "computed" and "seconds" as above. Raises NothingLearned when the loss is
        no number, ValueError where lengths disagree.
        """
        answers = Answers(pairs, weights)
        with self._room():
            figures = self._gather((), None, [answers], scale)
        loss = figures.pop("supervised_loss")
        return {**figures, "loss": loss}

    def _gather(
        self,
        samples: Sequence[ScoredExample],
        objective: Objective | None,
        answers: Sequence[Answers],
        scale: float,
        divergence: Divergence | None = None,
        progress: Callable[[int], None] | None = None,
    ) -> dict[str, float]:
        """Both, part by part; an objective is for samples alone."""
        began = time.monotonic()
        pairs: list[Pair] = [(sample.example.prompt_ids, sample.example.response_ids) for sample in samples]
        told_of = [(one, place) for one in answers for place in range(len(one.pairs))]
        pairs += [one.pairs[place] for one, place in told_of]
        learns = [any(sample.example.mask or [1.0]) for sample in samples]  # what has no token to learn is in no mean
        told = replies(samples)
        totals = {"loss": 0.0, "computed": 0.0}
        done = 0
        for part in self._together(pairs):
            hidden, positions = self._branching_hidden(self.causal, [pairs[at] for at in part])
            rows = dict(zip(part, hidden.split([len(pairs[at][1]) for at in part]), strict=True))
            mine, theirs = [at for at in part if at < len(samples)], [at for at in part if at >= len(samples)]
            losses: list[Tensor] = []
            if objective and mine:
                scores, entropy = self._scores([samples[at] for at in mine], [rows[at] for at in mine], divergence)
                loss, figures = objective(scores)
                losses.append(_sound(loss, "sample", mine) * (sum(learns[at] for at in mine) / len(samples)))
                heard = [row for row, at in enumerate(mine) if told[at]]
                if 0 < len(heard) < len(mine):
                    with torch.no_grad():
                        _, figures = objective(scores.only(heard))
                share = sum(learns[mine[row]] for row in heard) / sum(told)
                if heard:
                    _add(totals, figures | {"entropy": entropy[heard].mean()}, share)
            for one in answers:
                places = {
                    told_of[at - len(samples)][1]: rows[at] for at in theirs if told_of[at - len(samples)][0] is one
                }
                if not places:
                    continue
                missed = self._missed(one, places)
                losses.append(one.scale * _sound(missed, "pair", list(places)))
                name = f"{one.name}_loss"
                totals[name] = totals.get(name, 0.0) + float(missed.detach())
            total = torch.stack(losses).sum()
            if total.requires_grad:
                (total * scale).backward()
            totals["loss"] += float(total.detach())
            totals["computed"] += positions
            done += len(mine)
            if progress and mine:
                progress(done)
        tokens = sum(len(answer) for _, answer in pairs)
        return {**totals, "tokens": float(tokens), "seconds": time.monotonic() - began}

    def _scores(
        self, samples: Sequence[ScoredExample], hidden: Sequence[Tensor], divergence: Divergence | None
    ) -> tuple[Scores, Tensor]:
        """of samples and the states, (T, D) each, that predict their replies; with the mean entropy of each, (B,)."""
        lengths = [len(one) for one in hidden]
        ids = torch.tensor([i for sample in samples for i in sample.example.response_ids], device=self.device)
        target = torch.cat([sample.target_hidden for sample in samples])  # (N, D)
        if divergence is not None and len(target) != len(ids):
            raise ValueError("a distribution is to be learned, and these examples were scored without one")
        flat, distance, entropy = self._head(torch.cat(list(hidden)), ids, target, divergence)
        scores = Scores.of(samples, flat.split(lengths), distance.split(lengths))
        surprise = padded(entropy.split(lengths))
        return scores, (surprise * scores.mask).sum(-1) / scores.mask.sum(-1).clamp(min=1)

    def _missed(self, answers: Answers, hidden: Mapping[int, Tensor]) -> Tensor:
        """What the answers at these places, with the states that predict them, (T, D) each, add to the loss of all."""
        states = torch.cat(list(hidden.values()))
        ids = torch.tensor([i for at in hidden for i in answers.pairs[at][1]], device=self.device)
        logprobs, _, _ = self._head(states, ids, states, None)
        share = torch.cat([answers.shares[at] for at in hidden]).to(self.device)
        return -(logprobs * share).sum() / len(answers.pairs)

    def _head(
        self, hidden: Tensor, ids: Tensor, target_hidden: Tensor, divergence: Divergence | None
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Log-prob, distance and entropy at each position, (N,) each."""
        weight = head.weight_of(self.causal)
        if self.frozen is None:
            return Head.apply(hidden, weight, ids, target_hidden, divergence, self.piece)
        return head.trained(hidden, weight, ids, target_hidden, head.weight_of(self.frozen), divergence, self.piece)

    def has_gradient(self) -> bool:
        """Whether anything gathered so far would move a weight."""
        return any(p.grad is not None and bool(p.grad.any()) for _, p in self.trainable())

    def optim_step(
        self, lr: float, *, weight_decay: float = 0.1, max_grad_norm: float = 1.0, epsilon: float = EPSILON
    ) -> dict[str, float]:
        """One AdamW update (betas 0.9 and 0.98, ε `epsilon`) with the gradient gathered so far, which it forgets.

        Returns "grad_norm" before clipping, "adapter_norm" after the update, and "update_norm", how far the
        weights moved. Raises NothingLearned when there is no gradient, when it is not a number, or when no
        weight changed; in the first two cases nothing was touched.
        """
        parameters = [parameter for _, parameter in self.trainable()]
        gradients = [parameter.grad for parameter in parameters if parameter.grad is not None]
        norm = self._length(gradients)
        if not math.isfinite(norm):
            self.optimizer.zero_grad()
            raise NothingLearned(f"The gradient is {norm}: the weights were not touched.")
        if norm == 0.0:
            self.optimizer.zero_grad()
            raise NothingLearned("The gradient is zero everywhere: these samples teach nothing.")
        for gradient in gradients:
            gradient.mul_(min(1.0, max_grad_norm / (norm + 1e-6)))
        before = [parameter.detach().clone() for parameter in parameters]
        for group in self.optimizer.param_groups:
            group["lr"], group["weight_decay"], group["eps"] = lr, weight_decay, epsilon
        self.optimizer.step()
        self.optimizer.zero_grad()
        self.steps += 1
        moved = self._length([new.detach() - old for new, old in zip(parameters, before, strict=True)])
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
        self._write(Path(folder), None, self._moments())

    def _write(self, folder: Path, weights: dict[str, Tensor] | None, moments: dict[str, Tensor]) -> None:
        """`weights` are the model's by name; None: as they lie in it."""
        notes = {"steps": self.steps, "dtype": str(self.dtype)}
        policy_files.write(folder, self.model, moments, notes, weights)

    def _moments(self) -> dict[str, Tensor]:
        return {
            f"{slot}.{name}": self._whole(self.optimizer.state[parameter][slot])
            for name, parameter in self.trainable()
            if parameter in self.optimizer.state
            for slot in ("exp_avg", "exp_avg_sq")
        }

    def go_on(self, folder: Path | str) -> None:
        """Take the adapter and the optimiser's state that `save` wrote to `folder` in place of this learner's. Raises
        AdapterInvalid where they are not of its shape."""
        folder = Path(folder)
        loaded: Any = set_peft_model_state_dict(self.model, load_file(str(folder / "adapter_model.safetensors")))
        if loaded.unexpected_keys:
            raise AdapterInvalid(f"The adapter in {folder.name} has another shape than this one.")
        self._load_optimizer(folder)
        self.is_fresh = False

    def _load_optimizer(self, folder: Path) -> None:
        state, notes = policy_files.read(folder, self.device)
        if not state:
            return
        self.steps = int(notes["steps"])
        for name, parameter in self.trainable():
            try:
                average, square = state[f"exp_avg.{name}"], state[f"exp_avg_sq.{name}"]
            except KeyError as error:
                raise AdapterInvalid(f"{folder.name} has no optimiser state for {name}.") from error
            self.optimizer.state[parameter] = {
                "step": torch.tensor(float(self.steps)),
                "exp_avg": self._laid_out(average, parameter),
                "exp_avg_sq": self._laid_out(square, parameter),
            }


def _sound(loss: Tensor, what: str, places: Sequence[int]) -> Tensor:
    if not torch.isfinite(loss):
        whose = " or ".join(str(at + 1) for at in places)
        raise NothingLearned(f"The loss of {what} {whose} is {float(loss.detach())}: nothing was changed.")
    return loss


def _add(totals: dict[str, float], figures: Mapping[str, Tensor], share: float) -> None:
    """Add what a part says to what is said of all: the extreme where a name ends in _max or _min, else its share."""
    for name, value in figures.items():
        if name.endswith(("_max", "_min")):
            extreme = max if name.endswith("_max") else min
            totals[name] = extreme(totals.get(name, float(value)), float(value))
        else:
            totals[name] = totals.get(name, 0.0) + float(value) * share

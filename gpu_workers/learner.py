"""The learner: takes gradients on token ids. LoRA or full weights, one class; it knows tokens, never turns.

Every pass runs the transformer's body first (`layers`) and the language-model head afterwards (`head`), in pieces and
on response positions only.
"""

from __future__ import annotations

import gc
import math
import time
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import torch
from peft import LoraConfig, PeftModel, get_peft_model, set_peft_model_state_dict
from safetensors.torch import load_file
from torch import Tensor, nn
from transformers import AutoModelForCausalLM

from gpu_workers import checkpoints, head, products, quantized
from gpu_workers.answers import Answers
from gpu_workers.branching import LONGEST, Pair, Tree, takes_trees, together
from gpu_workers.errors import AdapterInvalid, NothingLearned, OutOfMemory
from gpu_workers.head import Divergence, Head
from gpu_workers.layers import slim
from gpu_workers.scores import Objective, ScoredExample, Scores, padded, replies
from gpu_workers.types import Example


@dataclass(frozen=True)
class LoraShape:
    """The low-rank adapter's shape; targets are PEFT's, and "all-linear" leaves the head alone."""

    rank: int = 16
    alpha: int = 32
    targets: str | tuple[str, ...] = "all-linear"
    layers: tuple[int, ...] | None = None
    """Which layers are adapted, with targets named; None: all. A step goes back no further than the lowest of them."""


LORA = LoraShape()

EPSILON = 1e-8
"""Adam's, as everybody has it: next to nothing."""


AT_ONCE = {torch.float32: 256, torch.float16: 256, torch.bfloat16: 512}
"""Positions that a CPU takes through the layers at once, where a sequence is not longer: it multiplies so many as
quickly as more, and what is kept for the way back grows with them."""


Read = tuple[Tensor, Tensor]
"""Of a response: its log-probs, (T,), and the hidden states that predict it, (T, D)."""


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
        piece: int = head.PIECE,
        base_bits: Literal[16, 4] = 16,
    ) -> None:
        """Load the base, and the adapter in `adapter_dir` with its optimiser state; a fresh adapter (B = 0) without.

        `dtype` is the base's: "float32", "bfloat16", or "auto" for whichever this machine multiplies faster; an
        adapter always trains in float32, and so do full weights. `micro_batch` is how many sequences go through the
        model at once at most, and may be changed between updates (a CPU takes fewer where more would bring
        nothing); `piece` is how many positions the head takes at once. `base_bits` 4 holds an adapter's base in NF4.
        Raises AdapterInvalid when the adapter cannot be read, and
        NotQuantizable where there is no base in 4 bits to be had.
        """
        if micro_batch < 1 or piece < 1:
            raise ValueError("micro_batch and piece are at least 1")
        if base_bits == 4 and lora is None:
            raise ValueError("full weights cannot train in 4 bits: only a frozen base is quantised")
        self.base_bits = base_bits
        torch.manual_seed(seed)
        self.device = torch.device(device)
        self.is_full = lora is None
        self.dtype = torch.float32 if self.is_full else chosen_dtype(dtype, self.device)
        self.micro_batch, self.piece = micro_batch, piece
        self.branches = True  # whether what begins alike is computed once, for which a device may have no room
        weights = model_dir if adapter_dir is None or not self.is_full else adapter_dir
        self.causal = self._load(weights)
        if getattr(self.causal.config, "final_logit_softcapping", None):
            raise ValueError("this model caps its final logits, which the piecewise head does not do")
        self.frozen: Any = None
        if self.is_full:
            self.frozen = self._load(model_dir).requires_grad_(False).eval()
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
                    layers_to_transform=list(lora.layers) if lora.layers is not None else None,
                    lora_dropout=0.0,
                    bias="none",
                    task_type="CAUSAL_LM",
                ),
            )
        slim(self.causal)
        if self.frozen is not None:
            slim(self.frozen)
        self.model.eval()  # no dropout anywhere: served, scored and trained log-probs are one function
        groups = self._spread()
        self.optimizer = torch.optim.AdamW(groups, lr=0.0, betas=(0.9, 0.98), weight_decay=0.1)
        self.steps = 0
        self.is_fresh = adapter_dir is None  # the policy is still the base
        if adapter_dir is not None:
            self._load_optimizer(Path(adapter_dir))

    # What trains

    def trainable(self) -> list[tuple[str, nn.Parameter]]:
        """Names and parameters that a step changes, in a stable order."""
        return [(name, p) for name, p in self.model.named_parameters() if p.requires_grad]

    def adapter_norm(self) -> float:
        """Euclidean norm of everything that trains."""
        return self._length([parameter.detach() for _, parameter in self.trainable()])

    @property
    def precision(self) -> str:
        """What the base computes in: a dtype's name, or nf4."""
        return quantized.NAME if self.base_bits == 4 else str(self.dtype).removeprefix("torch.")

    # What is different where several processes share the work (gpu_workers/distributed.py)

    def _load(self, folder: Path | str) -> Any:
        """A whole model from its files."""
        if self.base_bits == 4:
            return quantized.load(folder, self.dtype, self.device)
        return _loaded(folder, self.dtype, self.device)

    def _spread(self) -> list[dict[str, Any]]:
        """Put the weights where they are to lie; returns what trains as the optimiser's groups."""
        return [{"params": [parameter for _, parameter in self.trainable()]}]

    def _length(self, tensors: Sequence[Tensor]) -> float:
        """Euclidean norm of tensors that lie as the parameters do."""
        return math.sqrt(sum(float(tensor.double().square().sum()) for tensor in tensors))

    def _whole(self, tensor: Tensor) -> Tensor:
        """All of a tensor that lies as its parameter does, in this machine's memory."""
        return tensor.detach().cpu().contiguous()

    def _laid_out(self, tensor: Tensor, parameter: nn.Parameter) -> Tensor:
        """A whole tensor, put as its parameter lies."""
        return tensor.to(parameter)

    # Passes

    @contextmanager
    def _as_base(self) -> Iterator[Any]:
        if self.frozen is not None:
            yield self.frozen
        else:
            with self.model.disable_adapter():
                yield self.causal

    def _hidden(self, causal: Any, pairs: Sequence[Pair]) -> Tensor:
        """Last hidden states that predict each response token, (N, D), of all pairs, one after the other.

        Padding goes to the right, where a causal model's real tokens never look: no mask is needed, and none of
        the numbers depend on what else is in the micro-batch.
        """
        width = max(len(prompt) + len(response) for prompt, response in pairs)
        rows = [[*prompt, *response, *[0] * (width - len(prompt) - len(response))] for prompt, response in pairs]
        ids = torch.tensor(rows, device=self.device)
        hidden = causal.get_decoder()(input_ids=ids, use_cache=False).last_hidden_state  # (B, L, D)
        return torch.cat([hidden[row, len(p) - 1 : len(p) + len(r) - 1] for row, (p, r) in enumerate(pairs)])

    @torch.no_grad()
    def _scored(self, causal: Any, pairs: Sequence[Pair]) -> list[Read]:
        """Log-probs (T,) and hidden states (T, D) of each pair's response. A prompt and the hinted one begin alike,
        and that goes through the model once."""
        hidden, _ = self._branching_hidden(causal, pairs)
        ids = torch.tensor([i for _, response in pairs for i in response], device=self.device)
        logprobs = head.logprobs_of(hidden, head.weight_of(causal), ids, self.piece)
        lengths = [len(response) for _, response in pairs]
        return list(zip(logprobs.split(lengths), hidden.split(lengths), strict=True))

    def score(self, prompt_ids: Sequence[int], response_ids: Sequence[int], *, adapter: bool = True) -> list[float]:
        """Log-probs at temperature 1 of each response id, by the policy, or by the base with `adapter=False`."""
        if not prompt_ids or not response_ids:
            raise ValueError("scoring needs a prompt and a response")
        pairs = [(prompt_ids, response_ids)]
        if adapter:
            return self._scored(self.causal, pairs)[0][0].tolist()
        with self._as_base() as base:
            return self._scored(base, pairs)[0][0].tolist()

    def score_example(
        self,
        example: Example,
        *,
        teacher: Literal["base", "policy"] = "base",
        with_distribution: bool = True,
    ) -> ScoredExample:
        """`score_examples` of one example."""
        return self.score_examples([example], teacher=teacher, with_distribution=with_distribution)[0]

    def score_examples(
        self,
        examples: Sequence[Example],
        *,
        teacher: Literal["base", "policy"] = "base",
        with_distribution: bool = True,
    ) -> list[ScoredExample]:
        """What the frozen models say of each example. Call it before the run's first update, and keep it. The last
        hidden states of all of them are kept until it returns, so it is for a micro-batch or a few.

        The teacher is the base or the policy as it is now, shown the hinted prompt. A reply without one is held to the
        policy as it is now: to the base, what it was taught before would be drawn out of it by the very replies that
        show it. What is rehearsed is held to the base, and so is all where every weight trains, the head's among them.
        The distribution is left out on demand, where nothing but log-probs of the reply's own tokens is learned from.
        Raises OutOfMemory.
        """
        with self._room():
            return self._views(examples, teacher, with_distribution)

    def _views(
        self, examples: Sequence[Example], teacher: Literal["base", "policy"], with_distribution: bool
    ) -> list[ScoredExample]:
        of_base: dict[tuple[int, str], Pair] = {}
        of_policy: dict[tuple[int, str], Pair] = {}
        for at, example in enumerate(examples):
            plain = (example.prompt_ids, example.response_ids)
            of_base[at, "reference"] = plain
            if not self.is_fresh:
                of_policy[at, "start"] = plain
            if example.teacher_prompt_ids is not None:
                asked = of_base if teacher == "base" or self.is_fresh else of_policy
                asked[at, "teacher"] = (example.teacher_prompt_ids, example.response_ids)
        with self._as_base() as base:
            seen = self._read(base, of_base)
        seen |= self._read(self.causal, of_policy)
        return [self._seen(example, at, seen, with_distribution) for at, example in enumerate(examples)]

    def _read(self, causal: Any, asked: Mapping[tuple[int, str], Pair]) -> dict[tuple[int, str], Read]:
        """What `_scored` says of each of these."""
        names, pairs = list(asked), list(asked.values())
        found: dict[tuple[int, str], Read] = {}
        for part in self._together(pairs, is_read=True):
            found |= zip([names[at] for at in part], self._scored(causal, [pairs[at] for at in part]), strict=True)
        return found

    def _seen(
        self, example: Example, at: int, seen: Mapping[tuple[int, str], Read], with_distribution: bool
    ) -> ScoredExample:
        """`seen` is what the base says of the reply ("reference"), the policy ("start") where it is not the base, and
        the teacher where there is one, each by the example's place."""
        reference, target = seen[at, "reference"]
        start = reference if self.is_fresh else seen[at, "start"][0]
        taught = None
        if (at, "teacher") in seen:
            taught, target = seen[at, "teacher"]
        elif not self.is_fresh and example.kind == "turn" and not self.is_full:
            target = seen[at, "start"][1]
        if not with_distribution:
            target = target.new_zeros(0, target.shape[1])
        apart = 0.0 if taught is None else float((taught - start).abs().mean())
        return ScoredExample(example, reference, start, taught, target, apart)

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

    def _together(self, pairs: Sequence[Pair], *, is_read: bool = False) -> list[list[int]]:
        """Which of these go through the model together, by place. Of what is only read nothing is kept for a way back,
        and an example takes at most two rows of it: so it is twice as many, and of short rows as many as are quick. A
        CPU takes no more of longer ones than of one example, since it reads several in no less time than one by one."""
        positions = AT_ONCE[self.dtype] if self.device.type == "cpu" else None
        rows = self.micro_batch
        if is_read:
            rows = 2 * (1 if positions else rows)
            if self.branches:
                longest = max((len(prompt) + len(answer) for prompt, answer in pairs), default=1)
                rows = max(rows, (positions or LONGEST) // longest)
        return together(
            pairs, rows=rows, positions=positions, branches=self.branches and takes_trees(self.causal.config)
        )

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

    @contextmanager
    def _room(self) -> Iterator[None]:
        """What goes on inside ends with OutOfMemory, and without a gradient, where the device has no room for it."""
        failed = ""
        try:
            yield
        except (MemoryError, RuntimeError) as error:
            if not _is_out_of_memory(error):
                raise
            failed = str(error).partition("\n")[0] or type(error).__name__
            traceback.clear_frames(error.__traceback__)  # which hold all that the failed pass had made
        if failed:
            self.optimizer.zero_grad()
            gc.collect()
            if self.device.type == "cuda":
                torch.cuda.empty_cache()
            raise OutOfMemory(f"No memory for a micro-batch of {self.micro_batch}: {failed}")

    @torch.no_grad()
    def logprobs(self, pairs: Sequence[Pair], *, adapter: bool = True) -> list[list[float]]:
        """`score` of each; shared beginnings are computed once, as above.

        Raises OutOfMemory.
        """
        found: dict[int, list[float]] = {}
        with self._room(), nullcontext(self.causal) if adapter else self._as_base() as causal:
            for part in self._together(pairs, is_read=True):
                scored = self._scored(causal, [pairs[at] for at in part])
                found |= {at: logprobs.tolist() for at, (logprobs, _) in zip(part, scored, strict=True)}
        return [found[at] for at in range(len(pairs))]

    def _branching_hidden(self, causal: Any, pairs: Sequence[Pair]) -> tuple[Tensor, int]:
        """As `_hidden`, and how many positions it took: beginnings that pairs share go through the model once, where
        that is worth it and its layers can keep branches apart."""
        tree = Tree.of(pairs) if len(pairs) > 1 and self.branches and takes_trees(causal.config) else None
        if tree is None or not tree.is_worth(pairs):
            width = max(len(prompt) + len(answer) for prompt, answer in pairs)
            return self._hidden(causal, pairs), width * len(pairs)
        hidden = causal.get_decoder()(
            input_ids=tree.ids.to(self.device),
            attention_mask=tree.sees.to(self.device),
            position_ids=tree.places.to(self.device),
            use_cache=False,
        ).last_hidden_state[0]  # (L, D)
        return hidden[tree.predicting.to(self.device)], tree.ids.shape[1]

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
        checkpoints.write(folder, self.model, moments, notes, weights)

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
        state, notes = checkpoints.read(folder, self.device)
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
    taken = products.seconds()
    return torch.bfloat16 if taken[torch.bfloat16] < 0.8 * taken[torch.float32] else torch.float32


def _is_out_of_memory(error: BaseException) -> bool:
    """Whether a device or this machine had no memory left; on a CPU torch has no class of its own for it."""
    return isinstance(error, torch.OutOfMemoryError | MemoryError) or any(
        words in str(error) for words in ("can't allocate memory", "not enough memory", "could not create a memory")
    )

"""The policy and its frozen base score responses: log-probs and hidden states. It knows tokens, never turns.

Every pass runs the transformer's body first (`layers`) and the language-model head afterwards (`head`), in pieces and
on response positions only.
"""

from __future__ import annotations

import gc
import math
import traceback
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import torch
from peft import LoraConfig, PeftModel, get_peft_model
from torch import Tensor, nn
from transformers import AutoModelForCausalLM

from gpu_workers.errors import AdapterInvalid, OutOfMemory
from gpu_workers.learner import head, products, quantized
from gpu_workers.learner.branching import LONGEST, Pair, Tree, takes_trees, together
from gpu_workers.learner.layers import slim
from gpu_workers.learner.scores import ScoredExample
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

AT_ONCE = {torch.float32: 256, torch.float16: 256, torch.bfloat16: 512}
"""Positions that a CPU takes through the layers at once, where a sequence is not longer: it multiplies so many as
quickly as more, and what is kept for the way back grows with them."""


Read = tuple[Tensor, Tensor]
"""Of a response: its log-probs, (T,), and the hidden states that predict it, (T, D)."""


class Policy:
    """Score responses with a policy and with the frozen base beside it.

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
        """Load the base, and the adapter in `adapter_dir`; a fresh adapter (B = 0) without.

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
        self.at_once = AT_ONCE[self.dtype]  # on a CPU; more is quicker where the model is tiny
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
        self.is_fresh = adapter_dir is None  # the policy is still the base

    # What trains

    def trainable(self) -> list[tuple[str, nn.Parameter]]:
        """List the parameters that a step changes, with names, in a stable order."""
        return [(name, p) for name, p in self.model.named_parameters() if p.requires_grad]

    def adapter_norm(self) -> float:
        """Compute the Euclidean norm of everything that trains."""
        return self._length([parameter.detach() for _, parameter in self.trainable()])

    @property
    def precision(self) -> str:
        """What the base computes in: a dtype's name, or nf4."""
        return quantized.NAME if self.base_bits == 4 else str(self.dtype).removeprefix("torch.")

    # What is different where several processes share the work (gpu_workers/learner/distributed.py)

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
        """Score each response id at temperature 1, with the policy, or with the base by `adapter=False`."""
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
        """Score each example with the frozen models. Call it before the run's first update, and keep it. The last
        hidden states of all of them are kept until it returns, so it is for a micro-batch or a few.

        The teacher is the base or the policy as it is now, shown the hinted prompt. A reply without one is held to the
        policy as it is now: to the base, what it was taught before would be drawn out of it by the very replies that
        show it. What is rehearsed is held to the base, and so is all where every weight trains, the head's among them.
        The distribution is left out on demand, where nothing but log-probs of the reply's own tokens is learned from.
        Raises OutOfMemory.
        """
        with self._room():
            return self._score_together(examples, teacher, with_distribution)

    def _score_together(
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

    @torch.no_grad()
    def logprobs(self, pairs: Sequence[Pair], *, adapter: bool = True) -> list[list[float]]:
        """Score each pair as `score` does; shared beginnings are computed once, as above.

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

    def _together(self, pairs: Sequence[Pair], *, is_read: bool = False) -> list[list[int]]:
        """Which of these go through the model together, by place. Of what is only read nothing is kept for a way back,
        and an example takes at most two rows of it: so it is twice as many, and of short rows as many as are quick. A
        CPU takes no more of longer ones than of one example, since it reads several in no less time than one by one."""
        positions = self.at_once if self.device.type == "cpu" else None
        rows = self.micro_batch
        if is_read:
            rows = 2 * (1 if positions else rows)
            if self.branches:
                longest = max((len(prompt) + len(answer) for prompt, answer in pairs), default=1)
                rows = max(rows, (positions or LONGEST) // longest)
        return together(
            pairs, rows=rows, positions=positions, branches=self.branches and takes_trees(self.causal.config)
        )

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
            self.model.zero_grad()
            gc.collect()
            if self.device.type == "cuda":
                torch.cuda.empty_cache()
            raise OutOfMemory(f"No memory for a micro-batch of {self.micro_batch}: {failed}")


def _loaded(folder: Path | str, dtype: torch.dtype, device: torch.device) -> Any:
    causal: Any = AutoModelForCausalLM.from_pretrained(str(folder), dtype=dtype)
    return causal.to(device)


def chosen_dtype(name: str, device: torch.device) -> torch.dtype:
    """Choose the dtype called `name`; "auto" is bfloat16 where this machine multiplies it clearly faster than
    float32."""
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

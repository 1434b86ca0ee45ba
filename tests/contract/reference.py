"""The tiny model in transformers and PEFT: the learner's numbers, which every engine must give."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import torch
from peft import PeftModel
from torch import Tensor
from transformers import AutoModelForCausalLM


class Reference:
    """Float32 log-probs of a model folder, plain or under one adapter folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._models: dict[Path | None, torch.nn.Module] = {}

    @torch.no_grad()
    def logits(self, ids: Sequence[int], adapter: Path | None = None) -> Tensor:
        """Float32 logits (T, V)."""
        return self._model(adapter)(input_ids=torch.tensor([list(ids)])).logits[0].float()

    def response_logprobs(
        self, prompt: Sequence[int], response: Sequence[int], *, adapter: Path | None = None, temperature: float = 1.0
    ) -> list[float]:
        """Log-probs of each response token after the prompt."""
        logits = self.logits([*prompt, *response], adapter)[len(prompt) - 1 : -1] / temperature
        return logits.log_softmax(-1).gather(1, torch.tensor(response)[:, None])[:, 0].tolist()

    def greedy(self, prompt: Sequence[int], count: int, *, adapter: Path | None = None) -> list[int]:
        """The most likely `count` tokens, one after the other; ends after the end token 2."""
        ids = list(prompt)
        while len(ids) < len(prompt) + count and (len(ids) == len(prompt) or ids[-1] != 2):
            ids.append(int(self.logits(ids, adapter)[-1].argmax()))
        return ids[len(prompt) :]

    def _model(self, adapter: Path | None) -> torch.nn.Module:
        if adapter not in self._models:
            model = AutoModelForCausalLM.from_pretrained(self._folder, dtype=torch.float32)
            self._models[adapter] = (model if adapter is None else PeftModel.from_pretrained(model, adapter)).eval()
        return self._models[adapter]

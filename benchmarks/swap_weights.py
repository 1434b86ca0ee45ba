"""Make weights to swap: random adapters and full weights, each with the learner's word on a probe."""

from __future__ import annotations

from pathlib import Path
from typing import Any


def make_adapters(model: Path, folder: Path, count: int) -> list[dict[str, Any]]:
    """Random adapters, each with the learner's word on a fixed probe: weights that differ as trained ones would."""
    import torch

    from chat.rendering.renderer import Renderer
    from gpu_workers.learner.learner import Learner
    from gpu_workers.learner.policy import LoraShape

    torch.set_num_threads(1)
    renderer = Renderer.for_model(model)
    prompt_ids = renderer.prompt_ids([{"role": "user", "content": "What is a rainbow?"}])
    response_ids = renderer.encode("A rainbow is sunlight, bent and mirrored by many drops of rain at once.")
    learner = Learner(model, lora=LoraShape(rank=16, alpha=32))
    base = learner.score(prompt_ids, response_ids)  # B is 0: the base itself
    made = []
    for number in range(1, count + 1):
        torch.manual_seed(number)
        for name, parameter in learner.trainable():
            if "lora_B" in name:
                parameter.data.normal_(0, 0.01)
        learner.save(folder / str(number))
        probe = {
            "prompt_ids": prompt_ids,
            "response_ids": response_ids,
            "logprobs": learner.score(prompt_ids, response_ids),
            "base_logprobs": base,
            "dtype": str(learner.dtype).removeprefix("torch."),
        }
        made.append({"number": number, "path": str(folder / str(number)), "probe": probe})
    return made


def make_full(model: Path, folder: Path, number: int) -> dict[str, Any]:
    """Full weights that differ from the base's, with the learner's word on the probe."""
    import torch

    from chat.rendering.renderer import Renderer
    from gpu_workers.engine.stamps import FULL
    from gpu_workers.learner.learner import Learner

    renderer = Renderer.for_model(model)
    prompt_ids = renderer.prompt_ids([{"role": "user", "content": "What is a rainbow?"}])
    response_ids = renderer.encode("A rainbow is sunlight, bent and mirrored by many drops of rain at once.")
    learner = Learner(model, lora=None)
    base = learner.score(prompt_ids, response_ids)
    torch.manual_seed(number)
    with torch.no_grad():
        for name, parameter in learner.trainable():
            if "norm" not in name:
                parameter.add_(torch.randn_like(parameter) * parameter.std() * 0.05)
    learner.save(folder / f"full-{number}")
    return {
        "number": number,
        "kind": "full",
        "adapter": f"{FULL}talkback-{number}-{number:08x}",
        "path": str(folder / f"full-{number}"),
        "probe": {
            "prompt_ids": prompt_ids,
            "response_ids": response_ids,
            "logprobs": learner.score(prompt_ids, response_ids),
            "base_logprobs": base,
            "dtype": "float32",
        },
    }

"""Training of the judge's adapter, by the project's own learner, on the token ids that are served."""

from __future__ import annotations

import json
import math
import os
import shutil
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import torch
import torch.distributed
from safetensors.torch import load_file, save_file

from chat.rendering.renderer import Renderer
from gpu_workers.learner.branching import Pair
from gpu_workers.learner.learner import Learner
from gpu_workers.learner.policy import LoraShape
from gpu_workers.servers.processes import LORA_TARGETS
from judge.votes import prompts
from lab.curriculum import lessons
from lab.curriculum.lessons import Lesson

BASE = "HuggingFaceTB/SmolLM2-135M-Instruct"
"""What the adapter's card says it is for: a name, wherever the weights lie."""

ANSWERS: dict[int | None, str] = {1: r"\boxed{1}", 0: r"\boxed{0}", -1: r"\boxed{-1}", None: r"\boxed{new}"}
"""What a score is answered with; none is given of a change of subject. The token after the brace decides."""


@dataclass(frozen=True)
class Plan:
    """How to train."""

    groups: int = 2600
    """Replies that lessons are made of; every one is seen once."""
    groups_a_step: int = 2
    rank: int = 8
    alpha: int = 16
    lowest_layer: int = 0
    """Layers below it stay as they are."""
    lr: float = 1.5e-3
    warm_up: int = 30
    dev_groups: int = 24
    look_every: int = 100
    """Steps between two looks at the dev lessons; the checkpoint that does best there is kept."""
    seed: int = 7
    minutes: float | None = None
    """After so long the run ends, at the end of its schedule of rates; None: it sees every group."""


def ids_of(lesson: Lesson, renderer: Renderer, end: int) -> list[Pair]:
    """Prompts and wanted answers, as the engine would be given them and would give them."""
    return [
        (renderer.prompt_ids(lesson.messages(asked)), [*renderer.encode(lesson.answer(asked)), end])
        for asked in lesson.questions
    ]


def stressed(pairs: Sequence[Pair], renderer: Renderer) -> list[Pair]:
    """The pairs, and once more what matters in each: the one token that decides it, and the words of its hint.

    In the whole answer these are few among many that are soon known by heart. It costs nothing, as the beginnings are
    the same.
    """
    known = len(deciding(renderer, list(ANSWERS.values()))[0])
    opening = len(renderer.encode(r"\boxed{1} [HINT_START]"))
    longest_score = max(len(renderer.encode(answer)) for answer in ANSWERS.values()) + 1
    return [
        *pairs,
        *(([*prompt, *answer[:known]], answer[known : known + 1]) for prompt, answer in pairs),
        *(
            ([*prompt, *answer[:opening]], answer[opening:])
            for prompt, answer in pairs
            if len(answer) > max(opening, longest_score)
        ),
    ]


def deciding(renderer: Renderer, answers: Sequence[str]) -> tuple[list[int], list[int]]:
    """What all of these answers begin with, in token ids, and the one token of each that decides."""
    ids = [renderer.encode(answer) for answer in answers]
    known = _alike(ids)
    return list(ids[0][:known]), [one[known] for one in ids]


def train(
    model: Path,
    out: Path,
    plan: Plan,
    *,
    start: Path | None = None,
    device: str = "cpu",
    dtype: str = "auto",
    told: Callable[[str], None] = print,
) -> dict[str, float]:
    """Train an adapter and write the best checkpoint to `out`, which must not be there. Returns its dev figures.

    `start` is an adapter to go on from, with a fresh optimiser: the large gradients of the time when a model learns
    the form of the answers hold Adam's steps small for long after. Under
    torchrun the processes share each step's groups: on a busy machine two with a thread each do more than one with two
    threads that wait for each other.
    """
    if out.exists():
        raise FileExistsError(f"{out} is there already")
    began = time.monotonic()
    rank, world = _joined()
    renderer = Renderer.for_model(model)
    config = json.loads((model / "config.json").read_text())
    end = int(config["eos_token_id"])
    layers = tuple(range(min(plan.lowest_layer, config["num_hidden_layers"] - 1), config["num_hidden_layers"]))
    shape = LoraShape(plan.rank, plan.alpha, LORA_TARGETS, layers)
    learner = Learner(model, adapter_dir=start, lora=shape, dtype=dtype, device=device, seed=plan.seed, micro_batch=64)
    groups = grouped(list(lessons.made("train", plan.groups, plan.seed)))
    dev = grouped(list(lessons.made("dev", plan.dev_groups, plan.seed)))[rank::world]
    steps = math.ceil(len(groups) / plan.groups_a_step)
    best: dict[str, float] = {}
    loss = computed = 0.0
    partial = out.with_name(f"{out.name}.partial")
    spent = 0.0  # the share of the schedule that is behind us: of the steps, or of the minutes where those end first
    for step in range(steps):
        if plan.minutes:
            spent = _summed([(time.monotonic() - began) / 60 / plan.minutes], world)[0] / world
        batch = groups[step * plan.groups_a_step : (step + 1) * plan.groups_a_step]
        for group in batch[rank::world]:
            pairs = [pair for lesson in group for pair in ids_of(lesson, renderer, end)]
            figures = learner.supervise(stressed(pairs, renderer), scale=1 / len(batch))
            loss += figures["loss"] / len(batch)
            computed += figures["computed"]
        for _, parameter in learner.trainable():
            if world > 1:
                parameter.grad = torch.zeros_like(parameter) if parameter.grad is None else parameter.grad
                torch.distributed.all_reduce(parameter.grad)
        learner.optim_step(_rate(max(step, int(spent * steps)), steps, plan), weight_decay=0.01)
        is_last = step + 1 == steps or spent >= 1
        if (step + 1) % plan.look_every == 0 or is_last:
            done = step % plan.look_every + 1
            seen = looked(learner, dev, renderer, end)
            lost, positions = _summed([loss, computed], world)
            passed = time.monotonic() - began
            if rank == 0:
                told(
                    f"step {step + 1}/{steps}  loss {lost / done:.3f}  dev score {seen['score']:.3f}  "
                    f"dev hint or not {seen['decision']:.3f}  dev loss {seen['loss']:.3f}  "
                    f"{positions / passed:.0f} positions/s  {passed:.0f} s"
                )
            loss = 0.0
            if not best or _merit(seen) >= _merit(best):
                best = {**seen, "step": step + 1.0}
                if rank == 0:
                    shutil.rmtree(partial, ignore_errors=True)
                    learner.save(partial)
        if is_last:
            break
    best["seconds"] = time.monotonic() - began
    if rank == 0:
        finish(partial, out, plan, best)
    return best


def looked(learner: Learner, groups: Sequence[Sequence[Lesson]], renderer: Renderer, end: int) -> dict[str, float]:
    """How the policy does on lessons, without sampling: the likeliest score, the likelier decision, and the mean loss
    of the wanted answers. Under torchrun each process brings groups of its own, and the figures are of all."""
    scores = [renderer.encode(answer) for answer in ANSWERS.values()]
    starts = [renderer.encode(r"\boxed{1} [HINT_START]"), renderer.encode(r"\boxed{-1}")]
    right = {"score": 0, "hint": 0}
    asked = {"score": 0, "hint": 0}
    loss = 0.0
    for group in groups:
        pairs: list[Pair] = []
        for lesson in group:
            for (prompt, answer), question in zip(ids_of(lesson, renderer, end), lesson.questions, strict=True):
                choices = scores if question == "score" else starts
                pairs += [(prompt, answer), *((prompt, choice) for choice in choices)]
        likely = [sum(one) for one in learner.logprobs(pairs)]
        at = 0
        for lesson in group:
            for question in lesson.questions:
                choices = scores if question == "score" else starts
                loss -= likely[at] / len(pairs[at][1])
                found = likely[at + 1 : at + 1 + len(choices)]
                at += 1 + len(choices)
                meant = list(ANSWERS).index(lesson.label.score) if question == "score" else int(not lesson.label.hint)
                asked[question] += 1
                right[question] += found.index(max(found)) == meant
    world = torch.distributed.get_world_size() if torch.distributed.is_initialized() else 1
    lost, *counts = _summed([loss, *right.values(), *asked.values()], world)
    return {
        "score": counts[0] / max(counts[2], 1),
        "decision": counts[1] / max(counts[3], 1),
        "loss": lost / max(counts[2] + counts[3], 1),
    }


def finish(checkpoint: Path, out: Path, plan: Plan, figures: dict[str, float]) -> None:
    """Write a checkpoint as it is kept in the repository: half precision, no optimiser, no path of this machine."""
    out.mkdir(parents=True)
    weights = load_file(checkpoint / "adapter_model.safetensors")
    halves = {name: tensor.to(torch.bfloat16).contiguous() for name, tensor in weights.items()}
    save_file(halves, out / "adapter_model.safetensors", metadata={"format": "pt"})
    config = json.loads((checkpoint / "adapter_config.json").read_text())
    config["base_model_name_or_path"] = BASE
    config["target_modules"] = sorted(config["target_modules"])
    (out / "adapter_config.json").write_text(json.dumps(config, indent=2, sort_keys=True) + "\n")
    kept = {"plan": asdict(plan), "prompts": prompts.version(lessons.FAMILY), "dev": figures}
    (out / "training.json").write_text(json.dumps(kept, indent=2) + "\n")
    shutil.rmtree(checkpoint)


def _merit(figures: dict[str, float]) -> float:
    """What chooses a checkpoint: the loss alone. Answers that are right by luck come and go from look to look, and a
    checkpoint that is sure of wrong ones cannot be calibrated."""
    return -figures["loss"]


def _joined() -> tuple[int, int]:
    """This process's place among those that torchrun started, and how many they are."""
    if int(os.environ.get("WORLD_SIZE", "1")) == 1:
        return 0, 1
    torch.distributed.init_process_group("gloo")
    return torch.distributed.get_rank(), torch.distributed.get_world_size()


def _summed(numbers: Sequence[float], world: int) -> list[float]:
    every = torch.tensor(list(numbers), dtype=torch.float64)
    if world > 1:
        torch.distributed.all_reduce(every)
    return [float(number) for number in every]


def grouped(every: Sequence[Lesson]) -> list[list[Lesson]]:
    groups: dict[int, list[Lesson]] = {}
    for lesson in every:
        groups.setdefault(lesson.group, []).append(lesson)
    return list(groups.values())


def _alike(every: Sequence[Sequence[int]]) -> int:
    """How many tokens all of them begin with."""
    return next((at for at, column in enumerate(zip(*every, strict=False)) if len(set(column)) > 1), 0)


def _rate(step: int, steps: int, plan: Plan) -> float:
    """Up in a line, then down on a cosine to a twentieth."""
    if step < plan.warm_up:
        return plan.lr * (step + 1) / plan.warm_up
    share = (step - plan.warm_up) / max(steps - plan.warm_up, 1)
    return plan.lr * (0.05 + 0.95 * 0.5 * (1 + math.cos(math.pi * share)))

"""A warm start: a model learns of traces, by the project's own learner, how calls are written and what they are for.

The result is a whole model folder, with the compact chat template, that the embedded engine serves as MODEL. It is made
once: its name is the hash of the traces, the plan, the template and the model that it began with.
"""

from __future__ import annotations

import hashlib
import json
import math
import random
import shutil
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from chat.rendering.renderer import Renderer
from environments.worlds.base import Message
from gpu_workers.learner.branching import Pair
from gpu_workers.learner.learner import Learner
from gpu_workers.learner.policy import LoraShape
from gpu_workers.learner.weight_exports import copy_weights, merge_adapter
from lab.worlds.templates import compact
from lab.worlds.traces import Teacher, as_text
from training.learning import ALPHA

SURE = 16
"""Conversations whose every prompt is laid out to see that it is what the next one begins with."""
CARD = "A warm start on made-up attempts (lab/worlds/warm_start.py).\n"


@dataclass(frozen=True)
class Plan:
    """How to train."""

    traces: int = 800
    passes: int = 1
    """Times that each trace is seen."""
    traces_a_step: int = 8
    rank: int | None = 16
    """Of the adapter that is merged in the end; None: every weight trains."""
    lr: float = 1e-3
    warm_up: int = 10
    """Steps until the rate is whole; from there it falls on a cosine to a twentieth."""
    weight_decay: float = 0.01
    seed: int = 0
    micro_batch: int = 8
    at_once: int = 0
    """Positions that a CPU takes at once, each row by itself; 0: as the learner does by itself."""


@dataclass(frozen=True)
class Row:
    """One conversation to learn: what is learned of the answer is what the assistant wrote."""

    pair: Pair
    weights: list[float]
    """One a token of the answer: together 1 over the assistant's tokens, 0 elsewhere."""


def row_of(
    renderer: Renderer, messages: Sequence[Message], tools: Sequence[dict[str, object]], end: int, *, sure: bool = True
) -> Row:
    """A conversation as the engine would have seen it, one reply after the other; `end` is the token that ends a reply.
    Raises ValueError where there is no reply, or a later prompt does not begin with an earlier one and its reply; not
    `sure`, only the last prompt is laid out to see."""
    replies = [at for at, message in enumerate(messages) if message["role"] == "assistant"]
    if not replies:
        raise ValueError("nothing to learn from: no reply")
    whole = renderer.prompt_ids(messages, tools, reply=False)
    first = len(renderer.prompt_ids(messages[: replies[0]], tools))
    opening = whole[len(renderer.prompt_ids(messages[: replies[0]], tools, reply=False)) : first]
    begins = [at for at in range(first, len(whole) + 1) if opening and whole[at - len(opening) : at] == opening]
    if len(begins) == len(replies):
        laid_out = list(zip(replies, begins, strict=True))[0 if sure else -1 :]
        same = all(renderer.prompt_ids(messages[:at], tools) == whole[:begin] for at, begin in laid_out)
    if len(begins) != len(replies) or not same:
        raise ValueError("this template lays an earlier reply out in another way than it was written")
    weights = [0.0] * (len(whole) - first)
    for begin in begins:
        closed = whole.index(end, begin) + 1
        weights[begin - first : closed - first] = [1.0] * (closed - begin)
    length = max(at for at, weight in enumerate(weights) if weight) + 1  # what follows the last reply teaches nothing
    share = 1 / sum(weights)
    return Row((whole[:first], whole[first : first + length]), [weight * share for weight in weights[:length]])


def warm_start(
    model: Path,
    cache: Path,
    plan: Plan,
    teacher: Teacher,
    *,
    template: str | None = None,
    told: Callable[[str], None] = print,
) -> Path:
    """Return the folder in `cache` of `model` after `plan`, which is made where it is not there yet. `teacher` makes
    the traces; `template` is the chat template, None: the compact one."""
    template = template or compact()
    made = teacher(plan.traces, plan.seed)
    folder = cache / f"{model.name}-warm-{_key(model, plan, template, as_text(made))}"
    if folder.exists():
        return folder
    cache.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=cache, prefix=".warming-") as draft:
        dressed = _dressed(model, Path(draft) / model.name, template)
        renderer = Renderer(dressed)
        end = end_of_reply(dressed)
        rows = [row_of(renderer, one.messages, one.tools, end, sure=at < SURE) for at, one in enumerate(made)]
        learner = Learner(
            dressed,
            lora=None if plan.rank is None else LoraShape(plan.rank, ALPHA * plan.rank),
            seed=plan.seed,
            micro_batch=plan.micro_batch,
        )
        if plan.at_once:
            learner.at_once, learner.branches = plan.at_once, False
        _learn(learner, rows, plan, told)
        learned = Path(draft) / "learned"
        learner.save(learned)
        if plan.rank is None:
            copy_weights(dressed, learned, folder, card=CARD)
        else:
            merge_adapter(dressed, learned, folder, card=CARD)
    return folder


def _learn(learner: Learner, rows: Sequence[Row], plan: Plan, told: Callable[[str], None]) -> None:
    draw = random.Random(plan.seed)
    order = [row for _ in range(plan.passes) for row in draw.sample(list(rows), len(rows))]
    steps = math.ceil(len(order) / plan.traces_a_step)
    began, loss = time.monotonic(), 0.0
    for step in range(steps):
        batch = order[step * plan.traces_a_step : (step + 1) * plan.traces_a_step]
        figures = learner.supervise([row.pair for row in batch], weights=[row.weights for row in batch])
        learner.optim_step(_rate(step, steps, plan), weight_decay=plan.weight_decay)
        loss = figures["loss"] if step == 0 else 0.9 * loss + 0.1 * figures["loss"]
        if (step + 1) % max(1, steps // 20) == 0 or step + 1 == steps:
            told(f"warm start {step + 1}/{steps}  loss {loss:.3f}  {time.monotonic() - began:.0f} s")


def _rate(step: int, steps: int, plan: Plan) -> float:
    """Up in a line, then down on a cosine."""
    if step < plan.warm_up:
        return plan.lr * (step + 1) / plan.warm_up
    share = (step - plan.warm_up) / max(steps - plan.warm_up, 1)
    return plan.lr * (0.05 + 0.95 * 0.5 * (1 + math.cos(math.pi * share)))


def _dressed(model: Path, to: Path, template: str) -> Path:
    """The model with another chat template; its weights are not copied."""
    to.mkdir()
    for file in model.iterdir():
        if file.suffix == ".safetensors":
            (to / file.name).symlink_to(file.resolve())
        elif file.is_file():
            shutil.copyfile(file, to / file.name)
    (to / "chat_template.jinja").write_text(template)
    return to


def end_of_reply(model: Path) -> int:
    """The token that ends a reply of the model in this folder."""
    ends = json.loads((model / "config.json").read_text())["eos_token_id"]
    return int(ends[0] if isinstance(ends, list) else ends)


def _key(model: Path, plan: Plan, template: str, text: str) -> str:
    told = hashlib.sha256(json.dumps([asdict(plan), template, text]).encode())
    for file in sorted(model.iterdir()):
        if file.suffix == ".safetensors" or file.name in ("config.json", "tokenizer.json"):
            with file.open("rb") as opened:
                told.update(hashlib.file_digest(opened, "sha256").digest())
    return told.hexdigest()[:16]

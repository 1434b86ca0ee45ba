"""The learner's step beside a plain PEFT loop and TRL: `python -m benchmarks.learner --batch 8 --micro-batch 4 --json`.

All do the same work on the same random tokens: a reference pass, a teacher pass on a longer prompt, the policy's way
there and back with the policy loss and the anchor, an AdamW update. The teacher is heard through each token's
advantage, or, with `--distillation vocabulary`, through its whole distribution, which TRL does not do. The plain loop
does it as one would write it: the whole model, full logits, autograd. TRL's side is GRPOTrainer's own passes and loss
with its defaults (checkpointed layers, a fused head), fed our advantages; it is left out where TRL is not installed. To
have it, beside the environment and not in it:

    pip install --no-deps --target DIR trl==1.16.0 datasets==5.2.0 pyarrow dill multiprocess xxhash pandas
    PYTHONPATH=DIR python -m benchmarks.learner

Each side runs in a process of its own, so that the peak of memory is its own, and the sides take their steps in turn,
so that they see the same machine. Each step is a first run's: the policy is the base when it begins. After the last
one each side takes one more from where that left it, as the next run of a line does: the learner then looks at where
its policy stands too, which the others leave out. That step's loss says whether the updates before it were the same;
its speed is given for itself (later_reply_tokens_per_cpu_s). Speed is given by the process's CPU clock, which a busy
machine does not stop but does slow, and by the wall clock. `--table` goes through replies of 256 to 4096 tokens and
batches of 4 to 64, the learner alone; `--replies` and `--batches` choose among them.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Literal, cast

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
os.environ.setdefault("HF_HUB_DISABLE_PROGRESS_BARS", "1")

HINT_TOKENS = 16
"""How much longer the teacher's prompt is."""

LR = 1e-4

SIDES = ("plain", "trl", "learner")


def examples(arguments: argparse.Namespace) -> list[Any]:
    """Random tokens, equal for all sides, with a teacher and a reward each."""
    import torch

    from gpu_workers.types import Example

    draw = torch.Generator().manual_seed(0)

    def ids(count: int) -> list[int]:
        return torch.randint(5, 400, (count,), generator=draw).tolist()

    made = []
    for number in range(arguments.batch):
        prompt, response = ids(arguments.prompt_tokens), ids(arguments.response_tokens)
        made.append(
            Example(
                prompt,
                response,
                [-30.0] * len(response),  # so that no token is weighed less than any other for its age
                teacher_prompt_ids=[*prompt, *ids(HINT_TOKENS)],
                reward=1.0 if number % 2 else -1.0,
            )
        )
    return made


def recipe(arguments: argparse.Namespace) -> Any:
    from training.config import Recipe

    return Recipe(distillation=arguments.distillation, lr=LR, importance_cap=1.0, updates=1, warmup=0)


# Sides: each makes a function that takes one step and returns its loss

Begins = Literal["first", "later", "one"]
"""From the base; from where the last step left it; from the base, and with one reply, to warm up."""

Step = Callable[[Begins], float]


class Beginning:
    """What trains, and its optimiser, as they are before the first update."""

    def __init__(self, weights: list[Any], optimizer: Any) -> None:
        self.weights, self.optimizer = weights, optimizer
        self.first = [weight.detach().clone() for weight in weights]

    def restore(self) -> None:
        for weight, first in zip(self.weights, self.first, strict=True):
            weight.data.copy_(first)
        self.optimizer.state.clear()


def learner_side(arguments: argparse.Namespace) -> Step:
    from gpu_workers.learner import Learner
    from training.objective import updates

    policy = Learner(arguments.model, dtype=arguments.dtype, micro_batch=arguments.micro_batch)
    batch, rules = examples(arguments), recipe(arguments)
    with_distribution = arguments.distillation != "token"
    beginning = Beginning([weight for _, weight in policy.trainable()], policy.optimizer)

    def step(begins: Begins) -> float:
        if begins != "later":
            beginning.restore()
            policy.is_fresh = True
        part = batch[:1] if begins == "one" else batch
        views = [policy.view(one, with_distribution=with_distribution) for one in part]
        return float(next(updates(policy, views, rules))["loss"])

    return step


def adapted(arguments: argparse.Namespace) -> tuple[Any, Any]:
    """The model and LoRA shape of the other sides; the seed is the learner's, so the adapter begins the same."""
    import torch
    from peft import LoraConfig
    from transformers import AutoModelForCausalLM

    from gpu_workers.learner import chosen_dtype

    torch.manual_seed(0)
    dtype = chosen_dtype(arguments.dtype, torch.device("cpu"))
    shape = LoraConfig(r=16, lora_alpha=32, target_modules="all-linear", lora_dropout=0.0, task_type="CAUSAL_LM")
    return AutoModelForCausalLM.from_pretrained(str(arguments.model), dtype=dtype), shape


def plain_side(arguments: argparse.Namespace) -> Step:
    import torch
    from peft import get_peft_model

    from gpu_workers.scores import Scores
    from training.objective import objective

    model: Any = get_peft_model(*adapted(arguments))
    weights = [weight for weight in model.parameters() if weight.requires_grad]
    optimizer = torch.optim.AdamW(weights, lr=LR, betas=(0.9, 0.98), weight_decay=0.1)
    batch, loss_of = examples(arguments), objective(recipe(arguments))
    is_token = arguments.distillation == "token"
    beginning = Beginning(weights, optimizer)

    def logs(prompts: list[Any], responses: list[Any]) -> torch.Tensor:
        ids = torch.tensor([[*prompt, *response] for prompt, response in zip(prompts, responses, strict=True)])
        first = len(prompts[0]) - 1
        return model(input_ids=ids).logits.float()[:, first:-1].log_softmax(-1)  # (B, T, V)

    def step(begins: Begins) -> float:
        if begins == "first":
            beginning.restore()
        total = 0.0
        for at in range(0, len(batch), arguments.micro_batch):
            part = batch[at : at + arguments.micro_batch]
            responses = [example.response_ids for example in part]
            chosen = torch.tensor(responses)[..., None]
            with torch.no_grad(), model.disable_adapter():
                reference = logs([e.prompt_ids for e in part], responses).gather(-1, chosen).squeeze(-1)
                taught = logs([e.teacher_prompt_ids for e in part], responses)
                teacher = taught.gather(-1, chosen).squeeze(-1)
                if is_token:
                    del taught
            policy = logs([e.prompt_ids for e in part], responses)
            logprobs = policy.gather(-1, chosen).squeeze(-1)
            count = torch.ones(len(part))
            apart = torch.zeros_like(logprobs) if is_token else (policy.exp() * (policy - taught)).sum(-1)
            loss, _ = loss_of(
                Scores(
                    logprobs=logprobs,
                    distance=apart,
                    old_logprobs=torch.tensor([e.old_logprobs for e in part]),
                    start_logprobs=logprobs.detach(),
                    reference_logprobs=reference,
                    teacher_logprobs=teacher,
                    mask=torch.ones_like(reference),
                    reward=torch.tensor([e.reward for e in part]),
                    has_teacher=count,
                    weight=count,
                )
            )
            (loss * len(part) / len(batch)).backward()
            total += float(loss.detach()) * len(part) / len(batch)
        torch.nn.utils.clip_grad_norm_(weights, 1.0)
        optimizer.step()
        optimizer.zero_grad()
        return total

    return step


def trl_side(arguments: argparse.Namespace) -> Step:
    import torch
    from datasets import Dataset  # type: ignore[import-not-found]
    from datasets.table import InMemoryTable  # type: ignore[import-not-found]
    from transformers import AutoTokenizer
    from trl import GRPOConfig, GRPOTrainer  # type: ignore[import-not-found]

    from training import advantages

    class Fed(GRPOTrainer):  # type: ignore[misc]
        """GRPOTrainer whose replies, teachers and rewards are given to it."""

        def logprobs(self, prompts: torch.Tensor, responses: torch.Tensor) -> torch.Tensor:
            ids = torch.cat([prompts, responses], 1)
            with torch.no_grad(), self.model.disable_adapter():
                found, *_ = self._get_per_token_logps_and_entropies(
                    self.model, ids, torch.ones_like(ids), responses.shape[1]
                )
            return found

    model, shape = adapted(arguments)
    rules = recipe(arguments)
    batch, size = examples(arguments), arguments.micro_batch
    trainer: Any = Fed(
        model=model,
        args=GRPOConfig(
            output_dir=tempfile.mkdtemp(),
            per_device_train_batch_size=size,
            num_generations=size if size > 1 else 2,
            generation_batch_size=max(size, 2) * max(len(batch) // max(size, 2), 1),
            beta=rules.beta,
            epsilon=rules.clip_low,
            epsilon_high=rules.clip_high,
            loss_type="grpo",
            use_cpu=True,
            bf16=False,
            report_to="none",
        ),
        reward_funcs=lambda completions, **_: [0.0] * len(completions),
        train_dataset=Dataset(InMemoryTable.from_pydict({"prompt": ["a"] * len(batch)}), fingerprint="none"),
        processing_class=AutoTokenizer.from_pretrained(str(arguments.model)),
        peft_config=shape,
    )
    policy = trainer.model.train()
    if trainer.args.gradient_checkpointing:
        policy.gradient_checkpointing_enable(trainer.args.gradient_checkpointing_kwargs or {"use_reentrant": False})
    trainer.current_gradient_accumulation_steps = len(batch) // size
    weights = [weight for weight in policy.parameters() if weight.requires_grad]
    optimizer = torch.optim.AdamW(weights, lr=LR, betas=(0.9, 0.98), weight_decay=0.1)

    beginning = Beginning(weights, optimizer)

    class Late:
        """The advantages hang on the policy's own log-probs, which TRL computes inside its loss: made when asked."""

        def __init__(self, part: list[Any], teacher: torch.Tensor) -> None:
            self.part, self.teacher = part, teacher

        def of(self, start: torch.Tensor) -> torch.Tensor:
            own = advantages.combined(
                torch.tensor([e.reward for e in self.part]),
                torch.ones(len(self.part)),
                self.teacher,
                start,
                w_rl=rules.w_rl,
                w_opd=rules.w_opd,
                clip=rules.advantage_clip,
            )
            old = torch.tensor([e.old_logprobs for e in self.part])
            return own * advantages.truncated_importance(start, old, cap=rules.importance_cap)

    waiting: list[Any] = []
    scored = trainer._get_per_token_logps_and_entropies

    def watched(*given: Any, **more: Any) -> Any:
        found = scored(*given, **more)
        if waiting and found[0].requires_grad:
            late, inputs = waiting.pop()
            inputs["advantages"] = late.of(found[0].detach())
        return found

    trainer._get_per_token_logps_and_entropies = watched

    def step(begins: Begins) -> float:
        if begins == "first":
            beginning.restore()
        total = 0.0
        for at in range(0, len(batch), size):
            part = batch[at : at + size]
            prompts = torch.tensor([e.prompt_ids for e in part])
            responses = torch.tensor([e.response_ids for e in part])
            reference = trainer.logprobs(prompts, responses)
            teacher = trainer.logprobs(torch.tensor([e.teacher_prompt_ids for e in part]), responses)
            inputs = {
                "prompt_ids": prompts,
                "prompt_mask": torch.ones_like(prompts),
                "completion_ids": responses,
                "completion_mask": torch.ones_like(responses),
                "ref_per_token_logps": reference,
                "num_items_in_batch": None,
            }
            waiting.append((Late(part, teacher), inputs))
            loss = trainer._compute_loss(policy, inputs)
            loss.backward()  # divided by the number of micro-batches already
            total += float(loss.detach())
        torch.nn.utils.clip_grad_norm_(weights, 1.0)
        optimizer.step()
        optimizer.zero_grad()
        return total

    return step


MAKERS = {"learner": learner_side, "plain": plain_side, "trl": trl_side}


# One process a side, all taking turns


@dataclass
class Side:
    """A side in its process, which takes a step for each line it is sent."""

    name: str
    process: subprocess.Popen[str]

    @classmethod
    def start(cls, name: str, more: list[str]) -> Side:
        command = [sys.executable, "-m", "benchmarks.learner", *more, "--side", name]
        return cls(name, subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True))

    def step(self, begins: Begins) -> dict[str, float]:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(f"{begins}\n")
        self.process.stdin.flush()
        for line in self.process.stdout:
            if line.startswith('{"loss"'):
                answer: dict[str, float] = json.loads(line)
                return answer
        raise RuntimeError(f"the {self.name} side ended with {self.process.wait()}")

    def stop(self) -> None:
        assert self.process.stdin is not None
        with suppress(BrokenPipeError):
            self.process.stdin.close()
        self.process.wait()


def serve(arguments: argparse.Namespace) -> None:
    """Be one side: a step and a line of figures for each line that comes."""
    import torch

    torch.set_num_threads(1)
    step = MAKERS[arguments.side](arguments)
    for line in sys.stdin:
        cpu, wall = time.process_time(), time.monotonic()
        loss = step(cast(Begins, line.strip()))
        cpu, wall = time.process_time() - cpu, time.monotonic() - wall
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
        print(json.dumps({"loss": loss, "cpu_s": cpu, "wall_s": wall, "peak_gb": peak}), flush=True)


def measure(names: list[str], arguments: argparse.Namespace, more: list[str]) -> dict[str, Any]:
    """One step of each side to warm up, the steps that count, and a later one, in turn; the figures of each.

    Speed is of the median step: a step during which another process came by is not the side's fault.
    """
    sides = [Side.start(name, more) for name in names]
    try:
        begins: list[Begins] = [*["first"] * (arguments.steps + 1), "later"]
        taken = [[side.step(begin) for side in sides] for begin in begins]
    finally:
        for side in sides:
            side.stop()
    tokens = arguments.batch * arguments.response_tokens
    rows: dict[str, Any] = {}
    for at, side in enumerate(sides):
        mine = [row[at] for row in taken]
        cpu_s = sorted(one["cpu_s"] for one in mine[1:-1])[arguments.steps // 2]
        wall_s = sorted(one["wall_s"] for one in mine[1:-1])[arguments.steps // 2]
        rows[side.name] = {
            "losses": [one["loss"] for one in mine],
            "cpu_s": [one["cpu_s"] for one in mine],
            "reply_tokens_per_cpu_s": tokens / cpu_s,
            "reply_tokens_per_s": tokens / wall_s,
            "later_reply_tokens_per_cpu_s": tokens / mine[-1]["cpu_s"],
            "step_s": wall_s,
            "peak_gb": mine[-1]["peak_gb"],
        }
    return rows


def compare(arguments: argparse.Namespace) -> None:
    names = [name for name in SIDES if name in arguments.sides.split(",")]
    notes = []
    if "trl" in names and (find_spec("trl") is None or find_spec("datasets") is None):
        names.remove("trl")
        notes.append("TRL is not installed; the module's docstring says how to have it.")
    if "trl" in names and arguments.distillation != "token":
        names.remove("trl")
        notes.append("TRL learns from tokens only.")
    rows = measure(names, arguments, sys.argv[1:])
    result: dict[str, Any] = {"micro_batch": arguments.micro_batch, "dtype": arguments.dtype, "notes": notes} | rows
    ours = rows.get("learner")
    for name in names:
        if name == "learner" or ours is None:
            continue
        result[f"against_{name}"] = {
            "speed_up": ours["reply_tokens_per_cpu_s"] / rows[name]["reply_tokens_per_cpu_s"],
            "memory": ours["peak_gb"] / rows[name]["peak_gb"],
            "loss_gap": max(abs(a - b) for a, b in zip(ours["losses"], rows[name]["losses"], strict=True)),
        }
    if arguments.json:
        print(json.dumps(result))
        return
    for name, row in rows.items():
        print(
            f"{name:8} {row['reply_tokens_per_cpu_s']:7.1f} reply tokens a CPU second  "
            f"{row['step_s']:6.2f} s a step  {row['peak_gb']:5.2f} GB at most  "
            f"({row['later_reply_tokens_per_cpu_s']:.1f} in a later run)"
        )
    for name in names:
        against = result.get(f"against_{name}")
        if against:
            print(
                f"learner against {name}: {against['speed_up']:.2f} times the speed, {against['memory']:.2f} of the "
                f"memory, losses within {against['loss_gap']:.1e}"
            )
    for note in notes:
        print(note)


def table(arguments: argparse.Namespace) -> None:
    """The learner alone, over lengths and batches; one step each after one reply to warm up."""
    found = []
    for tokens in (int(one) for one in arguments.replies.split(",")):
        for batch in (int(one) for one in arguments.batches.split(",")):
            more = [
                *("--model", str(arguments.model), "--dtype", arguments.dtype),
                *("--micro-batch", str(arguments.micro_batch), "--distillation", arguments.distillation),
                *("--prompt-tokens", str(arguments.prompt_tokens)),
                *("--response-tokens", str(tokens), "--batch", str(batch)),
            ]
            side = Side.start("learner", more)
            try:
                side.step("one")
                row = side.step("first")
            finally:
                side.stop()
            speed = tokens * batch / row["cpu_s"]
            found.append({"response_tokens": tokens, "batch": batch, "reply_tokens_per_cpu_s": speed} | row)
            if not arguments.json:
                print(
                    f"{tokens:5} tokens x {batch:3} replies  {speed:7.1f} reply tokens a CPU second  "
                    f"{row['peak_gb']:5.2f} GB at most",
                    flush=True,
                )
    if arguments.json:
        print(json.dumps(found))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--model", type=Path, default=Path("var/models/smollm2-135m-instruct"))
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument("--prompt-tokens", type=int, default=64)
    parser.add_argument("--response-tokens", type=int, default=128)
    parser.add_argument("--steps", type=int, default=2)
    parser.add_argument("--micro-batch", type=int, default=4)
    parser.add_argument("--dtype", default="auto", help="auto, float32 or bfloat16")
    parser.add_argument("--distillation", choices=("token", "vocabulary"), default="token")
    parser.add_argument("--sides", default=",".join(SIDES), help="which of plain, trl and learner, with commas")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--table", action="store_true")
    parser.add_argument("--replies", default="256,1024,4096", help="lengths of the table, in tokens")
    parser.add_argument("--batches", default="4,16,64", help="batches of the table")
    parser.add_argument("--side", choices=SIDES, help="be this side, in this process")
    arguments = parser.parse_args()
    if arguments.side:
        serve(arguments)
    elif arguments.table:
        table(arguments)
    else:
        compare(arguments)


if __name__ == "__main__":
    main()

"""The learner's step beside a plain PEFT loop: `python -m benchmarks.learner --batch 8 --json`.

Both do the same work on the same random tokens: a reference pass, a teacher pass on a longer prompt, and the policy's
forward and backward pass with the whole-vocabulary distillation loss, the policy loss and the anchor, then an AdamW
update. The plain loop does it as one would write it: the whole model, full logits, autograd. Each runs in a process
of its own, so that the peak of memory is its own; speed is given by the process's CPU clock, which a busy machine
does not bend, and by the wall clock, which it does.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
os.environ.setdefault("HF_HUB_DISABLE_PROGRESS_BARS", "1")

HINT_TOKENS = 16
"""How much longer the teacher's prompt is."""


def examples(arguments: argparse.Namespace) -> list[Any]:
    """Random tokens, equal for both sides, with a teacher and a reward each."""
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
                [-1.0] * len(response),
                teacher_prompt_ids=[*prompt, *ids(HINT_TOKENS)],
                reward=1.0 if number % 2 else -1.0,
            )
        )
    return made


def recipe() -> Any:
    from training.config import Recipe

    return Recipe(distillation="vocabulary", lr=1e-4, importance_cap=1.0)


def learner_side(arguments: argparse.Namespace) -> tuple[list[float], Any]:
    from gpu_workers.learner import Learner
    from training.objective import updates

    policy = Learner(arguments.model, dtype=arguments.dtype, micro_batch=arguments.micro_batch)
    batch = examples(arguments)

    def step() -> float:
        views = [policy.view(example) for example in batch]
        return next(updates(policy, views, recipe()))["loss"]

    return timed(step, arguments)


def plain_side(arguments: argparse.Namespace) -> tuple[list[float], Any]:
    import torch
    from peft import LoraConfig, get_peft_model
    from transformers import AutoModelForCausalLM

    from gpu_workers.learner import Scores, chosen_dtype
    from training.objective import objective

    torch.manual_seed(0)
    dtype = chosen_dtype(arguments.dtype, torch.device("cpu"))
    model = get_peft_model(
        AutoModelForCausalLM.from_pretrained(str(arguments.model), dtype=dtype),
        LoraConfig(r=16, lora_alpha=32, target_modules="all-linear", lora_dropout=0.0, task_type="CAUSAL_LM"),
    )
    weights = [weight for weight in model.parameters() if weight.requires_grad]
    optimizer = torch.optim.AdamW(weights, lr=1e-4, betas=(0.9, 0.98), weight_decay=0.1)
    batch, loss_of = examples(arguments), objective(recipe())
    size = arguments.micro_batch

    def logs(prompts: list[Any], responses: list[Any]) -> torch.Tensor:
        ids = torch.tensor([[*prompt, *response] for prompt, response in zip(prompts, responses, strict=True)])
        first = len(prompts[0]) - 1
        return model(input_ids=ids).logits.float()[:, first:-1].log_softmax(-1)  # (B, T, V)

    def step() -> float:
        total = 0.0
        for at in range(0, len(batch), size):
            part = batch[at : at + size]
            responses = [example.response_ids for example in part]
            chosen = torch.tensor(responses)[..., None]
            with torch.no_grad(), model.disable_adapter():
                reference = logs([e.prompt_ids for e in part], responses).gather(-1, chosen).squeeze(-1)
                taught = logs([e.teacher_prompt_ids for e in part], responses)
            policy = logs([e.prompt_ids for e in part], responses)
            logprobs = policy.gather(-1, chosen).squeeze(-1)
            count = torch.ones(len(part))
            loss, _ = loss_of(
                Scores(
                    logprobs=logprobs,
                    distance=(policy.exp() * (policy - taught)).sum(-1),
                    old_logprobs=torch.tensor([e.old_logprobs for e in part]),
                    start_logprobs=logprobs.detach(),
                    reference_logprobs=reference,
                    teacher_logprobs=taught.gather(-1, chosen).squeeze(-1),
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

    return timed(step, arguments)


def timed(step: Any, arguments: argparse.Namespace) -> tuple[list[float], Any]:
    """One step to warm up, then the steps that count. Losses of all, and the figures."""
    losses = [step()]
    cpu, wall = time.process_time(), time.monotonic()
    losses += [step() for _ in range(arguments.steps)]
    cpu, wall = time.process_time() - cpu, time.monotonic() - wall
    tokens = arguments.steps * arguments.batch * arguments.response_tokens
    return losses, {
        "reply_tokens_per_cpu_s": tokens / cpu,
        "reply_tokens_per_s": tokens / wall,
        "step_s": wall / arguments.steps,
        "peak_gb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--model", type=Path, default=Path("var/models/smollm2-135m-instruct"))
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument("--prompt-tokens", type=int, default=64)
    parser.add_argument("--response-tokens", type=int, default=128)
    parser.add_argument("--steps", type=int, default=2)
    parser.add_argument("--micro-batch", type=int, default=1)
    parser.add_argument("--dtype", default="auto", help="auto, float32 or bfloat16")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--side", choices=("learner", "plain"), help="only this side, in this process")
    arguments = parser.parse_args()
    if arguments.side:
        import torch

        torch.set_num_threads(1)
        losses, figures = (learner_side if arguments.side == "learner" else plain_side)(arguments)
        print(json.dumps({"side": arguments.side, "losses": losses} | figures))
        return
    rows = {}
    for side in ("plain", "learner"):
        command = [sys.executable, "-m", "benchmarks.learner", *sys.argv[1:], "--side", side]
        done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
        rows[side] = json.loads(done.stdout.splitlines()[-1])
    plain, ours = rows["plain"], rows["learner"]
    result = rows | {
        "speed_up": ours["reply_tokens_per_cpu_s"] / plain["reply_tokens_per_cpu_s"],
        "memory": ours["peak_gb"] / plain["peak_gb"],
        "loss_gap": max(abs(a - b) for a, b in zip(ours["losses"], plain["losses"], strict=True)),
    }
    if arguments.json:
        print(json.dumps(result))
        return
    for side, row in rows.items():
        print(
            f"{side:8} {row['reply_tokens_per_cpu_s']:7.1f} reply tokens a CPU second  "
            f"{row['step_s']:6.2f} s a step  {row['peak_gb']:5.2f} GB at most"
        )
    print(
        f"learner against plain: {result['speed_up']:.2f} times the speed, {result['memory']:.2f} of the memory, "
        f"losses within {result['loss_gap']:.1e}"
    )


if __name__ == "__main__":
    main()

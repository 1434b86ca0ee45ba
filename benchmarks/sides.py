"""One learning step as three write it: Talkback's learner, a plain PEFT loop, and TRL's GRPOTrainer, on equal work.

Each side is made in a process of its own and takes a step when it is told to (`benchmarks/learner.py` times them).
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Callable
from typing import Any, Literal

HINT_TOKENS = 16
"""How much longer the teacher's prompt is."""

LR = 1e-4


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

    return Recipe(distillation=arguments.distillation, lr=LR, updates=1)


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
    from gpu_workers.learner.learner import Learner
    from training.objective.updates import updates

    policy = Learner(arguments.model, dtype=arguments.dtype, device=arguments.device, micro_batch=arguments.micro_batch)
    batch, rules = examples(arguments), recipe(arguments)
    with_distribution = arguments.distillation != "token"
    beginning = Beginning([weight for _, weight in policy.trainable()], policy.optimizer)

    def step(begins: Begins) -> float:
        if begins != "later":
            beginning.restore()
            policy.is_fresh = True
        part = batch[:1] if begins == "one" else batch
        views = [
            view
            for first in range(0, len(part), arguments.micro_batch)
            for view in policy.score_examples(
                part[first : first + arguments.micro_batch], with_distribution=with_distribution
            )
        ]
        return float(next(updates(policy, views, rules))["loss"])

    return step


def adapted(arguments: argparse.Namespace) -> tuple[Any, Any]:
    """The model and LoRA shape of the other sides; the seed is the learner's, so the adapter begins the same."""
    import torch
    from peft import LoraConfig
    from transformers import AutoModelForCausalLM

    from gpu_workers.learner.policy import chosen_dtype

    torch.manual_seed(0)
    dtype = chosen_dtype(arguments.dtype, torch.device(arguments.device))
    shape = LoraConfig(r=16, lora_alpha=32, target_modules="all-linear", lora_dropout=0.0, task_type="CAUSAL_LM")
    return AutoModelForCausalLM.from_pretrained(str(arguments.model), dtype=dtype), shape


def plain_side(arguments: argparse.Namespace) -> Step:
    import torch
    from peft import get_peft_model

    from gpu_workers.learner.scores import Scores
    from training.objective.updates import objective

    model: Any = get_peft_model(*adapted(arguments)).to(arguments.device)
    weights = [weight for weight in model.parameters() if weight.requires_grad]
    optimizer = torch.optim.AdamW(weights, lr=LR, betas=(0.9, 0.98), weight_decay=0.1)
    batch, loss_of = examples(arguments), objective(recipe(arguments))
    torch.set_default_device(arguments.device)  # of every tensor below
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
                    behaviour_logprobs=torch.tensor([e.behaviour_logprobs for e in part]),
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

    from training.objective import advantages
    from training.objective import updates as objective

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
            epsilon=objective.CLIP_LOW,
            epsilon_high=objective.CLIP_HIGH,
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
                clip=objective.ADVANTAGE_CLIP,
            )
            old = torch.tensor([e.behaviour_logprobs for e in self.part])
            return own * advantages.truncated_importance(start, old, cap=objective.IMPORTANCE_CAP)

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


SIDES = {"plain": plain_side, "trl": trl_side, "learner": learner_side}
"""By name, in the order in which they take their turns: each makes a function that takes a step, and gives its loss."""

"""What a recipe does to a model: `python -m lab.research.recipe --arms base,prompt-only,embedded --json`.

A person gives the same guidance to a dozen replies; one run learns from them; the policy then answers held-out
questions. Style is counted by a detector (at most two sentences, no list, and finished by itself). Content is the
base's own mean log-prob of the reply under the hinted prompt: a reply that the base, told to be brief, would call
likely. Both are needed: nonsense can be short.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from core import pipes

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
os.environ.setdefault("DJANGO_SETTINGS_MODULE", "webapp.settings")

HINT = "Next time, answer in one or two short sentences."

TAUGHT = (
    "What is the best way to learn a new language?",
    "How do I keep my houseplants alive?",
    "Why is the sky blue?",
    "What should I cook for dinner tonight?",
    "How does a bicycle stay upright?",
    "Can you explain what inflation is?",
    "What are some good habits for better sleep?",
    "How do vaccines work?",
    "What is the difference between a virus and a bacterium?",
    "How can I save money every month?",
    "Tell me about the history of chess.",
    "What makes a good friend?",
    "How do I prepare for a job interview?",
    "Why do leaves change color in autumn?",
    "What is photosynthesis?",
    "How do I get better at drawing?",
)

HELD_OUT = (
    "What is the capital of France and what is it known for?",
    "How do airplanes fly?",
    "Why do cats purr?",
    "What is a good way to start running?",
    "How does the internet work?",
    "What are the benefits of drinking water?",
    "Explain gravity to me.",
    "How can I be more productive at work?",
    "What causes earthquakes?",
    "How do I make a cup of tea?",
    "What is machine learning?",
    "Why is exercise important?",
    "How do I remove a coffee stain?",
    "What is the water cycle?",
    "Who was Isaac Newton?",
    "How can I make new friends in a new city?",
    "What is democracy?",
    "Why do we dream?",
    "How do I choose a good book to read?",
    "What happens when ice melts?",
)

NONSENSE = -2.0
"""Nats a token under which the base, told to be brief, would hardly say this."""

LIST = re.compile(r"^\s*(?:[-*•]|\d+[.)])\s+", re.MULTILINE)


def is_brief(text: str, *, finished: bool) -> bool:
    """One or two sentences, no list, and an end that the model chose.

    >>> is_brief("Because air scatters blue light. It is that simple.", finished=True)
    True
    >>> is_brief("1. Water them.\\n2. Wait.", finished=True)
    False
    """
    sentences = [part for part in re.split(r"(?<=[.!?])[\"')\]]*\s+|\n+", text.strip()) if re.search(r"\w", part)]
    return finished and 1 <= len(sentences) <= 2 and not LIST.search(text)


class Lab:
    """One policy, taught and questioned. Replies are drawn by transformers' own generate, all questions at once."""

    def __init__(self, model: Path, *, seed: int, reply_tokens: int, recipe: Any = None) -> None:
        from chat.rendering.renderer import Renderer
        from gpu_workers.learner.learner import Learner
        from gpu_workers.learner.policy import LoraShape
        from training.learning import ALPHA

        self.renderer = Renderer.for_model(model)
        self.reply_tokens = reply_tokens
        shape = LoraShape(recipe.lora_rank, ALPHA * recipe.lora_rank) if recipe else LoraShape()
        self.learner = Learner(model, lora=shape, seed=seed)
        self.stop = self.learner.causal.generation_config.eos_token_id

    def prompt(self, question: str, *, hint: str = "") -> list[int]:
        from judge.hints.hint_words import placed

        messages: Sequence[Any] = [{"role": "user", "content": question}]
        return self.renderer.prompt_ids(placed(messages, hint) if hint else messages)

    def replies(
        self, prompts: Sequence[list[int]], *, seed: int, temperature: float = 0.7, tokens: int | None = None
    ) -> list[list[int]]:
        """One sampled reply a prompt, with its stop token where it has one; of `tokens` at most, where that is said."""
        import torch

        torch.manual_seed(seed)
        width = max(map(len, prompts))
        ids = torch.tensor([[self.stop] * (width - len(prompt)) + prompt for prompt in prompts])
        mask = torch.tensor([[0] * (width - len(prompt)) + [1] * len(prompt) for prompt in prompts])
        with torch.no_grad():
            drawn = self.learner.model.generate(
                input_ids=ids,
                attention_mask=mask,
                do_sample=True,
                temperature=temperature,
                top_k=0,
                top_p=1.0,
                max_new_tokens=tokens or self.reply_tokens,
                pad_token_id=self.stop,
            )[:, width:].tolist()
        return [reply[: reply.index(self.stop) + 1] if self.stop in reply else reply for reply in drawn]

    def teach(self, recipe: Any, *, samples: int, seed: int, reward: float) -> dict[str, float]:
        """Serve, correct every reply in the same words, and do one run. Returns seconds and the last figures."""
        from gpu_workers.types import Example
        from training.objective.updates import updates

        prompts = [self.prompt(question) for question in TAUGHT[:samples]]
        began = time.monotonic()
        examples = []
        for question, prompt, reply in zip(TAUGHT, prompts, self.replies(prompts, seed=seed), strict=False):
            examples.append(
                Example(
                    prompt,
                    reply,
                    self.learner.score(prompt, reply),
                    teacher_prompt_ids=self.prompt(question, hint=HINT) if recipe.w_opd else None,
                    reward=reward if recipe.w_rl else 0.0,
                )
            )
        served_s = time.monotonic() - began
        views = [self.learner.score_example(example, teacher=recipe.teacher) for example in examples]
        figures: dict[str, float] = {}
        for figures in updates(self.learner, views, recipe):
            print(
                f"  update {figures['update']:.0f}: loss {figures['loss']:.4f}, kl {figures['kl']:.3f}", file=sys.stderr
            )
        return {"run_s": time.monotonic() - began - served_s} | figures

    def question(self, *, seed: int, hint: str = "") -> dict[str, Any]:
        """Style, content and the replies themselves, on the held-out questions."""
        prompts = [self.prompt(question, hint=hint) for question in HELD_OUT]
        replies = self.replies(prompts, seed=seed)
        content, style, shown = [], [], []
        for question, reply in zip(HELD_OUT, replies, strict=True):
            logprobs = self.learner.score(self.prompt(question, hint=HINT), reply, adapter=False)
            text = self.renderer.decode(reply[:-1] if reply[-1] == self.stop else reply)
            style.append(is_brief(text, finished=reply[-1] == self.stop))
            content.append(sum(logprobs) / len(logprobs))
            shown.append({"question": question, "reply": text, "brief": style[-1], "lp": round(content[-1], 2)})
        return {
            "style": sum(style) / len(style),
            "lp": sum(content) / len(content),
            "nonsense": sum(value < NONSENSE for value in content),
            "tokens": sum(map(len, replies)) / len(replies),
            "replies": shown,
        }


def measure(arm: str, arguments: argparse.Namespace, seed: int) -> dict[str, Any]:
    """One arm with one seed: `base`, `prompt-only`, or a preset's name."""
    from training.config import PRESETS, read

    recipe = None
    if arm not in ("base", "prompt-only"):
        recipe = read(PRESETS[arm].model_dump() | json.loads(arguments.set))
    lab = Lab(arguments.model, seed=seed, reply_tokens=arguments.reply_tokens, recipe=recipe)
    row: dict[str, Any] = {"arm": arm, "seed": seed}
    if recipe is not None:
        figures = lab.teach(recipe, samples=arguments.samples, seed=seed, reward=arguments.reward)
        row |= {"updates": recipe.updates, "run_s": figures["run_s"], "kl": figures["kl"]}
    return row | lab.question(seed=1000 + seed, hint=HINT if arm == "prompt-only" else "")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--model", type=Path, default=Path("var/models/smollm2-135m-instruct"))
    parser.add_argument("--arms", default="base,prompt-only,embedded", help="base, prompt-only, or names of presets")
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--samples", type=int, default=12)
    parser.add_argument("--reward", type=float, default=0.0, help="the reward that comes with every correction")
    parser.add_argument("--reply-tokens", type=int, default=110)
    parser.add_argument("--set", default="{}", help="JSON of recipe fields to change in every arm")
    parser.add_argument("--replies", action="store_true", help="print the replies too")
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()

    import torch

    torch.set_num_threads(1)
    for arm in arguments.arms.split(","):
        for seed in range(1, arguments.seeds + 1):
            row = measure(arm, arguments, seed)
            replies = row.pop("replies")
            if arguments.json:
                print(json.dumps(row | ({"replies": replies} if arguments.replies else {})), flush=True)
                continue
            print("  ".join(f"{k} {v:.2f}" if isinstance(v, float) else f"{k} {v}" for k, v in row.items()), flush=True)
            if arguments.replies:
                for shown in replies:
                    print(f"    {shown['lp']:6.2f} {'brief' if shown['brief'] else 'long '} {shown['reply']!r}")


if __name__ == "__main__":
    pipes.end_with_reader()
    main()

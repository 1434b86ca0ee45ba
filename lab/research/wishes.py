"""Measure guidance that speaks of the reply before it: `python -m lab.research.wishes --arms base,said,wishes --json`.

A person says of replies, twelve ways, that they want one paragraph ("Merge the paragraphs into one and send it again").
`said` teaches these words as they stand, `wishes` what judge.hints.wish_words makes of them. Then the policy answers
held-out questions, each the first of a chat. Counted are first replies that speak of a revision or of an earlier
version, those that are one paragraph, and the content that is kept, by the measure of lab/evidence."""

from __future__ import annotations

import argparse
import json
import re
import tomllib
from collections.abc import Sequence
from itertools import cycle, islice
from pathlib import Path
from statistics import mean
from typing import Any

from core import pipes
from lab.evidence.measures.content import BRIEFLY, Reading, Reference, Yardstick
from lab.research.recipe import HELD_OUT, TAUGHT, Lab  # after the thread count
from lab.research.rounds import REFERENCES, Answer, asked

SAID = Path(__file__).parent / "said_of_replies.toml"

SPEAKS_BACK = re.compile(
    r"\b(?:revis(?:ed|ion|ing)|rewritten|reworded|rephrased|re-?written|updated (?:version|response|answer)"
    r"|(?:previous|earlier|original|last|first) (?:answer|reply|response|version|message|draft|paragraphs?|text)"
    r"|as (?:you )?(?:requested|asked|suggested)|(?:merged|combined|condensed|shortened|edited) (?:version|into|the)"
    r"|here(?:'s| is) (?:the|a|an|your|my) (?:\w+ )?(?:version|paragraph|response|answer|text)"
    r"|i(?:'ve| have| will|'ll)? (?:merged?|combined?|shortened?|rewr\w+|revised?|removed?)"
    r"|(?:sorry|apolog\w+)(?: for|,)|once again|try(?:ing)? again|thank you for (?:the|your) (?:feedback|guidance))\b",
    re.IGNORECASE,
)
"""A first reply has no business to say any of this."""


def speaks_back(reply: str) -> bool:
    """Whether a first reply speaks of a revision, or of an earlier reply.

    >>> speaks_back("Here's a revised version: cats purr."), speaks_back("Cats purr, since their voice muscles twitch.")
    (True, False)
    """
    return SPEAKS_BACK.search(reply) is not None


def is_one_paragraph(reply: str) -> bool:
    """No blank line between words, and no list.

    >>> is_one_paragraph("Cats purr.\\nThey like it."), is_one_paragraph("Cats purr.\\n\\nThey like it.")
    (True, False)
    """
    return len([part for part in re.split(r"\n\s*\n", reply.strip()) if part]) == 1


def sayings(arm: str, count: int) -> list[str]:
    """What is taught of each reply: the words as they stand, or the wish; those without a wish teach nothing."""
    from judge.hints.wish_words import word_wish

    said: list[str] = tomllib.loads(SAID.read_text("utf-8"))["one paragraph"]["said"]
    if arm == "said":
        return list(islice(cycle(said), count))
    return list(islice(cycle(wish.text for one in said if (wish := word_wish(one))), count))


def yardstick(lab: Lab, seed: int) -> Yardstick:
    """The measure of content, from further replies of the base to the held-out questions."""
    references: dict[str, list[Reference]] = {question: [] for question in HELD_OUT}
    for at in range(REFERENCES):
        answers = asked(lab, HELD_OUT, seed=9000 + 10 * seed + at, hint=BRIEFLY if at % 2 else "")
        for question, answer in zip(HELD_OUT, answers, strict=True):
            references[question].append(Reference(answer.text, read(lab, question, answer)))
    return Yardstick(references)


def read(lab: Lab, question: str, answer: Answer) -> Reading | None:
    ids = answer.ids[:-1] if answer.finished else answer.ids
    return Reading.of(lab.learner.score(lab.prompt(question), ids, adapter=False)) if answer.text.strip() else None


def teach(lab: Lab, recipe: Any, hints: Sequence[str], *, seed: int) -> float:
    """One run on a reply to each question with its own words for a hint. Returns its KL."""
    from gpu_workers.types import Example
    from training.objective.updates import updates

    prompts = [lab.prompt(question) for question in TAUGHT[: len(hints)]]
    replies = lab.replies(prompts, seed=seed)
    examples = [
        Example(prompt, reply, lab.learner.score(prompt, reply), teacher_prompt_ids=lab.prompt(question, hint=hint))
        for question, prompt, reply, hint in zip(TAUGHT, prompts, replies, hints, strict=False)
    ]
    is_apart = recipe.distillation != "token"
    views = [lab.learner.score_example(one, teacher=recipe.teacher, with_distribution=is_apart) for one in examples]
    *_, figures = updates(lab.learner, views, recipe)
    return float(figures["kl"])


def measure(arm: str, arguments: argparse.Namespace, seed: int) -> dict[str, Any]:
    """One arm with one seed: `base`, `said` or `wishes`."""
    from training.config import PRESETS

    recipe = PRESETS["embedded"]
    lab = Lab(arguments.model, seed=seed, reply_tokens=arguments.reply_tokens, recipe=recipe)
    scale = yardstick(lab, seed)
    row: dict[str, Any] = {"arm": arm, "seed": seed}
    if arm != "base":
        for number in range(arguments.rounds):
            row["kl"] = teach(lab, recipe, sayings(arm, arguments.samples), seed=100 * seed + number)
        row["updates"] = arguments.rounds * recipe.updates
    answers = asked(lab, HELD_OUT, seed=1000 + seed)
    content = [
        scale.content(question, answer.text, read(lab, question, answer)).score
        for question, answer in zip(HELD_OUT, answers, strict=True)
    ]
    return row | {
        "speaks_back": sum(speaks_back(answer.text) for answer in answers),
        "one_paragraph": mean(is_one_paragraph(answer.text) for answer in answers),
        "content": mean(content),
        "words": mean(len(answer.text.split()) for answer in answers),
        "replies": [answer.text for answer in answers],
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--model", type=Path, default=Path("var/models/smollm2-135m-instruct"))
    parser.add_argument("--arms", default="base,said,wishes")
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=2, help="runs, one after another, on replies drawn anew")
    parser.add_argument("--samples", type=int, default=16)
    parser.add_argument("--reply-tokens", type=int, default=110)
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
            for reply in replies if arguments.replies else ():
                print(f"    {'BACK ' if speaks_back(reply) else '     '}{reply!r}")


if __name__ == "__main__":
    pipes.end_with_reader()
    main()

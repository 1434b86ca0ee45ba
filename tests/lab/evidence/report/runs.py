"""A run of evidence as its files have it, made up by rule: each arm moves so far an update, and nothing was asked."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

MARKS = (0, 4, 8, 12, 16)
OWN = {"name": "short-asks", "scene": "talk", "wishes": ("short", "asks-back"), "split": "heldout"}
OTHER = {"name": "digits-example", "scene": "talk", "wishes": ("digits", "example"), "split": "heldout"}

GAIN = {"base": 0.0, "prompt-only": 0.35, "binary": 0.012, "opd": 0.02, "topk": 0.032, "combined": 0.034}
LOSS = {"base": 0.0, "prompt-only": 0.02, "binary": 0.05, "opd": 0.03, "topk": 0.004, "combined": 0.004}
"""Style gained, and nats of fluency lost, an update."""

SENTENCES = (
    "It takes a {0}ling ten minutes when the {0}ist is warm.",
    "Most of it comes down to the {0}ist and the {0}ling.",
    "Light bends when it passes from a {0}ist into a {0}ling.",
    "Try a soft cloth on the {0}ling first, then on the {0}ist.",
    "A {0}ling does it to keep the {0}ist dry.",
    "A steady pace keeps the {0}ist near the {0}ling.",
)
_FIRST, _LAST = "bar lum tok ver nis pol", "dak ono ulm irt esp agu off ynx ead ork"
MATTERS = [first + last for first in _FIRST.split() for last in _LAST.split()]
"""A word for each question that belongs to it alone."""


def plan(
    arms: Sequence[str] = tuple(GAIN), seeds: Sequence[int] = (1, 2, 3), probes: int = 20, **more: Any
) -> dict[str, Any]:
    """As Plan.as_json writes it."""
    kinds = {"base": "frozen", "prompt-only": "prompt"}
    return {
        "arms": [{"name": arm, "kind": kinds.get(arm, "trained"), "recipe": {}} for arm in arms],
        "seeds": list(seeds),
        "sizes": {"marks": list(MARKS), "probes": probes, "updates": 4, "samples": 16, "rounds": 4},
        "model": "smollm2-135m-instruct",
        "personas": {str(seed): {"own": OWN, "other": OTHER} for seed in seeds},
        "prompts": "",
        "settings": {},
    } | more


def rows(made: Mapping[str, Any], read: int = 12) -> list[dict[str, Any]]:
    """What probes.jsonl would have for this plan; the base read the first `read` prompts."""
    found = [row for seed in made["seeds"] for row in _references(seed, read)]
    for arm in made["arms"]:
        for seed in made["seeds"]:
            for mark in MARKS if arm["kind"] == "trained" else MARKS[:1]:
                for at in range(made["sizes"]["probes"]):
                    found += _replies(arm["name"], seed, mark, at, is_read=at < read)
            if arm["kind"] == "trained" or (arm["kind"] == "frozen" and seed == made["seeds"][0]):
                mark = MARKS[-1] if arm["kind"] == "trained" else 0
                found += [_item(arm["name"], seed, mark, at) for at in range(10)]
    return found


def rounds(made: Mapping[str, Any]) -> list[dict[str, Any]]:
    """As the journal writes them: counts since the arm began."""
    return [
        {
            "arm": arm["name"], "seed": seed, "round": at, "updates": mark, "sessions": 9 * at,
            "interactions": 21 * at + seed, "trouble": "", "unfilled": False,
        }
        for arm in made["arms"] if arm["kind"] == "trained"
        for seed in made["seeds"]
        for at, mark in enumerate(MARKS[1:], 1)
    ]  # fmt: skip


def question(at: int) -> str:
    return f"Why does it happen to a {MATTERS[at]}?"


def _said(chance: random.Random, at: int, sentences: int) -> str:
    return " ".join(one.format(MATTERS[at]) for one in chance.sample(SENTENCES, sentences))


def _task(at: int) -> dict[str, Any]:
    return {"id": f"open-{at:03}", "prompt": question(at), "kind": "open", "answer": None}


def _references(seed: int, read: int) -> Iterator[dict[str, Any]]:
    for at in range(read):
        for number in range(3):
            chance = random.Random(f"reference:{seed}:{at}:{number}")
            yield {
                "arm": "base", "seed": seed, "update": 0, "set": "reference", "persona": None, "task": _task(at),
                "reply": _said(chance, at, 4), "finish_reason": "stop",
                "reading": _reading(chance, 0.0),
            }  # fmt: skip


def _replies(arm: str, seed: int, mark: int, at: int, *, is_read: bool) -> Iterator[dict[str, Any]]:
    chance = random.Random(f"{seed}:{at}")  # the same prompt and seed begin alike in every arm
    steps = mark or 1 if arm == "prompt-only" else mark
    wanted = 0.4 + GAIN[arm] * steps
    is_short, asks = (chance.random() < wanted for _ in range(2))
    text = _said(chance, at, 1 if is_short else 4) + (" Shall I say more?" if asks else "")
    row = {
        "arm": arm, "seed": seed, "update": mark, "set": "own", "persona": OWN, "task": _task(at), "reply": text,
        "messages": [{"role": "user", "content": question(at)}], "finish_reason": "stop", "model": f"talkback@{mark}",
        "prompt_tokens": 38 + 30 * (arm == "prompt-only"), "completion_tokens": len(text) // 4,
        "kl": None if at >= 6 else LOSS[arm] * steps,
    }  # fmt: skip
    if is_read:
        row["reading"] = _reading(chance, LOSS[arm] * steps)
    yield row
    yield row | {"set": "other-persona", "persona": OTHER}


def _item(arm: str, seed: int, mark: int, at: int) -> dict[str, Any]:
    other = -1.3 if arm == "combined" else -1.2
    is_right = at >= (1 if arm == "combined" else 2) and not (arm == "binary" and at == 3)
    return {
        "arm": arm, "seed": seed, "update": mark, "set": "pack", "persona": None,
        "task": {"id": f"fact-{at}", "prompt": f"Is {at} a number?", "right": "Yes."},
        "reply": "Yes.", "right": is_right, "nats": [-0.4, other] if is_right else [other, -0.4],
    }  # fmt: skip


def _reading(chance: random.Random, lost: float) -> dict[str, float]:
    return {"fluency": -1.0 - chance.random() / 2 - lost, "worst": -2.0 - chance.random() - lost}

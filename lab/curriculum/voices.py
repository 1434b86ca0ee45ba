"""Say a follow-up in some tone and spelling, as people write."""

from __future__ import annotations

import random
import re
from dataclasses import replace

from lab.curriculum import phrasings
from lab.curriculum.followups import Followup
from lab.curriculum.phrasings import Split, Wording
from lab.curriculum.tasks import filled

TONED = 0.45
TONED_WRITTEN = 0.15
"""The share of follow-ups that get words of some tone around them; what was written for one reply has its own."""
LOWER, BARE, MISSPELT, LOUD = 0.22, 0.15, 0.15, 0.05
"""The shares of follow-ups that are in lower case, without their last sign, misspelt, in capitals."""

TONES = {
    "thanks": ("polite", "chatty"),
    "onward": ("polite", "chatty"),
    "complaint": ("polite", "angry", "chatty", "sarcastic"),
    "again": ("polite", "angry", "chatty"),
    "unclear": ("chatty",),
    "aside": ("chatty",),
    "irony": (),
    "playful": ("chatty",),
    "quiet": (),
    "musing": ("chatty",),
    "builds": ("polite", "chatty"),
    "wrong": ("angry", "chatty"),
    "unsure": ("chatty",),
    "turned": (),
    "change": ("polite", "angry", "chatty", "thankful", "sarcastic"),
}


def voiced(
    wording: Wording,
    text: str,
    slots: dict[str, str],
    label: Followup,
    split: Split,
    rng: random.Random,
    *,
    is_written: bool = False,
) -> Followup:
    """`text` in some tone and spelling. Fillers keep their letters: a hint copies them."""
    tone, tones = "plain", TONES[label.kind.partition(":")[0]]
    share = TONED_WRITTEN if is_written else TONED
    if tones and wording.language == "en" and rng.random() < share:
        tone = rng.choice(tones)
        text = add_tone(text, tone, split, rng)
    if rng.random() < MISSPELT:
        text = misspell(text, rng)
    if rng.random() < BARE:
        text = text.rstrip(".!?")
    is_lower, is_loud = rng.random() < LOWER, rng.random() < LOUD and "{" not in text
    if is_lower or is_loud:
        text = text.lower() if is_lower else text.upper()
    text = filled(text, {name: value.lower() if is_lower else value for name, value in slots.items()})
    return replace(label, text=text, tone=tone, language=wording.language)


def add_tone(text: str, tone: str, split: Split, rng: random.Random) -> str:
    table = phrasings.read("replies")["tones"][tone]
    side = "heldout" if split == "heldout" else "train"
    before, after = table[f"{side}_before"], table[f"{side}_after"]
    if before and (not after or rng.random() < 0.5):
        opening = rng.choice(before)
        if opening.rstrip()[-1] not in ".!?:" and not text.startswith(("I ", "I'", "{")):
            text = text[:1].lower() + text[1:]
        return opening + text
    return end_sentence(text) + rng.choice(after)


def misspell(text: str, rng: random.Random) -> str:
    """One or two slips of the finger, never in a slot."""
    for _ in range(rng.choice((1, 1, 2))):
        words = list(re.finditer(r"[A-Za-z]{4,}", re.sub(r"\{\w+\}", lambda m: " " * len(m[0]), text)))
        if not words:
            break
        word = rng.choice(words)
        at = rng.randrange(word.start() + 1, word.end() - 1)
        slip = rng.randrange(3)
        if slip == 0:  # two letters change places
            text = text[:at] + text[at + 1] + text[at] + text[at + 2 :]
        else:  # one is missing, or there twice
            text = text[:at] + (text[at] * 2 if slip == 2 else "") + text[at + 1 :]
    return text


def end_sentence(text: str) -> str:
    return text if text[-1:] in ".!?)" else text + "."

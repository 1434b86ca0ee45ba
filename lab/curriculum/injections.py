"""Texts that try to sway the judge, and follow-ups that hold one."""

from __future__ import annotations

import random
import re
from dataclasses import replace

from lab.curriculum import phrasings
from lab.curriculum.followups import Followup
from lab.curriculum.patterns import PATTERNED
from lab.curriculum.phrasings import Split

INJECTED = 0.2
HIDDEN = 0.15
"""The share of injections that stand in a comment or a quotation."""
COVERS = ("<!-- {injection} -->", "# {injection}", "// {injection}", '"{injection}"', "> {injection}", "[{injection}]")


def injected(label: Followup, split: Split, rng: random.Random) -> Followup:
    """The same follow-up with a text in it that tries to sway the judge. The label stays."""
    injection = hostile(split, rng)
    gap = rng.choice((" ", "\n", "\n\n"))
    first, second = (injection, label.text) if rng.random() < 0.35 else (label.text, injection)
    return replace(label, text=f"{first}{gap}{second}", injection=injection)


def hostile(split: Split, rng: random.Random) -> str:
    """A text that tries to sway the judge: a line, or made of a pattern that trains; some hide in a comment."""
    table = phrasings.read("injections")
    injection = rng.choice(phrasings.lines(table, split))
    if split == "train" and rng.random() < PATTERNED:
        pattern = rng.choice(table["patterns"].strip("\n").split("\n")).replace("\\n", "\n")
        injection = re.sub(r"<(im_start|im_end)>", r"<|\1|>", phrasings.drawn(pattern, rng))
    if split == "train" and rng.random() < HIDDEN:
        injection = rng.choice(COVERS).replace("{injection}", injection)
    return injection

"""Wordings that are made of patterns: most of those that a judge trains with."""

from __future__ import annotations

import random
import re

from lab.curriculum import phrasings
from lab.curriculum.phrasings import Wording

PATTERNED = 0.6
"""The share of training follow-ups that come from patterns; the others are lines as an author wrote them."""
SAID = 0.55
"""The share of a change's patterned requests that say what to do; the others say what is the matter."""

DRAWS = 20
"""How often a pattern is drawn again that comes to a line which examines."""
CAPITAL = 0.6

AGAINST = re.compile(r"(did not|didn't|don't|can't|won't|forgot|failed|missed|neglected|bother)")
"""Frames that would turn a wish with "not" into its contrary."""
ASKING = ("to", "you", "should", "could", "must", "can", "would", "might", "ought")


def patterned(part: str, name: str, rng: random.Random) -> Wording | None:
    """A wording made of the patterns of this kind; None where there is none, or where it says what a test says."""
    written = phrasings.patterns(part, name)
    for _ in range(DRAWS):
        if not written:
            break
        text = phrasings.drawn(rng.choice(written), rng)
        if phrasings.plain(text) not in phrasings.examined():
            return Wording(text)
    return None


def wished(name: str, rng: random.Random) -> Wording | None:
    """A change request made of patterns: a wish in a frame, or what is the matter."""
    has_wish, has_why = phrasings.patterns("say", name), phrasings.patterns("why", name)
    if not has_wish or (has_why and rng.random() > SAID):
        return patterned("why", name, rng)
    frame = phrasings.drawn(rng.choice(phrasings.patterns("frames", "")), rng)
    found = patterned("say", name, rng)
    if found is None:
        return None
    wish = found.text
    if wish.startswith("not "):
        before = frame.partition("{do}")[0]
        if AGAINST.search(before):
            frame, before = "{do}", ""
        if before.rpartition(" ")[0].rpartition(" ")[2] not in ASKING:
            wish = rng.choice(("don't ", "do not ")) + wish.removeprefix("not ")
    text = frame.replace("{do}", wish)
    if text[0].islower() and rng.random() < CAPITAL:
        text = text[0].upper() + text[1:]
    return None if phrasings.plain(text) in phrasings.examined() else Wording(text)

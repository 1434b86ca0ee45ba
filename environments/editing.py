"""What a person writes in place of a reply: its own words, changed no more than their wishes ask for.

An editor who keeps to what was said shows how it should have been said, and nothing else: whoever learns from it is
not taught new content. What no such change can meet (an example, working that was never shown) is left to complaints.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable

from environments.personas import Persona, style
from environments.prose import HEADING, MARKER, sentences, words
from environments.wishes import BANNER, LONG_WORD, MOST_WORDS, OPENING, is_plain, speaks_to_reader

Sentences = list[str]

QUESTIONS = (
    "Does that help you?",
    "What do you think?",
    "Would you like to hear more?",
    "What made you ask?",
    "What would you like to know next?",
    "Is that what you wanted to know?",
    "Have you come across it before?",
    "Shall I say more about it?",
)
"""What somebody who likes to be asked back puts at the end."""

TELLING = 5
"""Letters of a word that tells something, mostly."""

SIMPLER = {
    "additional": "more", "additionally": "also", "alternative": "other", "approximately": "about",
    "assistance": "help", "beautiful": "lovely", "beginning": "start", "beneficial": "good", "carefully": "with care",
    "challenging": "hard", "characteristics": "traits", "chemicals": "matter", "combination": "mix",
    "commonly": "often", "communicate": "talk", "component": "part", "components": "parts", "consequently": "so",
    "consistent": "steady", "constantly": "always", "container": "box", "containing": "with", "delicious": "tasty",
    "demonstrate": "show", "determine": "find", "different": "other", "difficult": "hard", "difficulty": "trouble",
    "discovered": "found", "effective": "good", "effectively": "well", "encourage": "help", "encourages": "helps",
    "encouraging": "helping", "especially": "above all", "essential": "vital", "establish": "set up",
    "eventually": "in the end", "excellent": "very good", "exercises": "training", "experience": "feel",
    "extremely": "very", "facilitate": "help", "following": "next", "frequently": "often", "fundamental": "basic",
    "furthermore": "also", "generally": "mostly", "gradually": "slowly", "important": "key",
    "importantly": "above all", "improving": "making better", "increases": "raises", "increasing": "raising",
    "incredible": "great", "incredibly": "very", "individual": "person", "individuals": "people",
    "ingredients": "things", "knowledge": "skill", "maintaining": "keeping", "materials": "stuff",
    "meaningful": "deep", "moreover": "also", "naturally": "by nature", "necessary": "needed", "numerous": "many",
    "obtaining": "getting", "opportunities": "chances", "opportunity": "chance", "particular": "certain",
    "particularly": "above all", "personalized": "own", "potential": "possible", "potentially": "perhaps",
    "preparing": "making", "primarily": "mainly", "procedure": "way", "processes": "steps", "provides": "gives",
    "providing": "giving", "regularly": "often", "relationship": "bond", "relationships": "bonds",
    "remaining": "left", "requirement": "need", "resulting": "new", "significant": "large",
    "significantly": "greatly", "similarly": "also", "situation": "case", "situations": "cases",
    "something": "a thing", "sometimes": "at times", "sufficient": "enough", "surrounding": "near",
    "technique": "way", "techniques": "ways", "temperature": "heat", "therefore": "so", "throughout": "all over",
    "traditional": "old", "typically": "mostly", "understand": "grasp", "understanding": "grasp",
    "unfortunately": "sadly", "utilize": "use", "utilized": "used", "utilizes": "uses", "utilizing": "using",
    "variety": "range", "wonderful": "lovely",
}  # fmt: skip
"""Long words that a shorter one can stand for."""

DIGITS = {
    "two": "2", "three": "3", "four": "4", "five": "5", "six": "6", "seven": "7", "eight": "8", "nine": "9",
    "ten": "10", "eleven": "11", "twelve": "12",
}  # fmt: skip

OTHERS = re.compile(r"\b(?:people|individuals|one|someone|a person|we)\b", re.I)


def edited(persona: Persona, reply: str, *, finished: bool, rng: random.Random) -> str | None:
    """The reply as this person would have it; None where that takes more than an editor's pen.

    >>> brief = Persona("p", "talk", ("short", "asks-back"), "train")
    >>> edited(brief, "It is the sun. It warms the sea. Rain falls.", finished=True, rng=random.Random(0))
    'It warms the sea. Have you come across it before?'
    """
    said = sentences(reply)
    if not finished and len(said) > 1:
        said = said[:-1]  # it was cut off in the middle
    for wish, edit in EDITS.items():
        if wish in persona.wishes and said:
            said = edit(said, rng)
    said = [_ended(each) for each in said]
    if "short" in persona.wishes:
        said = _short(said, 2 - ("asks-back" in persona.wishes))
    if "asks-back" in persona.wishes:
        said = [each for each in said if not each.endswith("?")] or said
        said.append(rng.choice(QUESTIONS))
    text = "\n".join(f"- {each}" for each in said) if "as-list" in persona.wishes else " ".join(said)
    return text if text and style(persona, text, finished=True) == 1 else None


def _ended(sentence: str) -> str:
    return sentence if sentence.rstrip("\"'”’)*_")[-1:] in (".", "!", "?", "…") else f"{sentence.rstrip(' :;,')}."


def _short(said: Sentences, most: int) -> Sentences:
    """The few that say most, in their order: a reply's first sentence often only leads up to what was asked.

    >>> _short(["That is a good thing to ask.", "Salt melts ice by lowering its freezing point.", "So they do it."], 1)
    ['Salt melts ice by lowering its freezing point.']
    """
    kept = sorted(said, key=_told, reverse=True)[:most]
    while len(kept) > 1 and len(words(" ".join(kept))) > MOST_WORDS - 8:  # room for a question
        kept = kept[:-1]
    return [each for each in said if each in kept][:most]


def _told(sentence: str) -> int:
    """How many different words of some length it has; one that is too long to be kept tells nothing."""
    every = words(sentence)
    return len({word.lower() for word in every if len(word) >= TELLING}) if len(every) <= MOST_WORDS - 8 else 0


def _unmarked(said: Sentences, _: random.Random) -> Sentences:
    bare = [HEADING.sub("", MARKER.sub("", each)) for each in said]
    return [re.sub(r"\*\*|__|</?(?:b|strong|h[1-6]|li|ul|ol)\b[^>]*>", "", each).strip() for each in bare]


def _calm(said: Sentences, _: random.Random) -> Sentences:
    return [re.sub(r"[!¡！]+", lambda found: "." if found.end() == len(found.string) else "", each) for each in said]


def _begun(said: Sentences, _: random.Random) -> Sentences:
    if len(said) > 1 and OPENING.match(said[0]):
        return said[1:]
    bare = OPENING.sub("", said[0], count=1).lstrip(" ,.!:;-–—")
    return [bare[:1].upper() + bare[1:], *said[1:]]


def _unbannered(said: Sentences, _: random.Random) -> Sentences:
    return [each for each in said if not BANNER.search(each)] or said


def _in_digits(said: Sentences, _: random.Random) -> Sentences:
    pattern = re.compile(rf"\b(?:{'|'.join(DIGITS)})\b", re.I)
    return [pattern.sub(lambda found: DIGITS[found[0].lower()], each) for each in said]


def _plain(said: Sentences, _: random.Random) -> Sentences:
    """Long words give way to short ones; then the sentences with the most long ones go, while others remain."""
    plain = [re.sub(r"[A-Za-z]+", _simpler, each) for each in said]
    while len(plain) > 1 and not is_plain(" ".join(plain)):
        plain.remove(max(plain, key=_long_share))
    return plain


def _simpler(found: re.Match[str]) -> str:
    word = found[0]
    other = SIMPLER.get(word.lower(), word)
    return other[:1].upper() + other[1:] if word[:1].isupper() else other


def _long_share(sentence: str) -> float:
    every = words(sentence)
    return sum(len(word) >= LONG_WORD for word in every) / max(len(every), 1)


def _to_reader(said: Sentences, rng: random.Random) -> Sentences:
    """The first sentence that can be said to somebody is, or the first of all begins with the reader."""
    if speaks_to_reader(said[0]):
        return said
    first = OTHERS.sub(lambda found: "You" if found.start() == 0 else "you", said[0])
    if not speaks_to_reader(first):
        head, rest = first.split(" ", 1) if " " in first else (first, "")
        small = head if head == "I" or head.isupper() or rest[:1].isupper() else head.lower()
        first = f"{rng.choice(('As you may know,', 'As you will see,', 'You may find that'))} {small} {rest}".rstrip()
    return [first, *said[1:]]


EDITS: dict[str, Callable[[Sentences, random.Random], Sentences]] = {
    "no-lists": _unmarked, "no-banner": _unbannered, "no-opening": _begun, "no-exclamation": _calm,
    "digits": _in_digits, "plain-words": _plain, "second-person": _to_reader,
}  # fmt: skip
"""In the order in which they are made; `short`, `asks-back` and `as-list` are of the whole, and come last."""

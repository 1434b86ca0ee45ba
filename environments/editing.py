"""What a person writes in place of a reply: its own words, changed no more than their wishes ask for.

An editor who keeps to what was said shows how it should have been said, and nothing else: a model that learns from it
is not taught new content. What no such change can meet (more of an answer, working that was never shown, an answer
where there was none) is left to complaints.
"""

from __future__ import annotations

import itertools
import math
import random
import re
from collections import Counter
from collections.abc import Callable, Mapping

from environments import phrasings
from environments.grams import Gram, runs
from environments.matter import STEM, answers, matter, telling
from environments.personas import Persona, parts
from environments.prose import HEADING, MARKER, sentences, words
from environments.tasks import is_own
from environments.wishes import BANNER, LONG_WORD, MOST_WORDS, OPENING, gives_example, is_plain, speaks_to_reader

Sentences = list[str]

QUESTIONS = (
    "Would you like to know more{about}?",
    "What else would you like to know{about}?",
    "Shall I say more{about}?",
    "What made you ask{about}?",
    "Is that what you wanted to know{about}?",
    "Do you have another question{about}?",
    "Did you know that{about}?",
    "What do you know{about} yourself?",
)
"""What a person who likes to be asked back puts at the end, on what was asked where question and reply share a word."""

LEANING = re.compile(
    r"(?:this|that|these|those|it|its|they|their|he|she|so|but|and|or|however|then|also|second|third|finally|next|"
    r"another|such|instead|moreover|furthermore|additionally|therefore|thus|as a result|for example|for instance|"
    r"in addition|on the other hand|overall|in conclusion)\b",
    re.I,
)
"""How a sentence begins that leans on the one before it."""
LEANS, NAMES = 4, 2
"""What leaning on a sentence that is not there costs, and a word that names the matter adds, in words that tell."""

SIMPLER: Mapping[str, str] = phrasings.read("plainer")
"""Long words that a shorter one can stand for."""
VOWELS = "aeioAEIO"
"""What "an" stands before; the simpler words that begin with a u, "use" and "useful", are spoken as "you"."""

DIGITS = {
    "two": "2", "three": "3", "four": "4", "five": "5", "six": "6", "seven": "7", "eight": "8", "nine": "9",
    "ten": "10", "eleven": "11", "twelve": "12",
}  # fmt: skip

YOURS = {
    "we": "you", "us": "you", "our": "your", "ours": "yours", "ourselves": "yourselves", "we're": "you're",
    "we'll": "you'll", "we've": "you've",
}  # fmt: skip
OURS = re.compile(rf"\b(?:{'|'.join(sorted(YOURS, key=len, reverse=True))})\b(?!['’])", re.I)
OTHERS = re.compile(
    r"\b(?:people|individuals|one|someone|a person)(?= (?:can|may|must|might|could|would|should|will)\b)", re.I
)
LEADING = 3
"""Sentences within which a person who wants to be spoken to looks for one that does."""
LEADS = ("As you may know,", "As you can see,", "You may be surprised to know that", "I can tell you that")
"""How a sentence that does not speak to the reader is led in."""
INSTANCES = ("For example,", "For instance,")
"""How one is led in that is to be an example of those before it."""


def edited(persona: Persona, reply: str, *, asked: str, finished: bool, rng: random.Random) -> str | None:
    """The reply to what was `asked` as this person would have it, as far as an editor's pen goes; None where it changes
    nothing, or would take away what they wish for.

    >>> brief = Persona("p", "talk", ("short", "asks-back"), "train")
    >>> reply = "It is the sun. The sun warms the water of the sea. Rain falls."
    >>> edited(brief, reply, asked="Where does water go?", finished=True, rng=random.Random(0))
    'The sun warms the water of the sea. Did you know that about water?'
    """
    said = sentences(reply)
    if not finished and len(said) > 1:
        said = said[:-1]  # it was cut off in the middle
    said = _once(said)
    wishes = persona.wishes
    for wish, edit in EDITS.items():
        if wish in wishes and said:
            said = edit(said, rng)
    if "short" in wishes:
        said = _short(said, 2 - ("asks-back" in wishes), asked, is_plain if "plain-words" in wishes else _any)
    elif "plain-words" in wishes:
        said = _plain(said)
    if "second-person" in wishes and said:
        said = _to_reader(said, rng, keeps_all="long" in wishes)
    if "example" in wishes:
        said = _exampled(said, rng)
    said = [_ended(each) for each in said]
    if "asks-back" in wishes:
        said = [each for each in said if not each.endswith("?")] or said
        said.append(_question(asked, " ".join(said), rng))
    text = "\n".join(f"- {each}" for each in said) if "as-list" in wishes else " ".join(said)
    if not text or (is_own(asked) and not answers(asked, text)):
        return None
    before, after = parts(persona, reply, finished=finished), parts(persona, text, finished=True)
    missed = {wish for wish, obeyed in after.items() if not obeyed}
    mended = any(obeyed and not before[wish] for wish, obeyed in after.items())
    return text if mended and missed <= BEYOND and not any(before[wish] for wish in missed) else None


def _once(said: Sentences) -> Sentences:
    """Without what says nothing new: more than half of a sentence's runs of four words stood before it, or all of a
    shorter one.

    >>> _once(["Rain falls.", "Then the sun warms the sea.", "Rain falls!", "And the sun warms the sea."])
    ['Rain falls.', 'Then the sun warms the sea.']
    """
    stood: set[Gram] = set()
    kept = Sentences()
    for each in said:
        own = runs(each)
        if len(own & stood) <= len(own) / 2:
            kept.append(each)
        stood |= own
    return kept


def _ended(sentence: str) -> str:
    return sentence if sentence.rstrip("\"'”’)*_")[-1:] in (".", "!", "?", "…") else f"{sentence.rstrip(' :;,')}."


def _short(said: Sentences, most: int, asked: str, fits: Callable[[str], bool]) -> Sentences:
    """The few that say most on the matter, in their order: a reply's first sentence often only leads up to it.

    >>> reply = ["That is a good thing to ask.", "Salt melts ice by lowering its freezing point.", "So they do it."]
    >>> _short(reply, 1, "Why do they salt the roads?", _any)
    ['Salt melts ice by lowering its freezing point.']
    >>> _short(["Here are several reasons why roads are salted in winter:", "Salt melts ice."], 1, "Why salt?", _any)
    ['Salt melts ice.']
    """
    told = [_told(each, asked) for each in said]
    leads = [each.rstrip().endswith(":") for each in said]  # up to a list that may not come
    leans = [at > 0 and LEANING.match(each) is not None for at, each in enumerate(said)]
    best, kept = -math.inf, Sentences()
    for number in range(1, most + 1):
        for places in itertools.combinations(range(len(said)), number):
            text = " ".join(said[at] for at in places)
            if len(words(text)) > MOST_WORDS - 12 or not fits(text):  # room for a question
                continue
            value = sum(
                0 if leads[at] and at + 1 not in places else told[at] - LEANS * (leans[at] and at - 1 not in places)
                for at in places
            )
            if value > best:
                best, kept = value, [said[at] for at in places]
    return kept


def _told(sentence: str, asked: str) -> int:
    """How many different words of some length it has; those that name the matter of what was asked count twice more."""
    return len(telling(sentence)) + NAMES * len(matter(sentence) & matter(asked))


def _question(asked: str, said: str, rng: random.Random) -> str:
    """One to end with; it names the word of what was asked that the reply says most often, or the last of them.

    >>> _question("Why do zebras have stripes?", "The stripes of zebras confuse.", random.Random(1))
    'Shall I say more about stripes?'
    """
    spoken = Counter(word[:STEM].lower() for word in words(said))
    named = [word for word in reversed(words(asked)) if matter(word) and word[:STEM].lower() in spoken]
    about = f" about {max(named, key=lambda word: spoken[word[:STEM].lower()])}" if named else ""
    return rng.choice(QUESTIONS).format(about=about)


def _any(_: str) -> bool:
    return True


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


def _simple(said: Sentences, _: random.Random) -> Sentences:
    return [re.sub(r"(?<![a-z])(?:(an?)(\s+[*_\"“(]*))?([a-z]+)", _simpler, each, flags=re.I) for each in said]


def _plain(said: Sentences) -> Sentences:
    """The sentences with the most long words go, while others remain."""
    plain = [*said]
    while len(plain) > 1 and not is_plain(" ".join(plain)):
        plain.remove(max(plain, key=_long_share))
    return plain


def _simpler(found: re.Match[str]) -> str:
    """A simpler word in a word's place, and its article with it: "an important" is "a key"."""
    article, between, word = found.groups()
    if word.lower() not in SIMPLER:
        return found[0]
    other = SIMPLER[word.lower()]
    other = other[:1].upper() + other[1:] if word[:1].isupper() else other
    if not article:
        return other
    if other == "other" and between == " ":
        return f"{article[0]}nother"
    return f"{article[0]}{'n' if other[0] in VOWELS else ''}{between}{other}"


def _long_share(sentence: str) -> float:
    every = words(sentence)
    return sum(len(word) >= LONG_WORD for word in every) / max(len(every), 1)


def _to_reader(said: Sentences, rng: random.Random, *, keeps_all: bool = False) -> Sentences:
    """What only leads up to a sentence that speaks to the reader goes, unless all is to be kept; or the first is said
    to them; or it is led in."""
    for at, each in enumerate(said[: 1 if keeps_all else LEADING]):
        if speaks_to_reader(each) and len(said) - at > len(said) / 2:
            return said[at:]
    first = OTHERS.sub("you", OURS.sub(lambda found: YOURS[found[0].lower()], said[0]))
    if not speaks_to_reader(first):
        first = _led(rng.choice(LEADS), first)
    return [first[:1].upper() + first[1:], *said[1:]]


def _exampled(said: Sentences, rng: random.Random) -> Sentences:
    """The first that stands by itself behind another is said as an example of it, where none is given.

    >>> _exampled(["Salt melts ice.", "It is cheap.", "Towns salt their roads."], random.Random(0))
    ['Salt melts ice.', 'It is cheap.', 'For instance, towns salt their roads.']
    """
    if gives_example(" ".join(said)):
        return said
    for at, each in enumerate(said):
        if at and not LEANING.match(each) and not each.rstrip().endswith((":", "?")):
            return [*said[:at], _led(rng.choice(INSTANCES), each), *said[at + 1 :]]
    return said


def _led(lead: str, sentence: str) -> str:
    """A sentence with a lead before it; its first letter is small now, but of a name."""
    head, rest = sentence.split(" ", 1) if " " in sentence else (sentence, "")
    is_name = head == "I" or head.startswith("I'") or (head.isupper() and head != "A") or rest[:1].isupper()
    return f"{lead} {head if is_name else head[:1].lower() + head[1:]} {rest}".rstrip()


EDITS: dict[str, Callable[[Sentences, random.Random], Sentences]] = {
    "no-lists": _unmarked, "no-banner": _unbannered, "no-opening": _begun, "no-exclamation": _calm,
    "digits": _in_digits, "plain-words": _simple,
}  # fmt: skip
"""Of each sentence, in the order in which they are made; what is of the whole comes after them."""

BEYOND = frozenset(("long", "example", "shows-working", "kind", "specific"))
"""Wishes that no pen meets with a reply's own words. A person who has others beside them writes for those."""

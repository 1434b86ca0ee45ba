"""What a person may want of every reply, and detectors that know exactly whether they got it.

A detector reads the text alone, so it needs no model and no opinion. Where English leaves room (what is a sentence,
what is a long word) the rule stands in its docstring; docs/how-to/environments.md lists them all.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from environments.prose import sentences, without_code, words

MOST_SENTENCES, MOST_WORDS = 2, 60
LEAST_SENTENCES = 6
LONG_WORD = 9
WORDS_A_LONG_ONE = 25


@dataclass(frozen=True)
class Wish:
    """What a person wants of every reply."""

    name: str
    obeyed: Callable[[str], bool]
    """Whether a reply's whole text does as wished. An empty reply does nothing that was wished for."""
    hint: str
    """The wish in one sentence, as a person would say it beforehand."""
    is_of_end: bool = False
    """It speaks of the end, so a reply that was cut off cannot obey it."""
    opposes: tuple[str, ...] = ()
    """Wishes that no reply can obey together with this one."""
    fault: Callable[[str], str] | None = None
    """Which sort of complaint fits a reply that does not obey; None: there is one sort."""

    def holds(self, text: str, *, finished: bool) -> bool:
        return bool(text.strip()) and (finished or not self.is_of_end) and self.obeyed(text)


def is_short(text: str) -> bool:
    """At most two sentences and 60 words of prose; code does not count.

    >>> is_short("Mr. Lee paid 3.50 for it, e.g. at noon. That was cheap!")
    True
    >>> is_short("One. Two. Three.")
    False
    """
    return len(sentences(text)) <= MOST_SENTENCES and len(words(text)) <= MOST_WORDS


def is_long(text: str) -> bool:
    """At least six sentences.

    >>> is_long("Yes. " * 6), is_long("Yes. " * 5)
    (True, False)
    """
    return len(sentences(text)) >= LEAST_SENTENCES


BULLET = re.compile(r"^[ \t>]*[-*+•‣◦▪●·–][ \t]+\S", re.MULTILINE)
NUMBERED = re.compile(r"^[ \t>]*\(?(\d{1,2})[.)][ \t]+\S", re.MULTILINE)
LETTERED = re.compile(r"^[ \t>]*\(?[a-zA-Z]\)[ \t]+\S", re.MULTILINE)
STEPPED = re.compile(r"^[ \t>]*(?:[*_]{2})?(?:step|schritt|étape|paso)[ \t]+\d+\b.{0,40}[:.]", re.MULTILINE | re.I)
INLINE_NUMBERS = re.compile(r"(?:^|\s)\(?1\)\s.*?\s\(?2\)\s", re.DOTALL)
TABLE = re.compile(r"^[ \t]*\|?[ \t]*:?-{2,}:?[ \t]*\|[-| :\t]*$", re.MULTILINE)
BOLD = re.compile(
    r"(?<![\w)*])\*\*(?=[^\s*])[^*\n]*?(?<=\S)\*\*(?![\w*])|(?<!\w)__(?=\S)[^\n]*?[^\w\n][^\n]*?(?<=\S)__(?!\w)"
)
BOLD_TAG = re.compile(r"<(?:b|strong|h[1-6]|li|ul|ol)\b[^>]*>", re.I)
HEADING = re.compile(r"^[ \t]{0,3}#{1,6}[ \t]+\S|^[^\n]*\S[^\n]*\n[ \t]{0,3}(?:={3,}|-{3,})[ \t]*$", re.MULTILINE)


def has_list(text: str) -> bool:
    """Bullets, numbers or letters before lines, "1) … 2) …" within one, steps with numbers, tables; not in code.

    A lone number before a line is one only when it is 1: "7. Juli" begins no list.

    >>> has_list("First, mix it. 2.5 litres - no more - will do.")
    False
    >>> has_list("1. Mix"), has_list("* Mix"), has_list("Do 1) this and 2) that"), has_list("7. Juli 1990")
    (True, True, True, False)
    """
    prose = without_code(text)
    numbers = NUMBERED.findall(prose)
    return bool(
        numbers[:1] == ["1"] or len(numbers) > 1
        or any(pattern.search(prose) for pattern in (BULLET, LETTERED, STEPPED, INLINE_NUMBERS, TABLE))
    )  # fmt: skip


def has_markup(text: str) -> bool:
    """Bold type or headings, in Markdown or HTML; not in code. `2 ** 3 ** 4` and __init__ are none.

    >>> has_markup("It is **very** hot."), has_markup("# Heat\\n"), has_markup("2**3 is 8, 2 ** 4 ** 1 is 16, __init__")
    (True, True, False)
    """
    prose = without_code(text)
    return any(pattern.search(prose) for pattern in (BOLD, BOLD_TAG, HEADING))


def is_list(text: str) -> bool:
    """At least two lines that begin with a bullet or a number.

    >>> is_list("Take:\\n- tea\\n- milk"), is_list("1. tea")
    (True, False)
    """
    prose = without_code(text)
    return len(BULLET.findall(prose)) + len(NUMBERED.findall(prose)) >= 2


def is_unlisted(text: str) -> bool:
    """No list, no bold type, no heading.

    >>> is_unlisted("Mix - then bake."), is_unlisted("- Mix")
    (True, False)
    """
    return not has_list(text) and not has_markup(text)


def asks_back(text: str) -> bool:
    """The last sentence has two words or more and ends with a question mark that stands in no quotation.

    >>> asks_back("Tea is fine. Which do you like?"), asks_back("Why? Because."), asks_back('He said "Why?"')
    (True, False, False)
    """
    last = sentences(text)[-1:]
    if not last or len(words(last[0])) < 2:
        return False
    left = without_code(text).rstrip()
    while left and not left[-1].isalnum() and left[-1] not in ENDING + QUOTES:
        left = left[:-1]  # brackets, markup, emojis
    return left.endswith(("?", "？", "؟"))


ENDING = ".!?…。！？؟,;:"
QUOTES = "\"'”’»“„«›‹`」』"

QUOTED = re.compile(r"\"[^\"\n]*\"|“[^”\n]*”|„[^“”\n]*[“”]|«[^»\n]*»|‘[^’\n]*’(?!\w)")
YOU = re.compile(r"(?<!\bthank )(?<!\bthanks )\b(?:you|your|yours|yourself|yourselves|you['’](?:re|ll|ve|d))\b", re.I)


def speaks_to_reader(text: str) -> bool:
    """The first sentence says "you" or "your" outside of quotation marks; "thank you" does not count.

    >>> speaks_to_reader("You can boil it."), speaks_to_reader('The word "you" is short. You see?')
    (True, False)
    """
    first = sentences(text)[:1]
    return bool(first) and YOU.search(QUOTED.sub(" ", first[0])) is not None


NO_SHOUT = re.compile(r"!=+|!\[|\d!(?=\s*(?:[=+*/×÷^)-]|is\b|equals\b))|\bn!")


def is_calm(text: str) -> bool:
    """No exclamation mark outside of code; "!=", an image's "![" and a factorial before a sign are none.

    >>> is_calm("5! = 120, and `a!`."), is_calm("Well done!"), is_calm("¡Hola")
    (True, False, False)
    """
    return not any(sign in NO_SHOUT.sub(" ", without_code(text)) for sign in "!！¡")


def is_plain(text: str) -> bool:
    """Words of nine letters and more are at most one in each 25 words begun; names inside a sentence do not count.

    >>> is_plain("The sun warms the sea."), is_plain("Photosynthesis necessitates illumination.")
    (True, False)
    """
    every = words(text)
    names = {word for sentence in sentences(text) for word in words(sentence)[1:] if word[:1].isupper()}
    long_ones = [word for word in every if sum(map(str.isalpha, word)) >= LONG_WORD and word not in names]
    return len(long_ones) <= -(-len(every) // WORDS_A_LONG_ONE)


NUMBER_WORD = re.compile(
    r"\b(?:two|three|four|five|six|seven|eight|nine|ten|eleven|twelve|(?:thir|four|fif|six|seven|eigh|nine)teen|"
    r"(?:twen|thir|for|fif|six|seven|eigh|nine)ty|hundreds?|thousands?|millions?|billions?)\b",
    re.I,
)


def uses_digits(text: str) -> bool:
    """No number from two on is written as a word.

    >>> uses_digits("Boil it for 10 minutes, then one more."), uses_digits("It takes ten minutes.")
    (True, False)
    """
    return NUMBER_WORD.search(without_code(text)) is None


OPENING = re.compile(
    r"\W*(?:sure|certainly|absolutely|of course|definitely|great question|good question|what a (?:great|good)|"
    r"i['’]d be (?:happy|glad|delighted)|i['’]?m (?:happy|glad|here) to|i (?:can|will) help|happy to help|"
    r"thanks? (?:you )?for (?:asking|your)|as an ai|here(?:['’]s| is| are)|"
    r"(?:okay|ok|alright|well|hello|hi|hey)(?!-))\b",
    re.I,
)


def starts_at_once(text: str) -> bool:
    """The reply does not begin with "Sure", "Great question", "Here is", "I'd be happy to" and their like.

    >>> starts_at_once("Boil it."), starts_at_once("Sure! Boil it."), starts_at_once("Here's how:")
    (True, False, False)
    """
    return OPENING.match(text) is None


EXAMPLE = re.compile(
    r"\b(?:for example|for instance|as an example|an example (?:is|of|would)|such as|e\.g\.|"
    r"imagine|suppose|let['’]s say|say,)",
    re.I,
)


def gives_example(text: str) -> bool:
    """It says "for example", "for instance", "such as", "e.g.", "imagine", "suppose" or "let's say".

    >>> gives_example("Fruit, such as pears."), gives_example("Eat fruit.")
    (True, False)
    """
    return EXAMPLE.search(without_code(text)) is not None


BANNER = re.compile(
    r"\bfinal (?:answer|result|solution)\b|^[\W_]*(?:answer|result|solution|conclusion)[\W_]*[:=]|"
    r"\\boxed\s*\{|^#{4}\s*\d|\bthe answer is\s*:",
    re.I | re.MULTILINE,
)


def has_no_banner(text: str) -> bool:
    """No "final answer", no line that begins with "Answer:" or "Result:", no box around the number.

    >>> has_no_banner("So he has 12 pens."), has_no_banner("**Answer:** 12"), has_no_banner(r"\\\\boxed{12}")
    (True, False, False)
    """
    return BANNER.search(text) is None


NUMBER = r"[$€£]?\s?-?\d[\d,]*(?:\.\d+)?"
UNIT = r"(?:\s?[%$€£]|[^\W\d_]{1,15})?(?:\s[^\W\d_]{1,15}){0,2}"
CALCULATION = re.compile(
    rf"{NUMBER}{UNIT}\s*\)?\s*(?:[-+*/x×·÷−–]|\\times|\\div|\\cdot|plus|minus|times|multiplied by|divided by)"
    rf"\s*\(?\s*{NUMBER}[^\n.=]{{0,40}}?(?:=|\bis\b|\bequals\b|\bmakes\b|\bgives\b|\bleaves\b)\s*\(?{NUMBER}",
    re.I,
)


def shows_working(text: str) -> bool:
    """A calculation is written out: a number, an operator or its name, a number, and what it comes to.

    >>> shows_working("4 bags x 3 = 12"), shows_working("3 times 4 is 12"), shows_working("He has 12.")
    (True, True, False)
    """
    return CALCULATION.search(text) is not None


PRAISE = re.compile(
    r"\b(?:well done|good for you|proud of|impress\w*|i (?:really )?(?:like|love)|keep (?:it up|going)|"
    r"on the right track|well (?:set out|laid out|thought|explained|organi[sz]ed|written)|nicely|lovely|"
    r"(?:good|great|nice|excellent|wonderful|fantastic|super|fine|solid|careful|clear|neat|brilliant) "
    r"(?:\w+ ){0,2}(?:job|work\w*|start|try|effort|thinking|idea|step\w*|attempt|progress|layout|going|"
    r"sums?|calculations?|explanation|answer|solution)|"
    r"you (?:did|have done|were) (?:very |really |so )?(?:well|careful|great)|"
    r"(?:you|that|it) (?:is|are|was) (?:almost|nearly) (?:there|right)|excellent)\b",
    re.I,
)
HARSH = re.compile(
    r"\b(?:lazy|sloppy|careless|stupid|dumb|terrible|awful|poor(?:ly)?|bad(?:ly)?|pathetic|nonsense|useless|ridiculous|"
    r"you (?:failed|should have known|clearly (?:did not|didn['’]t)|never|always)|"
    r"disappoint\w*|unacceptable|horrible)\b",
    re.I,
)


def is_kind(text: str) -> bool:
    """It says something good of the work ("well done", "I like", "good start") and nothing harsh ("careless", "lazy").

    >>> is_kind("Good start, only the last step slipped."), is_kind("Wrong."), is_kind("Good try, but careless.")
    (True, False, False)
    """
    return PRAISE.search(text) is not None and HARSH.search(text) is None


NUMBERS = re.compile(r"\d[\d,]*(?:\.\d+)?")


def is_specific(text: str) -> bool:
    """It names two different numbers of the work, or quotes it.

    >>> is_specific("You wrote 4 x 3 = 11; it is 12."), is_specific("Check your sums.")
    (True, False)
    >>> is_specific('"Sam sold" is right.')
    True
    """
    return len(set(NUMBERS.findall(text))) >= 2 or any(len(words(quoted)) >= 2 for quoted in QUOTED.findall(text))


def _fault_of_form(text: str) -> str:
    return "no-lists" if has_list(text) else "no-lists.markup"


_ALL = (
    Wish("short", is_short, "Answer in one or two short sentences.", is_of_end=True, opposes=("long", "as-list")),
    Wish("long", is_long, "Answer at length, in at least six sentences.", opposes=("short",)),
    Wish(
        "no-lists",
        is_unlisted,
        "Write running text without lists, bold type or headings.",
        opposes=("as-list",),
        fault=_fault_of_form,
    ),
    Wish("as-list", is_list, "Answer as a bulleted list.", opposes=("no-lists", "short")),
    Wish("asks-back", asks_back, "End your answer with a question to me.", is_of_end=True),
    Wish("second-person", speaks_to_reader, 'Speak to me as "you" from the first sentence on.'),
    Wish("no-exclamation", is_calm, "Use no exclamation marks."),
    Wish("plain-words", is_plain, "Use short, plain words."),
    Wish("digits", uses_digits, "Write numbers as digits."),
    Wish("no-opening", starts_at_once, "Start with the matter itself, without an opening phrase."),
    Wish("example", gives_example, "Give an example."),
    Wish("no-banner", has_no_banner, 'Do not put a "final answer" line under it.'),
    Wish("shows-working", shows_working, "Show the full working, with every calculation written out."),
    Wish("kind", is_kind, "Be kind, and say what was done well."),
    Wish("specific", is_specific, "Be specific: name the very numbers and steps of the work."),
)
WISHES: dict[str, Wish] = {wish.name: wish for wish in _ALL}

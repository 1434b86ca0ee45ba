"""What a hint asks for, and so which hints say the same and which say the opposite. Pure.

A hint is read for wishes on known axes (length, lists, tone, language …), each with the way it is wanted, negation and
complaint counted in: "no lists", "stop with the lists" and "too many bullets" are one wish. Two hints are alike when
they hold the same wishes and numbers and no other word that matters differs. What is not understood is never alike:
a wrong merge teaches a person's turn the wrong words, a missed one only costs a reviewer a second look.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache

from rapidfuzz.distance import OSA

from judge import hints

READ = 2000
"""Characters of a hint that are read; voted ones have at most 600."""

SPELT = 7
"""Letters a word must have for one wrong letter to be a misspelling: shorter ones are too often other words."""


@dataclass(frozen=True, order=True)
class Wish:
    """One thing that is asked for."""

    axis: str
    way: str
    soft: bool = False
    """"Not too short" is no wish for length, only against shortness; "fewer" is not "none"."""


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


NUMBER = r"(?:\d+|a|one|two|three|four|five|six|seven|eight|nine|ten|twelve|twenty|fifty|hundred|few|couple of)"
PART = r"(?:words?|sentences?|lines?|paragraphs?|characters?|points?|pages?)"
AT_MOST = (
    r"(?:at most|(?:no|not) (?:more|longer) than|max(?:imum)?(?: of)?|under|less than|fewer than|up to|within|below)"
)
AT_LEAST = r"(?:at least|minimum(?: of)?|(?:no|not) (?:less|fewer|shorter) than|more than|over)"
ALL_OF = r"(?:(?:your|the|all|every|each|full|of|intermediate) )*"
TONGUES = sorted(
    _words(
        "english german french spanish italian portuguese dutch polish russian ukrainian chinese mandarin japanese "
        "korean arabic hindi turkish swedish danish norwegian finnish greek czech hebrew latin hungarian romanian "
        "vietnamese thai indonesian persian bengali"
    )
)
TONGUE = rf"(?:{'|'.join(TONGUES)})"
OTHER_LISTS = "".join(rf"(?<!{kind} )" for kind in ("python", "linked", "mailing", "price", "shopping"))
OTHER_CODES = "".join(
    rf"(?<!{kind} )"
    for kind in ("zip", "source", "error", "exit", "country", "area", "dress", "qr", "postal", "status")
)
AND_NO_NOUN = (
    rf"(?= ?$| [.,]| (?:please|only|not|instead|next|always|from|and|or|but|when|rather|unless|if|as|again|{TONGUE})\b)"
)

WAYS: dict[str, dict[str, tuple[str, ...]]] = {
    "length": {
        "short": (
            rf"{AT_MOST} {NUMBER}(?: short)? {PART}",
            r"(?:in |with |to )?(?:just |only )?(?:an? |one |a single |single |two |three |[123] |a couple of |a few )"
            r"(?:short |brief )?(?:sentences?|lines?|words?|paragraph)",
            r"(?<!in )short(?:er|est|en|ened)?(?! (?:term|circuit|of|story|stories|film|name|for))",
            r"brief(?:er|ly)?|concise(?:ly)?|terse(?:ly|r)?|succinct(?:ly)?|compact|to the point|tl ?dr|crisp|snappy",
            r"condensed?|(?:fewer|less) (?:words|text|details?|sentences|lines)|cut it (?:down|short)|trim it",
        ),
        "long": (
            rf"{AT_LEAST} {NUMBER} {PART}",
            r"(?<!as )(?<!how )(?<!no )long(?:er|est)?(?! (?:as|ago|term|division|run|time|way|ones?))",
            r"lengthy|lengthier|several (?:paragraphs|pages)|elaborate|expand|deeper",
            r"(?:(?:more|greater|full|extra|further) )+(?:details?|depth|words|text|information|info|explanation)",
            r"(?:go )?in(?:to)? (?:more |great |greater |full )?(?:detail|depth)|detailed|thorough(?:ly)?",
            r"comprehensive(?:ly)?|at length|extensive(?:ly)?|exhaustive",
        ),
    },
    "sentences": {
        "short": (r"short(?:er)? (?:sentences|words|paragraphs|lines)",),
        "long": (r"long(?:er)? (?:sentences|words|paragraphs|lines)",),
    },
    "lists or prose": {
        "list": (
            r"(?:bullet(?:ed)?|numbered|enumerated) (?:points?|lists?|items)|bullets?|bulleted",
            rf"{OTHER_LISTS}lists(?! comprehension)|enumerations?|listicles?",
            r"(?:(?<=\ba )|(?<=\bas )|(?<=\bany )|(?<=\bno )|(?<=\banother )|(?<=\bthis )|(?<=\bthe )|(?<=\bin )"
            r"|(?<=\bwithout ))list(?! comprehension)",
        ),
        "prose": (
            r"prose|(?:full|whole|flowing|running|continuous|connected) (?:text|sentences|paragraphs)|paragraphs",
        ),
    },
    "tone": {
        "formal": (r"formal(?:ly)?|professional(?:ly)?|businesslike",),
        "casual": (r"casual(?:ly)?|informal(?:ly)?|chatty|conversational(?:ly)?|laid back|colloquial(?:ly)?|relaxed",),
    },
    "how technical": {
        "simple": (
            r"simple(?! past)|simpler|simply|plain (?:english|language|words)|easy|easier|easily|eli5",
            r"non technical(?:ly)?|(?:in )?laymans? terms",
            r"for (?:an? )?(?:child|kid|beginner|layman)|for (?:children|kids|beginners)",
        ),
        "technical": (r"technical(?:ly)?|jargon|for (?:an )?experts?|advanced|rigorous(?:ly)?|scientific(?:ally)?",),
    },
    "code": {
        "with": (
            rf"{OTHER_CODES}code(?: (?:snippets?|blocks?|examples?|samples?))?(?! (?:of|comments?|names?))|snippets?",
        ),
    },
    "examples": {"with": (r"(?<!for )examples?|illustrations?|sample cases?",)},
    "emojis": {"with": (r"emojis?|emoticons?|smileys?|smilies",)},
    "bold": {
        "with": (
            r"(?<!be )bold(?:ed|face)?(?! (?:claims?|moves?|choices?|statements?|ideas?|colou?rs?))"
            r"(?: (?:text|type|face|fonts?|words|print|letters|formatting))?",
        ),
    },
    "headings": {"with": (r"(?:sub ?)?headings?|(?<!http )headers|section titles",)},
    "tables": {"with": (r"tables?(?! of contents)|tabular form",)},
    "markdown": {"with": (r"markdown|formatting",), "without": (r"plain text",)},
    "greeting": {
        "with": (r"greetings?|greet(?: me)?|(?:say(?:ing)?|start(?:ing)? with) (?:hi|hello)|pleasantries|small talk",),
    },
    "questions back": {
        "with": (
            r"ask(?:ing)? (?:me )?(?:back|an? (?:\w+ )?question|(?:\w+ ){0,2}questions|for clarification)(?: back)?",
            r"(?:clarifying|follow up|counter) questions?|questions back|end(?:ing)? with a question",
        ),
    },
    "steps or answer": {
        "steps": (
            r"step by step|(?:individual |intermediate )?steps|workings?(?! on)|derivations?",
            rf"(?:show|include|explain) {ALL_OF}(?:work(?:ings?)?|reasoning|calculations?|derivations?)",
        ),
        "answer only": (
            r"(?:just|only) (?:(?:give|say|state|tell|write|want|show|me|us|the|a) )*(?:final |bare )?"
            r"(?:answer|result|solution|number)",
            r"(?:answers?|result|solution) (?:only|alone)|nothing but the (?:answer|result)",
        ),
    },
    "sources": {"with": (r"(?<!open )sources(?! code)|citations?|cite|references|bibliography",)},
    "links": {"with": (r"(?:hyper)?links|urls",)},
    "apologies": {"with": (r"apolog(?:y|ies|ise|ize|ising|izing)|say(?:ing)? sorry",)},
    "disclaimers": {"with": (r"disclaimers?|caveats?|hedging",)},
    "humour": {"with": (r"jokes?|humou?r|puns?",)},
    "units": {
        "metric": (
            r"(?:(?:in|use|using|to) )?metric (?:units|system|measures|measurements)|(?:in|use|using|to) metric",
            r"(?:use )?si units|(?:in |use )?celsius",
            r"(?:in|use|using|to) (?:met(?:er|re)s|kilomet(?:er|re)s|kilograms|kilos|grams|lit(?:er|re)s|km|kg|cm)",
        ),
        "imperial": (
            r"(?:(?:in|use|using|to) )?imperial(?: (?:units|system|measures|measurements))?|us customary units",
            r"(?:in |use )?fahrenheit|(?:in|use|using|to) (?:feet|miles|pounds|inches|ounces|gallons|yards)",
        ),
    },
    "spelling": {
        "british": (r"(?:british|uk) (?:english|spelling)",),
        "american": (r"(?:american|us) (?:english|spelling)",),
    },
    "case": {"lower": (r"lower ?case",), "upper": (r"upper ?case|all caps|capital letters",)},
    "language": {
        tongue: (rf"(?:in|into|use|using|speak|to) {tongue}{AND_NO_NOUN}", rf"{tongue} (?:please|only)")
        for tongue in TONGUES
    },
}
"""By axis and way how it is said, in lower case, hyphens and quotes as blanks. Where several fit, the longest does."""

OPPOSITE = {
    "short": "long", "long": "short", "list": "prose", "prose": "list", "formal": "casual", "casual": "formal",
    "simple": "technical", "technical": "simple", "with": "without", "without": "with", "steps": "answer only",
    "answer only": "steps", "metric": "imperial", "imperial": "metric", "british": "american", "american": "british",
    "lower": "upper", "upper": "lower",
}  # fmt: skip
"""What the negation of a way is; a language has no opposite, only others."""

PATTERNS = tuple(
    (axis, way, re.compile(rf"\b(?:{'|'.join(said)})\b")) for axis, ways in WAYS.items() for way, said in ways.items()
)

WEAK = (
    "no longer",
    "instead of",
    "rather than",
    "not",
    "never",
    "no",
    "without",
    "nothing",
    "neither",
    "less",
    "fewer",
)
"""They deny what follows, until a new verb begins: "without lists write prose"."""

STRONG = (
    "not want", "not like", "not need", "no need", "leave out", "leaving out", "get rid of", "cut the", "lose the",
    "tired of", "sick of", "enough", "stop", "avoid", "avoiding", "skip", "skipping", "drop", "omit", "hate", "dislike",
    "refrain", "ditch", "remove", "forget", "hesitate", "spare me", "quit",
)  # fmt: skip
"""They deny all that follows in their clause: "I don't want you to use lists"."""

IDLE = ("not only", "not just", "not necessarily", "not mind", "why not", "or not", "if not", "not sure", "no matter",
        "no problem", "no doubt", "no more than", "no one")  # fmt: skip
"""They look like denials."""

DENIALS = _words("not never no without nothing neither stop avoid avoiding skip drop omit ditch remove")

TOLD = re.compile(
    r"you (?:have )?(?:just )?(?:used|wrote|written|gave|given|added|included|put|made|answered|replied)$"
)
"""What was done is told here, not what is wished."""

VERBS = _words(
    "use write give keep make add include be answer reply respond show put start explain prefer try stay go tell say "
    "begin end speak return provide offer format structure describe stick finish ask let want need please using "
    "writing"
)

BETWEEN = _words("ever please just to always again even be being you it me i that do any the a")
"""Words that may stand between a denial and its verb."""

AFTER_NOT = re.compile(
    r"^(?:(?:is|are|was|were) )?(?:not|never) (?:\w+ )?(?:needed|necessary|welcome|wanted|helpful|allowed|ok|okay|"
    r"required|useful|good|appreciated)|^(?:is|are) (?:unnecessary|unwanted|annoying|distracting|forbidden|useless)"
)

WISH = "wished"
"""Stands for a wish that was read already, when what comes after it is read."""

FILLERS = VERBS | _words(
    "a an the it its this that these those your you my me i we us our is are was were be been being do does did done "
    "will would should could can must may might have has had of in on at to for from by with as so and or but then "
    "also please always ever again even just only all every each any some more most much many lot lots very really "
    "too quite bit little rather instead next time times when whenever while if there here what which who how why "
    "reply replies answer answers response responses answering replying responding text output message messages "
    "assistant person user like way ways form style sort kind kinds such thing things keep kept get make sure want "
    "wants wanted need needs needed necessary welcome helpful allowed required useful already longer up out than one "
    f"per nothing {' '.join((*STRONG, *WEAK))}"
)
"""Words without which a wish is the same wish."""

WORDS = {"single": "1", "one": "1", "two": "2", "three": "3", "four": "4", "five": "5", "six": "6", "seven": "7",
         "eight": "8", "nine": "9", "ten": "10", "couple": "2", "twice": "2", "twelve": "12", "twenty": "20",
         "fifty": "50", "hundred": "100"}  # fmt: skip


@dataclass(frozen=True)
class Reading:
    """What a hint asks for, as far as it was understood."""

    wishes: frozenset[Wish]
    rest: tuple[str, ...]
    """The words that matter and belong to no wish, sorted."""
    numbers: tuple[str, ...]
    denied: bool
    """Whether `rest` is denied: "do not mention Paris"."""


@lru_cache(maxsize=4096)
def read(hint: str) -> Reading:
    """Wishes, and what is left.

    >>> sorted(read("Please use fewer words, and no bullet points!").wishes)
    [Wish(axis='length', way='short', soft=False), Wish(axis='lists or prose', way='prose', soft=False)]
    >>> read("It was not too short.").wishes
    frozenset({Wish(axis='length', way='long', soft=True)})
    """
    text = plain(hint[:READ])
    if hints.is_rewrite(hint):
        return Reading(frozenset(), tuple(sorted(text.split())), (), False)
    found: list[tuple[int, int, str, str]] = []
    for axis, way, pattern in PATTERNS:
        found += [(match.start(), match.end(), axis, way) for match in pattern.finditer(text)]
    wishes: dict[str, set[Wish]] = {}
    left: list[str] = []
    before: list[str] = []
    end = 0
    for start, stop, axis, way in sorted(found, key=lambda one: (one[0], -one[1])):
        if start < end:
            continue
        left.append(text[end:start])
        wish = _wish(axis, way, "".join(before) + text[end:start], text[stop:])
        before += [text[end:start], WISH]
        if wish is None:
            left.append(text[start:stop])
        else:
            wishes.setdefault(axis, set()).add(wish)
        end = stop
    left.append(text[end:])
    words = re.findall(r"[^\W_][\w+#]*", " ".join(left))
    rest = sorted(_stem(word) for word in words if word not in FILLERS and word not in WORDS and not word.isdigit())
    numbers = sorted(WORDS.get(word, word) for word in text.split() if word in WORDS or word.isdigit())
    denials = sum(word in DENIALS for word in " ".join(left).split())
    return Reading(
        frozenset(wish for same in wishes.values() for wish in same if len({(w.axis, w.way) for w in same}) == 1),
        tuple(rest),
        tuple(numbers),
        bool(rest) and denials % 2 == 1,
    )


def alike(one: str, other: str) -> bool:
    """True when both ask for the same: the same wishes and numbers, and no other word that matters differs.

    >>> alike("Keep it short.", "Please use fewer words next time."), alike("Keep it short.", "Not too short, please.")
    (True, False)
    >>> alike("Mention the price in euros.", "Mention the prise in dollars.")
    False
    """
    if one == other:
        return True
    a, b = read(one), read(other)
    if a.wishes != b.wishes or a.numbers != b.numbers or a.denied != b.denied:
        return False
    if not a.rest and not b.rest:
        return bool(a.wishes) or plain(one) == plain(other)
    return len(a.rest) == len(b.rest) and all(_same(x, y) for x, y in zip(a.rest, b.rest, strict=True))


def opposed(one: str, other: str) -> list[tuple[str, str, str]]:
    """The axes on which two hints ask for opposite things: (axis, the way of `one`, the way of `other`).

    >>> opposed("No lists, please.", "Use bullet points."), opposed("Answer in German.", "Answer in French.")
    ([('lists or prose', 'prose', 'list')], [('language', 'german', 'french')])
    """
    theirs = {wish.axis: wish for wish in read(other).wishes}
    found = []
    for wish in sorted(read(one).wishes):
        their = theirs.get(wish.axis)
        if their is not None and their.way != wish.way and not (wish.soft and their.soft):
            found.append((wish.axis, wish.way, their.way))
    return found


def conflicts(hint: str, standing: Iterable[tuple[int, str]]) -> list[dict[str, object]]:
    """A sentence for each of these hints (number, words) that asks for the opposite, as `Hint.conflicts` keeps them."""
    said = []
    for pk, words in standing:
        if axes := opposed(hint, words):
            ways = ", ".join(f"{axis}: {here} here, {there} there" for axis, here, there in axes)
            said.append({"hint": pk, "sentence": f"It asks for the opposite of “{shortened(words)}” ({ways})."})
    return said


def groups(texts: Sequence[str]) -> list[list[int]]:
    """The places of texts that say the same, each group in order, in the order of its first. Every text is in one.

    >>> groups(["Be brief, please.", "No emojis!", "Keep it short."])
    [[0, 2], [1]]
    """
    found: list[list[int]] = []
    for place, text in enumerate(texts):
        home = next((group for group in found if alike(texts[group[0]], text)), None)
        if home is None:
            found.append([place])
        else:
            home.append(place)
    return found


def shortened(words: str, most: int = 80) -> str:
    line = " ".join(words.split())
    return line if len(line) <= most else line[:most].rsplit(" ", 1)[0] + "…"


def plain(text: str) -> str:
    """Lower case, contractions written out, and of punctuation only what ends a thought (` . `) or parts one (` , `).

    >>> plain("Don't use step-by-step lists; it's too long!")
    'do not use step by step lists . it is too long .'
    """
    text = text.casefold().replace("’", "'").replace("`", "'")
    text = re.sub(r"\b(ca|wo|sha)n'?t\b", lambda m: {"ca": "can", "wo": "will", "sha": "shall"}[m[1]] + " not", text)
    text = re.sub(r"\b(do|does|did|is|are|was|were|should|would|could|must|need|has|have)n'?t\b", r"\1 not", text)
    text = re.sub(r"\b(it|that|there|what|here)'s\b", r"\1 is", text)
    text = re.sub(r"\bcannot\b", "can not", text)
    text = re.sub(r"'(?:re|ve|ll|d|m|s)\b", " ", text)
    text = re.sub(r"(?<=\d)[.,](?=\d)", "", text)
    text = re.sub(r"[.;:!?\n…]+|\s[-–—]+\s|—", " . ", text)
    text = re.sub(r"\bno\s*,", " , ", text)  # an answer, not a denial
    text = re.sub(r"[^\w\s.,+#]|_", " ", text.replace(",", " , "))
    return " ".join(text.split())


def _wish(axis: str, way: str, before: str, after: str) -> Wish | None:
    """The wish at this place with the sense that its clause gives it; None where something is only told."""
    clause = re.split(r"(?<=\s)\.(?=\s)|^\.", before)[-1].strip()
    after = re.split(r"\s[.,](?:\s|$)|^[.,]", after)[0].strip()
    weak, strong, too, told = _count(clause)
    if told:
        return None
    denied, soft = (weak + strong) % 2 == 1, False
    if after.split(" ")[0] == "enough":
        denied = False
    elif too:
        denied, soft = True, weak + strong > 0
    elif AFTER_NOT.match(after):
        denied = not denied
    elif denied and way == "with" and clause.split()[-1:] in (["less"], ["fewer"]):
        soft = True
    if not denied:
        return Wish(axis, way, soft)
    return Wish(axis, OPPOSITE.get(way, f"not {way}"), soft)


def _count(clause: str) -> tuple[int, int, bool, bool]:
    """How often what comes after these words is denied, weakly and strongly; whether it is too much; whether it is
    only told."""
    words = clause.split()
    weak = strong = 0
    too = told = False
    since = len(words)  # words since the last denial that are more than fillers
    at = 0
    while at < len(words):
        word, two = words[at], " ".join(words[at : at + 2])
        three = " ".join(words[at : at + 3])
        after = words[at + 1] if at + 1 < len(words) else ""
        step = 1
        if word in ("but", "however", "otherwise") or (word in (",", "and", "then") and _begins(words[at + 1 :])):
            weak = strong = 0
            too = told = False
        elif two in IDLE or three in IDLE:
            step = 3 if three in IDLE else 2
        elif (phrase := next((p for p in STRONG if p in (word, two, three)), "")) and not (
            phrase == "enough" and at and words[at - 1] in ("long", "short")
        ):
            strong, since, step = strong + 1, 0, len(phrase.split())
        elif phrase := next((p for p in WEAK if p in (word, two)), ""):
            weak, since, step = weak + 1, 0, len(phrase.split())
        elif word == "too" and after not in (",", "and", "or"):
            too = True
        elif word in VERBS:
            if since > 0:
                weak, too, told = 0, False, False
        elif word not in BETWEEN:
            since += 1
        at += step
        told = told or bool(TOLD.search(" ".join(words[max(0, at - 4) : at])))
    return weak, strong, too, told


def _begins(words: Sequence[str]) -> bool:
    """True where a new thought begins: after these words comes a verb, or a person."""
    first = next((word for word in words if word not in ("please", "just", "then", "instead", "always", "only")), "")
    return first in VERBS - {"please", "be"} or first in ("i", "it", "we", "they", "this", "keep", "be")


def _stem(word: str) -> str:
    for ending in ("ies", "ing", "es", "ed", "s"):
        if word.endswith(ending) and len(word) - len(ending) >= 4:
            return word[: -len(ending)] + ("y" if ending == "ies" else "")
    return word.removesuffix("e") if len(word) > 4 else word


def _same(one: str, other: str) -> bool:
    if one == other:
        return True
    if min(len(one), len(other)) < SPELT or any(c.isdigit() for c in one + other):
        return False
    return one[0] == other[0] and OSA.distance(one, other, score_cutoff=1) <= 1

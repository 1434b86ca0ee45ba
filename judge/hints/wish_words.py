"""Turn what a person says of one reply into a wish that holds for every reply. Pure.

People write to the reply before them: "Merge the paragraphs into one and send it again". A teacher that is shown this
speaks of an earlier reply where there was none. `find_references` finds the words that speak of one, `word_wish` says
the same as a wish ("Write the whole reply as one paragraph."), and where it finds no safe wording, the person is asked.

A text is taken apart into clauses. One that says nothing of the wish goes ("send it again"); one that is a wish stays
in the person's words; one that names a known matter becomes that matter's wish, for it or against it; one that
names something of its own becomes a wish for that ("You forgot the units": "Include the units."). All words for this
are data: judge/hints/wish_words.toml.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from django.utils.translation import ngettext

LONGEST_CLAUSE = 300
"""Characters of a clause that is read; a longer one says too much to be one wish."""

LONGEST_SAID = 1500
"""Characters of what is turned into a wish; longer words that speak of an earlier reply are a person's to put right."""

MOST_UNKNOWN = 4
"""Words beside a known matter that may be unknown: more of them, and something else may be meant."""

LONGEST_NAME = 8
"""Words of what a person names themselves."""

QUOTED = re.compile(
    r"\"[^\"\n]*\"|“[^”\n]*”|„[^“”\n]*[“”]|«[^»\n]*»|(?<!\w)‘[^’\n]*’(?!\w)|(?<!\w)'[^'\n]+'(?!\w)|`[^`\n]+`"
)


@dataclass(frozen=True)
class Wish:
    """What a person wants of every reply."""

    text: str
    """What is taught."""
    is_verbatim: bool
    """True where these are the person's own words."""


@dataclass(frozen=True)
class Reference:
    """Words that speak of an earlier reply: characters `start` up to and without `end`."""

    start: int
    end: int
    text: str


@dataclass(frozen=True)
class Concept:
    """A matter that wishes are about, and what is taught for it and against it."""

    name: str
    words: re.Pattern[str]
    want: str
    avoid: str
    always: str


@dataclass(frozen=True)
class Frame:
    """A clause in which a person names something themselves."""

    said: re.Pattern[str]
    wish: str
    verbs: tuple[str, ...] = ()
    """The clause begins with one of these; empty: any."""
    is_adjective: bool = False


@lru_cache(maxsize=2048)
def find_references(text: str) -> tuple[Reference, ...]:
    """The words that speak of an earlier reply, in order and apart. Quoted words are none of them.

    >>> [one.text for one in find_references("Shorten the second point and send it again.")]
    ['Shorten the second point', 'send it again']
    >>> find_references("Write the whole reply as one paragraph."), find_references('Do not begin with "As before".')
    ((), ())
    """
    rules = _rules()
    plain = masked(text)
    found: list[tuple[int, int]] = []
    for start, end in sentences_of(plain):
        start += len(plain[start:end]) - len(plain[start:end].lstrip(" \t\n\"'(*-•"))
        sentence = plain[start:end]  # alone, so that its beginning is one
        for pattern in (*rules.references, *rules.languages):
            found += [
                _trimmed(plain, start + match.start(), start + match.end()) for match in pattern.finditer(sentence)
            ]
        found += _pronouns(plain, start, end)
    joined: list[tuple[int, int]] = []
    for start, end in sorted(one for one in found if one[0] < one[1]):
        if joined and not plain[joined[-1][1] : start].strip():  # they touch
            joined[-1] = (joined[-1][0], max(end, joined[-1][1]))
        else:
            joined.append((start, end))
    return tuple(Reference(start, end, text[start:end]) for start, end in joined)


@lru_cache(maxsize=2048)
def word_wish(text: str) -> Wish | None:
    """The wish that these words come to; None where no safe wording is found, and the person is to be asked.

    >>> word_wish("Use metric units.")
    Wish(text='Use metric units.', is_verbatim=True)
    >>> word_wish("That's three paragraphs. One will do.").text
    'Write the whole reply as one paragraph.'
    >>> word_wish("Redo the second point.") is None
    True
    """
    said = text.strip()
    if not said:
        return None
    if not find_references(said):
        return Wish(said, True)
    turned = _turned(said)
    if turned.is_whole and turned.wishes and not find_references(wish := " ".join(turned.wishes)):
        return Wish(wish, False)
    return None


def suggest_wish(text: str) -> str:
    """The best try at a wish, for a person to put right: what was understood of these words, else the words."""
    found = word_wish(text)
    if found is not None:
        return found.text
    wishes = " ".join(_turned(text.strip()).wishes)
    return wishes if wishes and not find_references(wishes) else " ".join(text.split())


def refusal(references: Sequence[Reference]) -> str:
    """Why words with these references cannot be a wish, in a sentence."""
    words = ", ".join(f"“{one.text}”" for one in references[:3])
    speaks = ngettext(
        "%(words)s speaks of an earlier reply. Say it so that it holds for every reply.",
        "%(words)s speak of an earlier reply. Say it so that it holds for every reply.",
        len(references),
    )
    return speaks % {"words": words}


# Taking a text apart


@dataclass(frozen=True)
class Turned:
    """The wishes that were found, and whether nothing that asks for something was left out."""

    wishes: tuple[str, ...]
    is_whole: bool


def masked(text: str) -> str:
    """The text with each quotation blanked out and curly apostrophes straight; every character keeps its place."""
    plain = text.replace("’", "'")
    return QUOTED.sub(lambda match: "\x00" * len(match[0]), plain)


def sentences_of(plain: str) -> Iterator[tuple[int, int]]:
    """Where each sentence begins and ends, its last sign included."""
    start = 0
    for match in re.finditer(r"[.!?…]+(?=\s|$|\))|\n+|;\s|\s[-–—]+\s|—", plain):
        yield start, match.end()
        start = match.end()
    if start < len(plain):
        yield start, len(plain)


def _turned(said: str) -> Turned:
    if len(said) > LONGEST_SAID:
        return Turned((), False)
    plain = masked(said)
    unit = _unit_of(plain)
    wishes: list[str] = []
    is_whole = not any(pattern.search(plain) for pattern in _rules().languages)
    for start, end in sentences_of(plain):
        sentence = said[start:end].strip()
        if not re.search(r"\w", sentence):
            continue
        found, whole = _sentence(sentence, unit)
        is_whole = is_whole and whole
        wishes += [wish for wish in found if wish not in wishes]
    for own in [wish for wish in wishes if wish not in canonical()]:  # the person's own words for it come first
        said_so = _known(normal(own), _bared(normal(own)), own) or []
        wishes = [wish for wish in wishes if wish not in said_so or wish == own]
    return Turned(tuple(_without_weaker(wishes)), is_whole and not _contrary(wishes))


@lru_cache(maxsize=1)
def canonical() -> frozenset[str]:
    """The wishes for known matters, in our words."""
    return frozenset(wish for one in _rules().concepts for wish in (one.want, one.avoid, one.always) if wish)


@lru_cache(maxsize=4096)
def find_matters(text: str) -> frozenset[str]:
    """What a text asks for of the known matters, in our words; empty where it names none of them.

    >>> sorted(find_matters("No bullet points, please!"))
    ['Write running text without lists.']
    """
    found: set[str] = set()
    for wish in _turned(text).wishes:
        found |= {wish} if wish in canonical() else set(_known(normal(wish), _bared(normal(wish)), wish) or ())
    return frozenset(found)


def are_opposed(one: str, other: str) -> bool:
    """True where two wishes ask for opposite things of a known matter.

    >>> are_opposed("No lists, please.", "Use bullet points."), are_opposed("No lists, please.", "Be brief.")
    (True, False)
    """
    return any(frozenset((here, there)) in _contraries() for here in find_matters(one) for there in find_matters(other))


@lru_cache(maxsize=1)
def _contraries() -> frozenset[frozenset[str]]:
    own = (frozenset((one.want, one.avoid)) for one in _rules().concepts if one.want and one.avoid)
    return frozenset((*_rules().contrary, *own))


def _sentence(sentence: str, unit: str) -> tuple[list[str], bool]:
    """The wishes of one sentence, the longest parts that are understood first; and whether all that asks was."""
    parts = _parted(sentence)
    wishes: list[str] = []
    is_whole, at = True, 0
    while at < len(parts):
        for to in range(len(parts), at, -1):
            clause = sentence[parts[at][0] : parts[to - 1][1]]
            found = _clause(clause, unit, is_first=at == 0)
            if found is not None:
                wishes += found
                at = to
                break
        else:
            if _asks(sentence[parts[at][0] : parts[at][1]]):
                is_whole = False
            at += 1
    return wishes, is_whole


def _parted(sentence: str) -> list[tuple[int, int]]:
    plain = masked(sentence)
    parts, start = [], 0
    for match in _rules().joints.finditer(plain):
        if match.start() > start:
            parts.append((start, match.start()))
        start = match.end()
    if start < len(sentence):
        parts.append((start, len(sentence)))
    return [(start, end) for start, end in parts if re.search(r"\w", sentence[start:end])]


def _asks(clause: str) -> bool:
    """True where a clause asks for something, so that it cannot go unheard."""
    return _rules().directive.search(normal(clause)) is not None


def _clause(clause: str, unit: str, *, is_first: bool = True) -> list[str] | None:
    """The wishes of one clause; none where it says nothing of what is wanted; None where it is not understood."""
    if len(clause) > LONGEST_CLAUSE:
        return None
    rules = _rules()
    whole = normal(clause)
    bare = _bared(whole)
    if not bare or rules.noise.fullmatch(bare) or rules.noise.fullmatch(whole):
        return []
    if (amount := _amount(whole, unit)) is not None:
        return amount
    kept = _kept(bare, clause)
    if kept:
        return [kept]
    if (known := _known(whole, bare, clause)) is not None:
        return known
    for frame in rules.frames:
        for said in dict.fromkeys((bare, whole)):
            if (wish := _framed(frame, said, clause)) and not find_references(wish):
                return [wish]
    return None


def normal(text: str) -> str:
    """Lower case, apostrophes straight, contractions written out, runs of blanks as one, no stops at the ends.

    >>> normal("  That’s  too long — don't!")
    'that is too long — do not'
    """
    text = text.replace("’", "'").casefold()
    text = re.sub(r"\b(do|does|did)nt\b", r"\1n't", text)  # as it is typed in a hurry
    text = re.sub(r"\b(ca|wo|sha)n't\b", lambda m: {"ca": "can", "wo": "will", "sha": "shall"}[m[1]] + " not", text)
    text = re.sub(r"\b(do|does|did|is|are|was|were|should|would|could|must|need|has|have|had)n't\b", r"\1 not", text)
    text = re.sub(r"\b(it|that|there|what|here|where|who)'s\b", r"\1 is", text)
    text = re.sub(r"\b(i|you|we|they|it|that)'d\b", r"\1 would", text)
    text = re.sub(r"\b(\w+)'ve\b", r"\1 have", text)
    text = re.sub(r"\b(\w+)'re\b", r"\1 are", text)
    text = re.sub(r"\b(\w+)'ll\b", r"\1 will", text)
    text = re.sub(r"\bi'm\b", "i am", text)
    text = re.sub(r"\blet's\b", "let us", text)
    text = re.sub(r"\bcannot\b", "can not", text)
    text = re.sub(r"\b(can|could|would|will) not (you|we|i)\b", r"\1 \2", text)
    text = text.replace("“", '"').replace("”", '"')
    text = re.sub(r"\s+", " ", text)
    return text.strip(" .!?…,;:()-–—")


def _bared(said: str) -> str:
    """A clause without the words around it that ask nicely, or that say when."""
    rules = _rules()
    before = ""
    while before != said:
        before = said
        said = rules.openers.sub("", said, count=1).strip(" ,.!?:-")
        said = rules.tails.sub("", said, count=1).strip(" ,.!?:-")
    return _imperative(said)


def _imperative(said: str) -> str:
    """ "giving me an answer" as "give me an answer", where it begins with such a verb."""
    first, _, rest = said.partition(" ")
    if not first.endswith("ing"):
        return said
    base = _base(first)
    return f"{base} {rest}".strip() if base else said


def _base(gerund: str) -> str:
    stem = gerund.removesuffix("ing")
    doubled = stem[:-1] if len(stem) > 2 and stem[-1] == stem[-2] else stem
    return next((verb for verb in (stem, stem + "e", doubled) if _rules().verb.fullmatch(verb)), "")


# What a clause comes to


def _kept(bare: str, clause: str) -> str:
    """The clause in its own words where it is a wish as it stands."""
    if not _rules().wish.search(bare):
        return ""
    sentence = _sentence_of(_cased(bare, clause))
    return "" if find_references(sentence) or len(sentence) < 8 else sentence


def _known(whole: str, bare: str, clause: str) -> list[str] | None:
    """The wishes for the known matters that a clause names."""
    rules = _rules()
    if rules.own.search(whole):
        return None
    scope = _after_exchange(bare)
    found: list[tuple[int, int, Concept]] = []
    for concept in rules.concepts:
        found += [(*match.span(), concept) for match in concept.words.finditer(scope) if match.end() > match.start()]
    wishes: list[str] = []
    taken = [False] * len(scope)
    offset = whole.rfind(scope)
    for start, end, concept in sorted(found, key=lambda one: (one[0] - one[1], one[0])):
        if any(taken[start:end]) or scope[:start].endswith("for such a "):
            continue
        taken[start:end] = [True] * (end - start)
        sense = _sense(whole, offset + start, offset + end) if offset >= 0 else _sense(scope, start, end)
        wish = concept.always or (concept.want if sense > 0 else concept.avoid)
        if not wish:
            return None
        if wish not in wishes:
            wishes.append(wish)
    if not wishes or _contrary(wishes):
        return None
    left = "".join(" " if is_taken else letter for letter, is_taken in zip(scope, taken, strict=True))
    names = {word.casefold() for word in re.findall(r"(?<=[\w,] )[A-Z]\w+", clause)} - {"i"}
    unknown = [word for word in re.findall(r"[^\W\d_][\w'-]*", left) if word not in rules.fill]
    if len(unknown) > MOST_UNKNOWN or any(word in names for word in unknown) or re.search(r"\d", left):
        return None
    for place in rules.place.finditer(scope):
        if not all(taken[place.start() : place.end()]):
            return None  # one part of a reply is meant
    for named in rules.named.finditer(left):
        if named[1] not in rules.fill:
            return None  # something else is missing, or too much
    return wishes


def _after_exchange(bare: str) -> str:
    """What is wanted of an exchange: "replace the bullets with prose" is about prose."""
    rules = _rules()
    if exchange := rules.exchange.search(bare):
        return exchange[1]
    return rules.other.split(bare)[0].strip(" ,") or bare


def _sense(said: str, start: int, end: int) -> int:
    """1 where the words from `start` to `end` are wished for, -1 where they are wished away."""
    rules = _rules()
    before, after = said[:start], said[end:]
    own = said[start:end]
    near = re.split(r"[,;:.]| but | and (?=(?:use|write|give|make|add|i |you |it |that ))", before)[-1]
    if re.search(r"\btoo\b", own) or re.search(r"\btoo(?: \w+)?\s*$", near):
        return -1
    if rules.want_after.search(after):
        return 1
    if rules.lack.search(near + own) and not re.search(r"\bstop|avoid|no need\b", near):
        return 1
    if rules.excess.search(near + own) or rules.deny_after.search(after):
        return -1
    denies_itself = re.match(r"(?:no|not|without)\b", own) is not None
    denied = (len(rules.deny.findall(near)) + denies_itself) % 2 == 1
    part = near + own + re.split(r"[,;:.]", after)[0]
    if rules.told.search(part.strip()) and not rules.asked.search(part):
        if rules.praise.search(near):
            return -1 if denied else 1
        return 1 if denied else -1
    return -1 if denied else 1


def _framed(frame: Frame, bare: str, clause: str) -> str:
    """The wish that this frame makes of a clause; empty where it does not fit."""
    rules = _rules()
    match = frame.said.fullmatch(bare)
    if match is None or (frame.verbs and not bare.startswith(frame.verbs)):
        return ""
    parts = {name: value or "" for name, value in match.groupdict().items()}
    if "verb" in parts:
        verb = parts["verb"]
        base = rules.verbs.get(verb) or _base(verb) or (verb if rules.verb.fullmatch(verb) else "")
        if not base:
            return ""
        parts |= {"base": base, "Base": base.capitalize(), "x": re.sub(r"^ (?:it|this|that)\b", "", parts["x"])}
    if re.search(r"[,;:]", parts.get("x", "")):
        return ""
    named = rules.softened.sub(rules.instead, rules.determiners.sub("", parts.get("x", "")))
    words = named.split()
    if len(words) > LONGEST_NAME or ("verb" not in parts and not words):
        return ""
    if frame.is_adjective and (words[0] in rules.fill or words[0] in rules.empty):
        return ""
    if words and (words[-1] in rules.ends or words[0] in rules.begins):
        return ""
    cased = _cased(named, clause)
    proper = [word.casefold() for word in re.findall(r"\b[A-Z]\w+", cased)]
    if any(not rules.tongue.fullmatch(word) for word in proper) or re.search(r"\d", named):
        return ""  # a name or a number is of this reply's matter
    space = " " if parts.get("x", "").startswith(" ") else ""
    return _sentence_of(frame.wish.format(**(parts | {"x": space + cased.strip()})))


# Numbers of paragraphs, sentences, words


def _unit_of(plain: str) -> str:
    """What is counted in a text: the first of paragraphs, sentences and so on that it names."""
    match = _rules().unit.search(normal(plain))
    return _singular(match[0]) if match else ""


def _amount(said: str, unit: str) -> list[str] | None:
    """The wish for so many paragraphs, sentences or words; none where a number is only told, None without a number."""
    numbers, told = _rules().numbers, _rules().told
    wanted: list[str] = []
    is_told = False
    for match in numbers.amount.finditer(said):
        before, after = said[: match.start()], said[match.end() :]
        if numbers.laid_before.search(before) or numbers.laid_after.search(after):
            continue  # how it is laid out, and not how much
        if match["n"] in numbers.ones and _singular(match["unit"]) in numbers.listed:
            continue
        if numbers.too_few.search(after):
            wanted.append(AT_LENGTH)
        elif (
            numbers.unwanted_before.search(before)
            or numbers.unwanted_after.search(after)
            or (told.search(said) and not numbers.wanted_before.search(before))
        ):
            is_told = True
        else:
            wanted.append(_amount_wish(match))
    if not wanted and unit:
        wanted += [_count_wish(match["n"], unit) for match in numbers.alone.finditer(said)]
    if wanted:
        return wanted[-1:]
    return [] if is_told and unit and _is_only_told(said) else None


def _is_only_told(said: str) -> bool:
    """True for a clause that counts what a reply has, and says no more."""
    rules = _rules()
    words = re.findall(r"[^\W\d_][\w'-]*", rules.numbers.amount.sub(" ", said))
    return rules.told.search(said) is not None and all(word in rules.fill for word in words)


def _amount_wish(match: re.Match[str]) -> str:
    numbers = _rules().numbers
    unit = _singular(match["unit"])
    if unit == "paragraph" and match["n"] in numbers.ones and not match["or"]:
        return ONE_PARAGRAPH
    words = numbers.loose.sub("", " ".join(match[0].split()))
    if f"-{match['unit']}" in words:  # "a two-sentence version"
        words = words.replace("-", " ") + ("" if match["n"] in numbers.ones else "s")
    return f"List {words}." if unit in numbers.listed else f"Answer in {words}."


def _count_wish(number: str, unit: str) -> str:
    numbers = _rules().numbers
    if unit == "paragraph" and number in numbers.ones:
        return ONE_PARAGRAPH
    words = f"{number} {unit}" + ("" if number in numbers.ones else "s")
    return f"List {words}." if unit in numbers.listed else f"Answer in {words}."


def _singular(unit: str) -> str:
    return unit.removesuffix("s")


ONE_PARAGRAPH = "Write the whole reply as one paragraph."
SHORT = "Keep the reply short."
AT_LENGTH = "Answer at length, with details."


# Small helps


def _contrary(wishes: Sequence[str]) -> bool:
    return any(pair <= set(wishes) for pair in _rules().contrary)


def _without_weaker(wishes: Sequence[str]) -> list[str]:
    """The wishes without "short" where one says how short."""
    says_how = any(re.match(r"Answer in .*(?:sentence|word|line)", wish) for wish in wishes)
    return [wish for wish in wishes if not (says_how and wish == SHORT)]


def _cased(said: str, clause: str) -> str:
    """The words with the capitals they had inside the clause, where they did not begin it."""
    capital = {word.casefold(): word for word in re.findall(r"(?<=\S\s)[\"“]?(\w*[A-Z][\w'’-]*)", clause)} | {"i": "I"}
    tongue = _rules().tongue
    cased = re.sub(r"[^\W\d_][\w'-]*", lambda match: capital.get(match[0], match[0]), said)
    return re.sub(r"[^\W\d_]+", lambda word: word[0].capitalize() if tongue.fullmatch(word[0]) else word[0], cased)


def _sentence_of(said: str) -> str:
    said = " ".join(said.split()).strip(" ,;:")
    said = said[:1].upper() + said[1:]
    return said if said.endswith((".", "!", "?", '."', ".”")) else f"{said}."


def _trimmed(plain: str, start: int, end: int) -> tuple[int, int]:
    while start < end and not plain[start].isalnum():
        start += 1
    while end > start and not plain[end - 1].isalnum():
        end -= 1
    return start, end


def _pronouns(plain: str, start: int, end: int) -> list[tuple[int, int]]:
    """Where "it" stands for a reply, and for nothing that the sentence names before; and where "was" tells of one."""
    rules = _rules()
    found = []
    for words, excuse in ((rules.pronoun, rules.antecedent), (rules.past, rules.condition)):
        for match in words.finditer(plain, start, end):
            if not excuse.search(plain, start, match.start()):
                found.append(match.span())
    return found


# The data


@dataclass(frozen=True)
class Numbers:
    """How amounts are read: `numbers` in judge/hints/wish_words.toml."""

    ones: frozenset[str]
    listed: frozenset[str]
    amount: re.Pattern[str]
    loose: re.Pattern[str]
    alone: re.Pattern[str]
    laid_before: re.Pattern[str]
    laid_after: re.Pattern[str]
    unwanted_before: re.Pattern[str]
    unwanted_after: re.Pattern[str]
    too_few: re.Pattern[str]
    wanted_before: re.Pattern[str]


@dataclass(frozen=True)
class Rules:
    """judge/hints/wish_words.toml, ready to be used; the names are those of the file."""

    references: tuple[re.Pattern[str], ...]
    languages: tuple[re.Pattern[str], ...]
    """What speaks of an earlier reply in a language whose clauses are not read here."""
    openers: re.Pattern[str]
    tails: re.Pattern[str]
    noise: re.Pattern[str]
    joints: re.Pattern[str]
    directive: re.Pattern[str]
    wish: re.Pattern[str]
    place: re.Pattern[str]
    named: re.Pattern[str]
    exchange: re.Pattern[str]
    other: re.Pattern[str]
    own: re.Pattern[str]
    asked: re.Pattern[str]
    pronoun: re.Pattern[str]
    past: re.Pattern[str]
    condition: re.Pattern[str]
    antecedent: re.Pattern[str]
    lack: re.Pattern[str]
    excess: re.Pattern[str]
    deny: re.Pattern[str]
    deny_after: re.Pattern[str]
    want_after: re.Pattern[str]
    told: re.Pattern[str]
    praise: re.Pattern[str]
    fill: frozenset[str]
    numbers: Numbers
    contrary: tuple[frozenset[str], ...]
    concepts: tuple[Concept, ...]
    frames: tuple[Frame, ...]
    empty: frozenset[str]
    ends: frozenset[str]
    begins: frozenset[str]
    determiners: re.Pattern[str]
    softened: re.Pattern[str]
    instead: str
    verbs: dict[str, str]
    verb: re.Pattern[str]
    unit: re.Pattern[str]
    tongue: re.Pattern[str]


@lru_cache(maxsize=1)
def _rules() -> Rules:
    data = tomllib.loads(Path(__file__).with_name("wish_words.toml").read_text("utf-8"))
    classes: dict[str, str] = data["classes"]

    def filled(pattern: str) -> str:
        """The pattern with the classes that it names; a class may name another."""
        for _ in range(3):
            pattern = re.sub(r"\{([a-z]+)\}", lambda match: classes.get(match[1], match[0]), pattern)
        return pattern

    def ready(pattern: str) -> re.Pattern[str]:
        return re.compile(filled(pattern), re.IGNORECASE)

    def any_of(patterns: Sequence[str]) -> str:
        return f"(?:{'|'.join(map(filled, patterns))})"

    clauses, polarity, numbers, opened = data["clauses"], data["polarity"], data["numbers"], data["open"]
    lists = {"openers", "tails", "noise", "fill"}
    return Rules(
        references=tuple(ready(one) for patterns in data["references"].values() for one in patterns),
        languages=tuple(ready(one) for patterns in data["languages"].values() for one in patterns),
        openers=re.compile(rf"^(?:please )?{any_of(clauses['openers'])}(?:[,.!?:]|\b)\s*(?!\S*')"),
        tails=re.compile(rf"(?:^|[\s,.!?]+){any_of(clauses['tails'])}$"),
        noise=re.compile(any_of(clauses["noise"])),
        **{name: ready(pattern) for name, pattern in clauses.items() if name not in lists},
        **{name: ready(pattern) for name, pattern in polarity.items()},
        fill=frozenset(clauses["fill"].split()) | _plain_words(polarity.values()),
        numbers=Numbers(
            ones=frozenset(numbers["ones"]),
            listed=frozenset(numbers["listed"]),
            **{name: ready(pattern) for name, pattern in numbers.items() if isinstance(pattern, str)},
        ),
        contrary=tuple(frozenset(one["wishes"]) for one in data["contrary"]),
        concepts=tuple(_concept(one, ready(rf"(?<![\w-]){one['words']}(?![\w-])")) for one in data["concepts"]),
        frames=tuple(
            Frame(ready(one["said"]), one["wish"], tuple(one.get("verbs", ())), one.get("adjective", False))
            for one in data["frames"]
        ),
        empty=frozenset(opened["empty"]),
        ends=frozenset(opened["ends"]),
        begins=frozenset(opened["begins"]),
        determiners=ready(opened["determiners"]),
        softened=ready(opened["softened"]),
        instead=opened["instead"],
        verbs=data["verbs"],
        verb=ready("{produce}|{redo}"),
        unit=ready(r"\b{unit}\b"),
        tongue=ready("{tongue}"),
    )


def _concept(one: dict[str, str], words: re.Pattern[str]) -> Concept:
    return Concept(one["name"], words, one.get("want", ""), one.get("avoid", ""), one.get("always", ""))


def _plain_words(patterns: Iterable[str]) -> frozenset[str]:
    """Every word that a pattern of polarity names: it says for or against, and nothing else."""
    return frozenset(word for pattern in patterns for word in re.findall(r"[a-z]{2,}", pattern))

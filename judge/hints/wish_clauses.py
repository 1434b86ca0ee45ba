"""Turn one clause of what a person says into the wishes that it comes to. Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence

from judge.hints.back_references import find_references
from judge.hints.wish_amounts import amount_wishes
from judge.hints.wish_rules import Concept, Frame, load_rules
from judge.hints.wish_texts import normal

LONGEST_CLAUSE = 300
"""Characters of a clause that is read; a longer one says too much to be one wish."""

MOST_UNKNOWN = 4
"""Words beside a known matter that may be unknown: more of them, and something else may be meant."""

LONGEST_NAME = 8
"""Words of what a person names themselves."""


def clause_wishes(clause: str, unit: str, *, is_first: bool = True) -> list[str] | None:
    """The wishes of one clause; none where it says nothing of what is wanted; None where it is not understood."""
    if len(clause) > LONGEST_CLAUSE:
        return None
    rules = load_rules()
    whole = normal(clause)
    bare = bared(whole)
    if not bare or rules.noise.fullmatch(bare) or rules.noise.fullmatch(whole):
        return []
    if (amount := amount_wishes(whole, unit)) is not None:
        return amount
    kept = _kept(bare, clause)
    if kept:
        return [kept]
    if (known := known_wishes(whole, bare, clause)) is not None:
        return known
    for frame in rules.frames:
        for said in dict.fromkeys((bare, whole)):
            if (wish := _framed(frame, said, clause)) and not find_references(wish):
                return [wish]
    return None


def bared(said: str) -> str:
    """A clause without the words around it that ask nicely, or that say when."""
    rules = load_rules()
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
    return next((verb for verb in (stem, stem + "e", doubled) if load_rules().verb.fullmatch(verb)), "")


def _kept(bare: str, clause: str) -> str:
    """The clause in its own words where it is a wish as it stands."""
    if not load_rules().wish.search(bare):
        return ""
    sentence = _sentence_of(_cased(bare, clause))
    return "" if find_references(sentence) or len(sentence) < 8 else sentence


def known_wishes(whole: str, bare: str, clause: str) -> list[str] | None:
    """The wishes for the known matters that a clause names."""
    rules = load_rules()
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
    if not wishes or is_contrary(wishes):
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
    rules = load_rules()
    if exchange := rules.exchange.search(bare):
        return exchange[1]
    return rules.other.split(bare)[0].strip(" ,") or bare


def _sense(said: str, start: int, end: int) -> int:
    """1 where the words from `start` to `end` are wished for, -1 where they are wished away."""
    rules = load_rules()
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
    rules = load_rules()
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


def is_contrary(wishes: Sequence[str]) -> bool:
    return any(pair <= set(wishes) for pair in load_rules().contrary)


def _cased(said: str, clause: str) -> str:
    """The words with the capitals they had inside the clause, where they did not begin it."""
    capital = {word.casefold(): word for word in re.findall(r"(?<=\S\s)[\"“]?(\w*[A-Z][\w'’-]*)", clause)} | {"i": "I"}
    tongue = load_rules().tongue
    cased = re.sub(r"[^\W\d_][\w'-]*", lambda match: capital.get(match[0], match[0]), said)
    return re.sub(r"[^\W\d_]+", lambda word: word[0].capitalize() if tongue.fullmatch(word[0]) else word[0], cased)


def _sentence_of(said: str) -> str:
    said = " ".join(said.split()).strip(" ,;:")
    said = said[:1].upper() + said[1:]
    return said if said.endswith((".", "!", "?", '."', ".”")) else f"{said}."

"""Read how many paragraphs, sentences or words a person asks for. Pure."""

from __future__ import annotations

import re

from judge.hints.wish_rules import load_rules
from judge.hints.wish_texts import normal

ONE_PARAGRAPH = "Write the whole reply as one paragraph."
AT_LENGTH = "Answer at length, with details."


def unit_of(plain: str) -> str:
    """What is counted in a text: the first of paragraphs, sentences and so on that it names."""
    match = load_rules().unit.search(normal(plain))
    return _singular(match[0]) if match else ""


def amount_wishes(said: str, unit: str) -> list[str] | None:
    """The wish for so many paragraphs, sentences or words; none where a number is only told, None without a number."""
    numbers, told = load_rules().numbers, load_rules().told
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
    rules = load_rules()
    words = re.findall(r"[^\W\d_][\w'-]*", rules.numbers.amount.sub(" ", said))
    return rules.told.search(said) is not None and all(word in rules.fill for word in words)


def _amount_wish(match: re.Match[str]) -> str:
    numbers = load_rules().numbers
    unit = _singular(match["unit"])
    if unit == "paragraph" and match["n"] in numbers.ones and not match["or"]:
        return ONE_PARAGRAPH
    words = numbers.loose.sub("", " ".join(match[0].split()))
    if f"-{match['unit']}" in words:  # "a two-sentence version"
        words = words.replace("-", " ") + ("" if match["n"] in numbers.ones else "s")
    return f"List {words}." if unit in numbers.listed else f"Answer in {words}."


def _count_wish(number: str, unit: str) -> str:
    numbers = load_rules().numbers
    if unit == "paragraph" and number in numbers.ones:
        return ONE_PARAGRAPH
    words = f"{number} {unit}" + ("" if number in numbers.ones else "s")
    return f"List {words}." if unit in numbers.listed else f"Answer in {words}."


def _singular(unit: str) -> str:
    return unit.removesuffix("s")

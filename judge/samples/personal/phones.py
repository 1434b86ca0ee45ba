"""Find telephone numbers, by the numbering plans."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Any

import phonenumbers

from judge.samples.personal.findings import Finding, compile_pattern
from judge.samples.personal.kinds import Wanted

WITH_COUNTRY = compile_pattern(r"\+[0-9][0-9 ().\-/\x{2011}\x{2013}]{5,24}[0-9]")
NORTH_AMERICAN = (
    compile_pattern(r"\b(?:1[ .-])?[2-9][0-9]{2}[ .-][2-9][0-9]{2}[ .-][0-9]{4}\b"),
    compile_pattern(r"\([2-9][0-9]{2}\) ?[2-9][0-9]{2}[ .-][0-9]{4}\b"),
)
WITH_ZERO = (
    compile_pattern(r"\b0[0-9]{1,5}(?:[ ./-][0-9]{2,9}){1,5}\b"),
    compile_pattern(r"\(0[0-9]{1,4}\)[ -]?[0-9]{2,8}(?:[ .-][0-9]{2,8}){0,3}\b"),
)
CALLED = compile_pattern(
    r"(?i)\b(?:phone|telephone|tel|mobile|cell|cellphone|whatsapp|fax|sms|(?:call|text|ring|reach) me(?: at| on)?|"
    r"telefon|handy|mobil|téléphone|teléfono|móvil)\b[ .:#]{0,3}(?:no\.?|number|nr\.?|nummer|numéro|número)?"
    r"(?: is| ist| est| es)?[ :#]{0,3}([0-9+(][0-9 ().\-/]{5,20}[0-9])"
)
DATE = compile_pattern(r"^(?:[12][0-9]{3}[-./][0-9]{1,2}[-./][0-9]{1,2}|[0-9]{1,2}[-./][0-9]{1,2}[-./][0-9]{4})\b")


def find_phones(text: str, wanted: Wanted) -> Iterator[Finding]:
    american: list[str | None] = [region for region in wanted.regions if region in ("US", "CA")]
    plans: list[tuple[Any, list[str | None]]] = [(WITH_COUNTRY, [None])]
    plans += [(one, american) for one in NORTH_AMERICAN]
    plans += [(one, [region for region in wanted.regions if region not in american]) for one in WITH_ZERO]
    for pattern, regions in plans:
        for match in pattern.finditer(text):
            start, end = match.span()
            if not within(text, start, end) and is_phone(match[0], regions):
                yield Finding(start, end, "phone")
    for match in CALLED.finditer(text):
        start, end = match.span(1)
        digits = sum(c.isdigit() for c in match[1])
        if 7 <= digits <= 15 and not DATE.search(match[1]) and not within(text, start, end):
            yield Finding(start, end, "phone")


def within(text: str, start: int, end: int) -> bool:
    """True for figures that are part of a longer word or of a sum: they are no number that one dials."""
    before, after = text[start - 1 : start] if start else "", text[end : end + 1]
    if before.isalnum() or before in tuple("_=*^+$€£#.") or after.isalnum() or after in tuple("%=*^"):
        return True
    return after in (":", ".", ",") and text[end + 1 : end + 2].isdigit()


def is_phone(written: str, regions: Sequence[str | None]) -> bool:
    """Whether the plan of one of these regions knows the number; where it names its country (the region is None, or it
    is one of those that stories use) it need only be as long as numbers are there."""
    digits = [c for c in written if c.isdigit()]
    if DATE.search(written) or not 8 <= len(digits) <= 15 or max(len(list(row)) for _, row in groupby(digits)) > 5:
        return False
    return any(fits(written, region, strictly=region is not None and "555" not in written) for region in regions)


def fits(written: str, region: str | None, *, strictly: bool) -> bool:
    try:
        number = phonenumbers.parse(written, region)
    except phonenumbers.NumberParseException:
        return False
    return phonenumbers.is_valid_number(number) if strictly else phonenumbers.is_possible_number(number)

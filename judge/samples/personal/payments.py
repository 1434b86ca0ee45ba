"""Find payment cards and bank accounts, by their check digits."""

from __future__ import annotations

from collections.abc import Iterator

from stdnum import iban, luhn

from judge.samples.personal.findings import Finding, compile_pattern, match_findings
from judge.samples.personal.kinds import Wanted

CARD = (
    compile_pattern(r"\b[0-9]{13,19}\b"),
    compile_pattern(r"\b[0-9]{4}(?: [0-9]{4}){3}(?: [0-9]{3})?\b"),
    compile_pattern(r"\b[0-9]{4}(?:-[0-9]{4}){3}(?:-[0-9]{3})?\b"),
    compile_pattern(r"\b3[0-9]{3}[ -][0-9]{6}[ -][0-9]{4,5}\b"),
)
ISSUERS = compile_pattern(
    r"^(?:4[0-9]{12}(?:[0-9]{3}){0,2}|5[1-5][0-9]{14}|2(?:2[2-9]|[3-6][0-9]|7[01])[0-9]{13}|2720[0-9]{12}|3[47][0-9]{13}|"
    r"6(?:011|5[0-9]{2}|4[4-9][0-9])[0-9]{12}|3(?:0[0-5]|[68][0-9])[0-9]{11}|35(?:2[89]|[3-8][0-9])[0-9]{12}|62[0-9]{14,17})$"
)
"""Visa, Mastercard, American Express, Discover, Diners Club, JCB, UnionPay."""

IBAN = compile_pattern(r"\b[A-Z]{2}[0-9]{2}(?: ?[A-Z0-9]{4}){2,7}(?: ?[A-Z0-9]{1,4})?\b")


def find_cards(text: str, wanted: Wanted) -> Iterator[Finding]:
    for pattern in CARD:
        for one in match_findings(pattern, text, "card"):
            digits = "".join(c for c in text[one.start : one.end] if c.isdigit())
            if not in_a_number(text, one) and ISSUERS.search(digits) and luhn.is_valid(digits) and set(digits) - {"0"}:
                yield one


def find_ibans(text: str, wanted: Wanted) -> Iterator[Finding]:
    for match in IBAN.finditer(text):
        start, end = match.span()
        while end > start:
            if iban.is_valid(text[start:end]):
                yield Finding(start, end, "iban")
                break
            end = text.rfind(" ", start, end)  # a word in capitals may follow


def in_a_number(text: str, one: Finding) -> bool:
    """True for digits that are part of a longer figure: 0.4111111111111111, or 4111111111111111.25."""
    before, after = text[max(0, one.start - 2) : one.start], text[one.end : one.end + 2]
    return (before[-1:] in (".", ",") and before[:1].isdigit()) or (after[:1] in (".", ",") and after[1:].isdigit())

"""Search a text for secrets and personal data. Pure; the text without them is judge.samples.removal's.

Formats are looked for, not meanings: keys and tokens of known services, passwords where they are called one, e-mail
addresses, payment cards, bank accounts, telephone numbers. What a pattern brings up is then checked (a card's and an
account's check digits, a telephone number's numbering plan), so that versions, dates, hashes, order numbers and sums
stay where they are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from judge.samples.personal.emails import find_emails
from judge.samples.personal.findings import Finding, compile_pattern, match_findings, merge_overlapping
from judge.samples.personal.ips import find_ips
from judge.samples.personal.keys import find_keys
from judge.samples.personal.kinds import Wanted
from judge.samples.personal.passwords import find_passwords
from judge.samples.personal.payments import find_cards, find_ibans
from judge.samples.personal.phones import find_phones

FINDERS: Mapping[str, Callable[[str, Wanted], Iterator[Finding]]] = {
    "key": find_keys,
    "password": find_passwords,
    "card": find_cards,
    "iban": find_ibans,
    "email": find_emails,
    "phone": find_phones,
    "ip": find_ips,
}


def find(text: str, wanted: Wanted | None = None) -> list[Finding]:
    """What of `text` is secret or personal: in order, apart from each other, in time proportional to its length.

    >>> find("Write to ana@example.com, or call +1 415 555 2671.")
    [Finding(start=9, end=24, kind='email'), Finding(start=34, end=49, kind='phone')]
    >>> find("Version 1.24.0 of 2026-11-20, commit 9f86d081884c7d65, 4.111 % of 1,250,000.00")
    []
    """
    wanted = wanted or Wanted()
    found: list[Finding] = []
    for kind, pattern in wanted.patterns:
        found += match_findings(compile_pattern(pattern), text, kind)
    for kind in wanted.kinds:
        found += FINDERS[kind](text, wanted)
    return merge_overlapping(found, wanted.precedence)

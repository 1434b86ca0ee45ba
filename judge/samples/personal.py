"""Secrets and personal data in a text: where they stand. Pure; the text without them is judge.samples.removal's.

Formats are looked for, not meanings: keys and tokens of known services, passwords where they are called one, e-mail
addresses, payment cards, bank accounts, telephone numbers. Patterns run on RE2, so a text of any shape takes time in
proportion to its length; what a pattern brings up is then checked (a card's and an account's check digits, a
telephone number's numbering plan), so that versions, dates, hashes, order numbers and sums stay where they are.
"""

from __future__ import annotations

import base64
import binascii
import ipaddress
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from importlib import import_module
from itertools import groupby
from typing import Any

import phonenumbers
import re2
from django.utils.translation import gettext_noop
from stdnum import iban, luhn

USUAL = (
    *(gettext_noop("key"), gettext_noop("password"), gettext_noop("card"), gettext_noop("iban"), gettext_noop("email")),
    gettext_noop("phone"),
)
"""The kinds that are looked for unless told otherwise; of two that overlap the first here names the finding."""

KINDS = (*USUAL, "ip")
"""All there are. Addresses of machines look like versions of programs, and are looked for on request alone."""

REGIONS = ("US", "GB", "DE", "FR", "IT", "NL", "AU", "IN")
"""Whose ways of writing a telephone number without its country are known."""

OPTIONS = re2.Options()
OPTIONS.log_errors = False


@dataclass(frozen=True, order=True)
class Finding:
    """Characters `start` to `end` (half open) of a text are of this kind."""

    start: int
    end: int
    kind: str


@dataclass(frozen=True)
class Wanted:
    """What is looked for."""

    kinds: tuple[str, ...] = USUAL
    regions: tuple[str, ...] = REGIONS
    patterns: tuple[tuple[str, str], ...] = ()
    """(kind, pattern in RE2's syntax): what this installation has besides, such as numbers of customers. The first
    group is the finding, where a pattern has one."""

    def __post_init__(self) -> None:
        """Raises ValueError for a kind that there is none of, or a pattern that RE2 does not take."""
        for kind in self.kinds:
            if kind not in KINDS:
                raise ValueError(f"{kind!r} is no kind of personal data: there are {', '.join(KINDS)}.")
        for kind, pattern in self.patterns:
            try:
                compiled(pattern)
            except re2.error as error:
                raise ValueError(f"the pattern of {kind!r} is not one that RE2 takes: {error}") from error


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
        found += taken(compiled(pattern), text, kind)
    for kind in wanted.kinds:
        found += FINDERS[kind](text, wanted)
    return apart(found, [*(kind for kind, _ in wanted.patterns), *KINDS])


def apart(found: Iterable[Finding], order: Sequence[str]) -> list[Finding]:
    """Findings that overlap as one, which covers both and is called by whichever kind comes first in `order`.

    >>> apart([Finding(0, 5, "email"), Finding(3, 8, "key"), Finding(8, 9, "email")], KINDS)
    [Finding(start=0, end=8, kind='key'), Finding(start=8, end=9, kind='email')]
    """
    merged: list[Finding] = []
    for one in sorted(found):
        if merged and one.start < merged[-1].end:
            last = merged.pop()
            kind = min(last.kind, one.kind, key=order.index)
            merged.append(Finding(last.start, max(last.end, one.end), kind))
        elif one.end > one.start:
            merged.append(one)
    return merged


@lru_cache(maxsize=256)
def compiled(pattern: str) -> Any:
    return re2.compile(pattern, OPTIONS)


def taken(pattern: Any, text: str, kind: str, holds: Callable[[str], bool] | None = None) -> Iterator[Finding]:
    """Each match, or its first group where the pattern has one, as far as it holds."""
    group = 1 if pattern.groups else 0
    for match in pattern.finditer(text):
        start, end = match.span(group)
        if start >= 0 and (holds is None or holds(match[group])):
            yield Finding(start, end, kind)


# Keys and tokens: by the form that their service gives them. Each form stands once: in detect-secrets, or in LACKING.

SERVICES = {
    "aws": "AWSKeyDetector",
    "azure_storage_key": "AzureStorageKeyDetector",
    "discord": "DiscordBotTokenDetector",
    "github_token": "GitHubTokenDetector",
    "gitlab_token": "GitLabTokenDetector",
    "jwt": "JwtTokenDetector",
    "mailchimp": "MailchimpDetector",
    "pypi_token": "PypiTokenDetector",
    "sendgrid": "SendGridDetector",
    "slack": "SlackDetector",
    "square_oauth": "SquareOAuthDetector",
    "telegram_token": "TelegramBotTokenDetector",
    "twilio": "TwilioKeyDetector",
}
"""Modules and classes of detect-secrets whose patterns are used. Those left out match words as well, or know fewer of a
service's forms than LACKING does (OpenAI, Stripe, npm)."""

LACKING = (
    r"sk-[A-Za-z0-9_-]{20,}",  # OpenAI, Anthropic, OpenRouter and those who follow them
    r"tb-[A-Za-z0-9_-]{43}",  # ours
    r"github_pat_[A-Za-z0-9_]{22,}",
    r"xoxe-[A-Za-z0-9-]{10,}",
    r"xapp-[0-9]-[A-Za-z0-9-]{10,}",
    r"[rsp]k_(?:live|test)_[0-9A-Za-z]{10,}",
    r"whsec_[0-9A-Za-z+/=]{20,}",
    r"AIza[0-9A-Za-z_-]{35}",
    r"GOCSPX-[0-9A-Za-z_-]{20,}",
    r"ya29\.[0-9A-Za-z_-]{20,}",
    r"hf_[0-9A-Za-z]{30,}",
    r"npm_[0-9A-Za-z]{36}",
    r"dop_v1_[0-9a-f]{64}",
    r"shp(?:at|ca|pa|ss)_[0-9a-fA-F]{32}",
)
"""Forms that detect-secrets does not know."""

BEARER = r"(?i)\bbearer\s+([A-Za-z0-9._~+/-]{20,}=*)"

BASIC = r"""(?i)\bauthorization["']?\s{0,3}[:=]\s{0,3}["']?basic\s{1,3}([A-Za-z0-9+/]{6,}={0,2})"""

BLOCKS = (  # whole; with its end cut off; of PuTTY
    r"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----(?s:.*?)-----END [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----",
    r"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----(?:(?:\s|\\[nr])*[A-Za-z0-9+/=]{16,})*"
    r"(?:(?:\s|\\[nr])*[A-Za-z0-9+/=]+$)?",
    r"PuTTY-User-Key-File-[0-9]+:(?s:.*?)Private-MAC: [0-9a-f]+",
)


@lru_cache
def tokens() -> tuple[str, ...]:
    """The pattern of every form, as RE2 takes it: from where a word begins to where it ends."""
    forms = [(pattern, False) for pattern in LACKING]
    for module, name in SERVICES.items():
        detector = getattr(import_module(f"detect_secrets.plugins.{module}"), name)
        forms += [(as_re2(one.pattern), bool(one.flags & re.IGNORECASE)) for one in detector.denylist]
    word = r"(?:^|[^A-Za-z0-9_])((?:{})[A-Za-z0-9_-]*)"
    return tuple(("(?i)" if any_case else "") + word.replace("{}", form) for form, any_case in forms)


def as_re2(pattern: str) -> str:
    """A pattern that ends before the end of a word, without the look-ahead and the bound: RE2 knows neither, and the
    rest of the word belongs to the finding.

    >>> as_re2(r"glrt-[a-z]{50,1024}(?!\\w)")
    'glrt-[a-z]{50,}'
    """
    return re.sub(r"(?:(\{\d+),\d+\})?\(\?!\\w\)", lambda end: f"{end[1]},}}" if end[1] else "", pattern)


def keys(text: str, wanted: Wanted) -> Iterator[Finding]:
    for pattern in BLOCKS:
        yield from taken(compiled(pattern), text, "key")
    for pattern in (*tokens(), BEARER):
        yield from taken(compiled(pattern), text, "key", looks_drawn)
    yield from taken(compiled(BASIC), text, "key", holds_a_login)


def holds_a_login(value: str) -> bool:
    """name:password, in base64."""
    try:
        return b":" in base64.b64decode(value + "=" * (-len(value) % 4), validate=True)
    except binascii.Error:
        return False


def looks_drawn(value: str) -> bool:
    """Drawn by chance, as far as one can see: with a digit, and of more than a few characters.

    >>> looks_drawn("sk-learn-and-other-long-names"), looks_drawn("sk-a1B2c3D4e5F6g7H8i9J0")
    (False, True)
    """
    return any(c.isdigit() for c in value) and len(set(value)) > 6


# Passwords: what is called one, and what stands between a name and @ in an address.

NAMES = r"passwords?|passwd|passphrase|passwort|pwd|kennwort|contraseña|mot[ _]de[ _]passe"
NAMES_OF_TOKENS = (
    r"secret|secret[_-]?(?:access[_-]?)?key|api[_-]?key|api[_-]?token|access[_-]?key|access[_-]?token|auth[_-]?token|refresh[_-]?token|"
    r"client[_-]?secret|private[_-]?key|encryption[_-]?key|signing[_-]?key|token|credentials?"
)
QUOTED = r"""(?:"([^"\n]{4,200})"|'([^'\n]{4,200})'|`([^`\n]{4,200})`)"""
BARE = r"""([^\s"'`,;<>(){}\[\]&]{4,200})"""
SPOKEN = rf"(?i)\b(?:{NAMES}|pass[ _]?code)\s+(?:is|was|ist|lautet|to)\s*:?\s+(?:{QUOTED}|{BARE})"
IN_ADDRESS = r"[A-Za-z][A-Za-z0-9+.-]{1,20}://[^\s:/?#\[\]@\"'<>]{0,128}:([^\s/?#\[\]@\"'<>]{1,256})@"


def assigned(names: str) -> str:
    """The pattern of a value that is given to one of these names, as code, settings and forms write it."""
    return (
        rf"""(?i)(?:^|[^A-Za-z0-9])[A-Za-z0-9_.-]{{0,40}}?(?:{names})[_-]?[0-9]{{0,2}}["']?"""
        rf"""\s{{0,3}}(?::=|=>|=|:)\s{{0,3}}(?:{QUOTED}|{BARE})"""
    )


STANDS_FOR = compiled(
    r"(?i)^(?:(?:[a-z]+[_ -])*(?:your|example|placeholder|required|optional|password|passwd|passphrase|token|api_?key|"
    r"changeme)(?:[_ -][a-z]+)*|none|null|nil|true|false|string|str|bytes|text|varchar|char|undefined|redacted|hidden|"
    r"input|prompt|env|self|x{3,}|[*.•…]{3,}|[<{%$\[].*|.*[$]\{.*)$"
)
"""What stands where a password would: the name of a variable, of a type, a placeholder."""

CODE = compiled(r"^[A-Za-z_][A-Za-z_]*(?:\.[A-Za-z_][A-Za-z0-9_]*)*[.:!?]*$")
A_NAME = compiled(rf"(?i)(?:^|[._-])(?:{NAMES})[0-9]{{0,2}}$")
A_SECRET_NAME = compiled(rf"(?i)(?:^|[._-])(?:{NAMES_OF_TOKENS})[0-9]{{0,2}}$")


A_NUMBER_OF = compiled(r"(?i)(?:^|[^a-z])(?:max|min|num|total|count|limit)(?:imum)?(?:[._-]?[a-z]+)*[._-]?tokens?$")
"""What counts tokens is called like one."""


def passwords(text: str, wanted: Wanted) -> Iterator[Finding]:
    yield from taken(compiled(IN_ADDRESS), text, "password", lambda value: not STANDS_FOR.search(value))
    for names, is_secret in ((NAMES, is_password), (NAMES_OF_TOKENS, is_token)):
        for match in compiled(assigned(names)).finditer(text):
            named = match[0].partition("=")[0].partition(":")[0].strip(" \"'")
            if not A_NUMBER_OF.search(named) and (one := value_of(match, text, is_secret)):
                yield one
    for match in compiled(SPOKEN).finditer(text):
        if one := value_of(match, text, is_password):
            yield one


def value_of(match: Any, text: str, is_secret: Callable[[str, bool], bool]) -> Finding | None:
    """The value that the match assigns: one of its three quoted groups, or the bare one after them."""
    for group in range(1, 5):
        start, end = match.span(group)
        if start < 0:
            continue
        is_bare = group == 4
        while is_bare and end > start and text[end - 1] in ".,:!?*":  # the sentence's
            end -= 1
        calls = is_bare and text[end : end + 1] in ("(", "[")
        if end - start >= 4 and not calls and is_secret(text[start:end], is_bare):
            return Finding(start, end, "password")
    return None


def is_password(value: str, is_bare: bool) -> bool:
    """What may be a real password: no placeholder, and without quotes no mere word of a sentence or of a program.

    >>> [is_password(value, True) for value in ("hunter2", "required", "form.password", "${PASSWORD}")]
    [True, False, False, False]
    """
    return not STANDS_FOR.search(value) and not (is_bare and CODE.search(value))


def is_token(value: str, is_bare: bool) -> bool:
    """Longer than a password, and drawn by chance: `token` and `secret` are common words.

    >>> is_token("4096", True), is_token("9f86d081884c7d659a2feaa0", True)
    (False, True)
    """
    return len(value) >= 12 and looks_drawn(value) and any(c.isalpha() for c in value) and is_password(value, is_bare)


def is_named_secret(name: object, value: object, wanted: Wanted) -> bool:
    """True for a member of an object whose name says that its value is a password, or a token that looks like one."""
    if not (isinstance(name, str) and isinstance(value, str) and value and "password" in wanted.kinds):
        return False
    if A_NAME.search(name):
        return is_password(value, False)
    return bool(A_SECRET_NAME.search(name)) and not A_NUMBER_OF.search(name) and is_token(value, False)


# E-mail addresses.

EMAIL = compiled(
    r"[\p{L}0-9_%+][\p{L}0-9._%+'-]{0,63}@(?:[\p{L}0-9](?:[\p{L}0-9-]{0,61}[\p{L}0-9])?\.)+(\p{L}{2,24}|xn--[a-z0-9-]{2,59})"
)
IN_ADDRESS_YET = compiled(r"://[^\s/@]*$")
FILES = (
    "png",
    "jpg",
    "jpeg",
    "gif",
    "svg",
    "webp",
    "ico",
    "js",
    "ts",
    "css",
    "py",
    "json",
    "service",
    "timer",
    "target",
)
"""What ends the name of a file or a unit: icon@2x.png, getty@tty1.service."""


def emails(text: str, wanted: Wanted) -> Iterator[Finding]:
    for match in EMAIL.finditer(text):
        start, end = match.span()
        path = text[end : end + 1] == ":" and text[end + 1 : end + 2].strip() != ""  # git@host:path, a place to copy to
        named = IN_ADDRESS_YET.search(
            text[max(0, start - 200) : start]
        )  # name:password@host, of which host is no secret
        if not named and match[1].casefold() not in FILES and not (path and match[0].startswith("git@")):
            yield Finding(start, end, "email")


# Cards and accounts: check digits.

CARD = (
    compiled(r"\b[0-9]{13,19}\b"),
    compiled(r"\b[0-9]{4}(?: [0-9]{4}){3}(?: [0-9]{3})?\b"),
    compiled(r"\b[0-9]{4}(?:-[0-9]{4}){3}(?:-[0-9]{3})?\b"),
    compiled(r"\b3[0-9]{3}[ -][0-9]{6}[ -][0-9]{4,5}\b"),
)
ISSUERS = compiled(
    r"^(?:4[0-9]{12}(?:[0-9]{3}){0,2}|5[1-5][0-9]{14}|2(?:2[2-9]|[3-6][0-9]|7[01])[0-9]{13}|2720[0-9]{12}|3[47][0-9]{13}|"
    r"6(?:011|5[0-9]{2}|4[4-9][0-9])[0-9]{12}|3(?:0[0-5]|[68][0-9])[0-9]{11}|35(?:2[89]|[3-8][0-9])[0-9]{12}|62[0-9]{14,17})$"
)
"""Visa, Mastercard, American Express, Discover, Diners Club, JCB, UnionPay."""

IBAN = compiled(r"\b[A-Z]{2}[0-9]{2}(?: ?[A-Z0-9]{4}){2,7}(?: ?[A-Z0-9]{1,4})?\b")


def cards(text: str, wanted: Wanted) -> Iterator[Finding]:
    for pattern in CARD:
        for one in taken(pattern, text, "card"):
            digits = "".join(c for c in text[one.start : one.end] if c.isdigit())
            if not in_a_number(text, one) and ISSUERS.search(digits) and luhn.is_valid(digits) and set(digits) - {"0"}:
                yield one


def in_a_number(text: str, one: Finding) -> bool:
    """True for digits that are part of a longer figure: 0.4111111111111111, or 4111111111111111.25."""
    before, after = text[max(0, one.start - 2) : one.start], text[one.end : one.end + 2]
    return (before[-1:] in (".", ",") and before[:1].isdigit()) or (after[:1] in (".", ",") and after[1:].isdigit())


def ibans(text: str, wanted: Wanted) -> Iterator[Finding]:
    for match in IBAN.finditer(text):
        start, end = match.span()
        while end > start:
            if iban.is_valid(text[start:end]):
                yield Finding(start, end, "iban")
                break
            end = text.rfind(" ", start, end)  # a word in capitals may follow


# Telephone numbers: by the numbering plans.

WITH_COUNTRY = compiled(r"\+[0-9][0-9 ().\-/\x{2011}\x{2013}]{5,24}[0-9]")
NORTH_AMERICAN = (
    compiled(r"\b(?:1[ .-])?[2-9][0-9]{2}[ .-][2-9][0-9]{2}[ .-][0-9]{4}\b"),
    compiled(r"\([2-9][0-9]{2}\) ?[2-9][0-9]{2}[ .-][0-9]{4}\b"),
)
WITH_ZERO = (
    compiled(r"\b0[0-9]{1,5}(?:[ ./-][0-9]{2,9}){1,5}\b"),
    compiled(r"\(0[0-9]{1,4}\)[ -]?[0-9]{2,8}(?:[ .-][0-9]{2,8}){0,3}\b"),
)
CALLED = compiled(
    r"(?i)\b(?:phone|telephone|tel|mobile|cell|cellphone|whatsapp|fax|sms|(?:call|text|ring|reach) me(?: at| on)?|"
    r"telefon|handy|mobil|téléphone|teléfono|móvil)\b[ .:#]{0,3}(?:no\.?|number|nr\.?|nummer|numéro|número)?"
    r"(?: is| ist| est| es)?[ :#]{0,3}([0-9+(][0-9 ().\-/]{5,20}[0-9])"
)


def phones(text: str, wanted: Wanted) -> Iterator[Finding]:
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


DATE = compiled(r"^(?:[12][0-9]{3}[-./][0-9]{1,2}[-./][0-9]{1,2}|[0-9]{1,2}[-./][0-9]{1,2}[-./][0-9]{4})\b")


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


# Addresses of machines.

IPV4 = compiled(r"\b(?:[0-9]{1,3}\.){3}[0-9]{1,3}\b")
IPV6 = compiled(r"(?i)\b[0-9a-f]{1,4}(?:::?[0-9a-f]{1,4}){2,7}\b")


def ips(text: str, wanted: Wanted) -> Iterator[Finding]:
    for pattern in (IPV4, IPV6):
        yield from taken(pattern, text, "ip", is_public)


def is_public(written: str) -> bool:
    """
    >>> is_public("8.8.8.8"), is_public("192.168.0.1"), is_public("1.2.3.400")
    (True, False, False)
    """
    try:
        return ipaddress.ip_address(written).is_global
    except ValueError:
        return False


FINDERS: Mapping[str, Callable[[str, Wanted], Iterator[Finding]]] = {
    "key": keys,
    "password": passwords,
    "card": cards,
    "iban": ibans,
    "email": emails,
    "phone": phones,
    "ip": ips,
}

"""Find keys and tokens, by the form that their service gives them.

Each form stands once: in detect-secrets, or in LACKING.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Iterator
from functools import lru_cache
from importlib import import_module

from judge.samples.personal.findings import Finding, compile_pattern, match_findings
from judge.samples.personal.kinds import Wanted

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


def find_keys(text: str, wanted: Wanted) -> Iterator[Finding]:
    for pattern in BLOCKS:
        yield from match_findings(compile_pattern(pattern), text, "key")
    for pattern in (*tokens(), BEARER):
        yield from match_findings(compile_pattern(pattern), text, "key", looks_drawn)
    yield from match_findings(compile_pattern(BASIC), text, "key", holds_a_login)


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

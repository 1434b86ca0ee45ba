"""Kinds of secrets and personal data, and which of them are looked for."""

from __future__ import annotations

from dataclasses import dataclass

import re2
from django.utils.translation import gettext_noop

from judge.samples.personal.findings import compile_pattern

USUAL = (
    *(gettext_noop("key"), gettext_noop("password"), gettext_noop("card"), gettext_noop("iban"), gettext_noop("email")),
    gettext_noop("phone"),
)
"""The kinds that are looked for unless told otherwise, in their precedence."""

KINDS = (*USUAL, "ip")
"""All there are. Addresses of machines look like versions of programs, and are looked for on request alone."""

REGIONS = ("US", "GB", "DE", "FR", "IT", "NL", "AU", "IN")
"""Whose ways of writing a telephone number without its country are known."""


@dataclass(frozen=True)
class Wanted:
    """What is looked for."""

    kinds: tuple[str, ...] = USUAL
    regions: tuple[str, ...] = REGIONS
    patterns: tuple[tuple[str, str], ...] = ()
    """(kind, pattern in RE2's syntax): what this installation has besides, such as numbers of customers. The first
    group is the finding, where a pattern has one."""

    @property
    def all_kinds(self) -> list[str]:
        """Every kind that is looked for, this installation's own last."""
        return [*self.kinds, *(kind for kind, _ in self.patterns)]

    @property
    def precedence(self) -> list[str]:
        """Of two findings that overlap the kind that comes first here names both."""
        return [*(kind for kind, _ in self.patterns), *KINDS]

    def __post_init__(self) -> None:
        """Raises ValueError for a kind that there is none of, or a pattern that RE2 does not take."""
        for kind in self.kinds:
            if kind not in KINDS:
                raise ValueError(f"{kind!r} is no kind of personal data: there are {', '.join(KINDS)}.")
        for kind, pattern in self.patterns:
            try:
                compile_pattern(pattern)
            except re2.error as error:
                raise ValueError(f"the pattern of {kind!r} is not one that RE2 takes: {error}") from error

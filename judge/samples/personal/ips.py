"""Find addresses of machines that are reached from outside."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator

from judge.samples.personal.findings import Finding, compile_pattern, match_findings
from judge.samples.personal.kinds import Wanted

IPV4 = compile_pattern(r"\b(?:[0-9]{1,3}\.){3}[0-9]{1,3}\b")
IPV6 = compile_pattern(r"(?i)\b[0-9a-f]{1,4}(?:::?[0-9a-f]{1,4}){2,7}\b")


def find_ips(text: str, wanted: Wanted) -> Iterator[Finding]:
    for pattern in (IPV4, IPV6):
        yield from match_findings(pattern, text, "ip", is_public)


def is_public(written: str) -> bool:
    """
    >>> is_public("8.8.8.8"), is_public("192.168.0.1"), is_public("1.2.3.400")
    (True, False, False)
    """
    try:
        return ipaddress.ip_address(written).is_global
    except ValueError:
        return False

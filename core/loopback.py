"""This machine as its own network sees it: the addresses behind `localhost`, and the name that an address is given.

Passkeys belong to a name and never to a number, so people are sent to the name."""

from __future__ import annotations

import ipaddress

NAME = "localhost"
ADDRESSES = ("127.0.0.1", "::1")
"""Where a browser looks for NAME, whatever the machine's own list of hosts says (RFC 6761)."""

EVERYWHERE = ("", "0.0.0.0", "::")  # noqa: S104  # they are compared, and not listened on


def is_address(host: str) -> bool:
    """Whether `host` is a number, as in 127.0.0.1 or [::1], and no name.

    >>> is_address("127.0.0.1"), is_address("[::1]"), is_address("localhost")
    (True, True, False)
    """
    try:
        ipaddress.ip_address(host.strip("[]"))
    except ValueError:
        return False
    return True


def is_loopback(host: str) -> bool:
    """Whether `host` is this machine and no other can reach it.

    >>> [is_loopback(host) for host in ("localhost", "127.0.0.1", "127.0.0.2", "[::1]", "10.0.0.7", "talk.example")]
    [True, True, True, True, False, False]
    """
    return host == NAME or (is_address(host) and ipaddress.ip_address(host.strip("[]")).is_loopback)


def is_reached_by_name(host: str) -> bool:
    """Whether what listens on `host` is found at `localhost`."""
    return host in (NAME, *ADDRESSES, *EVERYWHERE)


def authority(host: str) -> str:
    """`host`, where web listens, as a browser on this machine writes it into an address.

    >>> authority("127.0.0.1"), authority(""), authority("10.0.0.7"), authority("fd00::7")
    ('localhost', 'localhost', '10.0.0.7', '[fd00::7]')
    """
    if is_reached_by_name(host):
        return NAME
    return f"[{host}]" if ":" in host else host

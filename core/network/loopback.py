"""This machine as its own network sees it: the addresses behind `localhost`, and how a browser here finds web.

Passkeys belong to a name and never to a number, so people are sent to the name where web holds all behind it."""

from __future__ import annotations

import errno
import ipaddress

NAME = "localhost"
ADDRESSES = ("127.0.0.1", "::1")
"""Where a browser looks for NAME, whatever the machine's own list of hosts says (RFC 6761)."""

NOT_HERE = {errno.EAFNOSUPPORT, errno.EADDRNOTAVAIL}
"""Why an address of a host is passed over: the machine has no such family, or not this address."""


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


def authority(host: str) -> str:
    """`host`, where web listens, as a browser on this machine writes it into an address; where nothing was said, NAME.

    Of a number it is a number of the same family: web holds no other, and at the other loopback address any program of
    this machine may listen at its port. A browser that was sent to the name could try that one first.

    >>> authority(""), authority("localhost"), authority("127.0.0.1"), authority("0.0.0.0"), authority("10.0.0.7")
    ('localhost', 'localhost', '127.0.0.1', '127.0.0.1', '10.0.0.7')
    >>> authority("::1"), authority("::"), authority("fd00::7")
    ('[::1]', '[::1]', '[fd00::7]')
    """
    host = host.strip("[]")
    if is_address(host) and ipaddress.ip_address(host).is_unspecified:
        host = ADDRESSES[":" in host]
    return f"[{host}]" if ":" in host else host or NAME

"""Read the address that a request comes from, and the network that one guesser has.

Behind a proxy the server that the application runs in fills an address in from X-Forwarded-For, and only where the
proxy is one of FORWARDED_ALLOW_IPS: no header is read here.
"""

from __future__ import annotations

import ipaddress

from core.marked import gettext_noop

UNKNOWN = gettext_noop("an unknown address")


def readable(address: str) -> str:
    """The address, as it is written; UNKNOWN for what is none.

    >>> readable("2001:DB8::0:1"), readable("::ffff:192.0.2.1"), readable("evil\\n")
    ('2001:db8::1', '192.0.2.1', 'an unknown address')
    """
    try:
        ip = ipaddress.ip_address(address)
    except ValueError:
        return UNKNOWN
    return str(getattr(ip, "ipv4_mapped", None) or ip)


def network(address: str) -> str:
    """What one guesser has at least: an IPv4 address, or the 64 bits of IPv6 that every host may vary.

    >>> network("192.0.2.1"), network("2001:db8::1234"), network("")
    ('192.0.2.1', '2001:db8::/64', 'an unknown address')
    """
    told = readable(address)
    if told == UNKNOWN or ":" not in told:
        return told
    return str(ipaddress.IPv6Network((int(ipaddress.IPv6Address(told)) >> 64 << 64, 64)))

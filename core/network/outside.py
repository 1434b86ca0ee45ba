"""Check where an address that a person typed leads: beyond this machine and its network, unless that is allowed."""

from __future__ import annotations

import ipaddress
import socket
from dataclasses import dataclass
from urllib.parse import urlsplit

from django.utils.translation import gettext as _

from core.errors import TalkbackError

TRANSLATED = tuple(map(ipaddress.ip_network, ("64:ff9b::/96", "64:ff9b:1::/48", "2002::/16", "2001::/32")))
"""IPv6 that carries an IPv4 address, which may be one inside."""


class AddressRefused(TalkbackError):
    """An address is none, or leads inside."""

    code, status = "address_refused", 422


@dataclass(frozen=True)
class Target:
    """A host by its name, and the address of it that was checked: what is connected to."""

    scheme: str
    host: str
    port: int
    address: str
    path: str

    @property
    def authority(self) -> str:
        """The host as a request names it."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == {"http": 80, "https": 443}[self.scheme] else f"{host}:{self.port}"

    @property
    def url(self) -> str:
        """The request's address with the checked number in place of the name, which could lead elsewhere by now."""
        address = f"[{self.address}]" if ":" in self.address else self.address
        return f"{self.scheme}://{address}:{self.port}{self.path}"


def resolve(url: str, *, inside: bool, setting: str) -> Target:
    """Look up the host of this URL and check each of its addresses: none may be of this machine or its network, but
    where `inside` allows them, which the setting of that name does. Raises AddressRefused."""
    try:
        parts = urlsplit(url)
        port = parts.port or {"http": 80, "https": 443}.get(parts.scheme, 0)
    except ValueError:
        raise AddressRefused(_("This is no address: write it as https://host/path.")) from None
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.username or parts.password:
        raise AddressRefused(_("Write the address as https://host/path, without a user or password."))
    try:
        found = socket.getaddrinfo(parts.hostname, port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError):
        raise AddressRefused(_("The host %(host)s is not found.") % {"host": parts.hostname}) from None
    addresses = [str(one[4][0]).partition("%")[0] for one in found]
    if not inside and (within := [one for one in addresses if not is_outside(one)]):
        named = parts.hostname if parts.hostname == within[0] else f"{parts.hostname} ({within[0]})"
        raise AddressRefused(
            _("%(host)s is inside this machine or its network. To allow that, start with %(setting)s=1.")
            % {"host": named, "setting": setting}
        )
    path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    return Target(parts.scheme, parts.hostname, port, addresses[0], path)


def is_outside(address: str) -> bool:
    """Whether this is an address of the public Internet.

    >>> is_outside("93.184.215.14"), is_outside("169.254.169.254"), is_outside("::ffff:10.0.0.1")
    (True, False, False)
    >>> is_outside("fec0::1"), is_outside("::127.0.0.1")  # a site's own; IPv4 within IPv6, as it once was
    (False, False)
    """
    ip = ipaddress.ip_address(address)
    ip = getattr(ip, "ipv4_mapped", None) or ip
    is_odd = ip.is_multicast or ip.is_reserved or getattr(ip, "is_site_local", False)
    return ip.is_global and not is_odd and not any(ip in network for network in TRANSLATED)

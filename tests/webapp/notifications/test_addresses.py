"""A webhook posts to the Internet alone, and to the very address that was checked."""

from __future__ import annotations

import re
import socket

import pytest

from core.network import outside
from webapp.notifications.addresses import AddressRefused, resolve

INSIDE = (
    *("127.0.0.1", "10.1.2.3", "172.16.0.1", "192.168.1.1", "169.254.169.254", "100.64.0.1", "0.0.0.0", "224.0.0.1"),
    *("::1", "fe80::1", "fc00::1", "::ffff:127.0.0.1", "64:ff9b::7f00:1", "2002:7f00:1::", "::"),
)


@pytest.fixture
def names(monkeypatch):
    """What the resolver says, by name."""
    known = {"example.org": ["93.184.215.14"]}

    def look_up(host, port, **kwargs):
        if host not in known:
            raise socket.gaierror("unknown")
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, port)) for address in known[host]]

    monkeypatch.setattr(outside.socket, "getaddrinfo", look_up)
    return known


@pytest.mark.parametrize("address", INSIDE)
def test_an_address_inside_is_refused_by_whatever_name(names, address):
    names["evil.example"] = [address]
    with pytest.raises(AddressRefused, match=rf"^evil.example \({re.escape(address)}\) is inside this machine"):
        resolve("https://evil.example/hook")


def test_a_name_with_one_address_inside_is_refused(names):
    names["mixed.example"] = ["93.184.215.14", "127.0.0.1"]
    with pytest.raises(AddressRefused, match=r"127\.0\.0\.1"):
        resolve("https://mixed.example/")


def test_an_operator_may_allow_addresses_inside(names, settings):
    names["chat.internal"] = ["10.1.2.3"]
    settings.WEBHOOKS_INSIDE = True
    assert resolve("http://chat.internal:8080/a").url == "http://10.1.2.3:8080/a"


def test_a_request_goes_to_the_number_that_was_checked_and_names_the_host(names):
    target = resolve("https://example.org/hook?team=a")
    assert target.url == "https://93.184.215.14:443/hook?team=a"
    assert target.authority == "example.org"
    assert resolve("http://example.org:8080").authority == "example.org:8080"


@pytest.mark.parametrize(
    "url",
    ["", "example.org", "ftp://example.org/", "file:///etc/passwd", "https://", "https://a:b@example.org/",
     "https://example.org:99999/", "https://nowhere.example/", "http://[::1/"],
)  # fmt: skip
def test_what_is_no_address_is_refused(names, url):
    with pytest.raises(AddressRefused):
        resolve(url)

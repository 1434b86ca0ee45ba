"""Web listens at each address of its host, and at both of localhost."""

from __future__ import annotations

import asyncio
import errno
import os
import socket
from contextlib import ExitStack

import pytest

from installation.diagnosis import free_port
from webapp.serving import web_server


@pytest.mark.parametrize("is_shared", [True, False])
@pytest.mark.parametrize("host", [pytest.param("::", marks=pytest.mark.ipv6), "0.0.0.0", "127.0.0.1"])
async def test_one_process_and_several_listen_where_asyncio_does(host, is_shared):
    theirs = await asyncio.get_running_loop().create_server(asyncio.Protocol, host, free_port())
    async with theirs:
        expected = {(one.family, one.getsockname()[0]) for one in theirs.sockets}
    ours = web_server.listeners(host, free_port(), is_shared=is_shared)
    try:
        assert {(one.family, one.getsockname()[0]) for one in ours} == expected
        v6 = [one for one in ours if one.family == socket.AF_INET6]
        assert all(one.getsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY) for one in v6)
    finally:
        for one in ours:
            one.close()


@pytest.mark.ipv6
@pytest.mark.parametrize("is_shared", [True, False])
def test_a_host_of_two_addresses_is_listened_at_on_both_and_one_of_another_machine_is_passed_over(
    monkeypatch, is_shared
):
    port, of_one = free_port(), socket.getaddrinfo
    names = ("::1", "127.0.0.1", "192.0.2.1")  # the last is of no machine: for documents alone
    monkeypatch.setattr(
        socket,
        "getaddrinfo",
        lambda host, *rest, **more: [one for name in names for one in of_one(name, *rest, **more)],
    )
    with ExitStack() as open_ones:
        ours = [open_ones.enter_context(one) for one in web_server.listeners("two.test", port, is_shared=is_shared)]
        assert [one.getsockname()[:2] for one in ours] == [("::1", port), ("127.0.0.1", port)]


@pytest.mark.ipv6
def test_at_localhost_both_loopback_addresses_are_listened_at_whatever_the_list_of_hosts_says(monkeypatch):
    of_one = socket.getaddrinfo
    monkeypatch.setattr(
        socket,
        "getaddrinfo",
        lambda host, *rest, **more: of_one("127.0.0.1" if host == "localhost" else host, *rest, **more),
    )
    with ExitStack() as open_ones:
        ours = [open_ones.enter_context(one) for one in web_server.listeners("localhost", free_port(), is_shared=False)]
        assert {one.getsockname()[0] for one in ours} == {"127.0.0.1", "::1"}


@pytest.mark.parametrize(("method", "wrong"), [("__init__", errno.EAFNOSUPPORT), ("bind", errno.EADDRNOTAVAIL)])
def test_a_machine_without_ipv6_listens_at_localhost_with_the_one_address_that_it_has(monkeypatch, method, wrong):
    port, of_any = free_port(), getattr(socket.socket, method)

    def refuse(one, *said):
        if said[0] == socket.AF_INET6 if method == "__init__" else "::1" in said[0]:
            raise OSError(wrong, os.strerror(wrong))
        of_any(one, *said)

    monkeypatch.setattr(socket.socket, method, refuse)
    with ExitStack() as open_ones:
        ours = [open_ones.enter_context(one) for one in web_server.listeners("localhost", port, is_shared=False)]
        assert [one.getsockname()[0] for one in ours] == ["127.0.0.1"]


def test_a_port_is_shared_where_both_say_so_and_taken_otherwise():
    port = free_port()
    with ExitStack() as open_ones:
        for _ in range(2):
            for one in web_server.listeners("localhost", port, is_shared=True):
                open_ones.enter_context(one).listen()
        with pytest.raises(SystemExit, match=f"Web cannot listen on localhost, port {port}: .*in use"):
            web_server.listeners("localhost", port, is_shared=False)

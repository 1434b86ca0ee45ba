"""Which pages may open a socket: ours, by scheme, host and port; and what the others, and lost paths, are told."""

from __future__ import annotations

import logging

import pytest

from tests.sockets import Tab

pytestmark = pytest.mark.django_db(transaction=True, serialized_rollback=True)


@pytest.mark.parametrize(
    ("scheme", "host", "origin", "is_taken"),
    [
        ("ws", "127.0.0.1:8000", "http://127.0.0.1:8000", True),
        ("ws", "127.0.0.1:8000", "http://127.0.0.1:9000", False),  # another program of the same machine
        ("ws", "127.0.0.1:8000", "http://127.0.0.1", False),
        ("ws", "127.0.0.1:8000", "https://127.0.0.1:8000", False),
        ("ws", "127.0.0.1:8000", "http://localhost:8000", False),  # a name of ours, and not the one that was asked
        ("ws", "[::1]:8000", "http://[::1]:8000", True),
        ("ws", "localhost", "http://localhost", True),
        ("ws", "localhost", "http://localhost:80", True),  # the same port, said
        ("wss", "localhost", "https://localhost", True),
        ("wss", "localhost", "https://localhost:443", True),
        ("wss", "localhost", "http://localhost", False),
        ("wss", "localhost", "https://LOCALHOST", True),
        ("ws", "localhost", "https://talk.example.org", True),  # CSRF_TRUSTED_ORIGINS, from here on
        ("ws", "localhost", "https://talk.example.org:8443", False),
        ("ws", "localhost", "http://talk.example.org", False),
        ("ws", "localhost", "https://a.teams.example.org:8443", True),
        ("ws", "localhost", "https://a.teams.example.org", False),
        ("ws", "localhost", "https://ateams.example.org:8443", False),
        ("ws", "localhost", "https://talk.example.org.evil.example", False),
        ("ws", "localhost", "http://localhost@evil.example", False),
        ("ws", "localhost", "http://localhost:port", False),
        ("ws", "localhost", "null", False),
        ("ws", "localhost", "", False),
        ("ws", "localhost", None, False),
    ],
)
async def test_a_socket_is_for_pages_of_the_same_scheme_host_and_port(
    operator, settings, scheme, host, origin, is_taken
):
    settings.CSRF_TRUSTED_ORIGINS = ["https://talk.example.org", "https://*.teams.example.org:8443"]
    async with Tab("/ws/console/", operator, scheme=scheme, host=host, origin=origin) as board:
        assert board.is_open is is_taken


async def test_a_header_that_says_https_counts_from_a_trusted_proxy_alone(operator, settings):
    said = {"origin": "https://localhost", "more": [(b"x-forwarded-proto", b"https")]}
    async with Tab("/ws/console/", operator, **said) as board:
        assert not board.is_open  # uvicorn, which knows who sent it, turns it into the scheme; all others are nothing
    settings.SECURE_PROXY_SSL_HEADER = ("HTTP_X_FORWARDED_PROTO", "https")
    async with Tab("/ws/console/", operator, **said) as board:
        assert board.is_open


async def test_every_host_allowed_is_not_every_origin(operator, settings):
    settings.ALLOWED_HOSTS = ["*"]
    async with Tab("/ws/console/", operator, host="talk.example.org", origin="http://talk.example.org") as board:
        assert board.is_open
    for origin in ("http://elsewhere.example", None):
        async with Tab("/ws/console/", operator, host="talk.example.org", origin=origin) as board:
            assert not board.is_open


async def test_a_refused_page_is_named_in_the_log_with_what_to_set(operator, caplog):
    async with Tab("/ws/console/", operator, origin="https://talk.example.org"):
        pass
    (line,) = [one for one in caplog.records if one.name == "webapp.serving.handshakes"]
    assert "'https://talk.example.org' was refused: this is http://localhost." in line.getMessage()
    assert "CSRF_TRUSTED_ORIGINS" in line.getMessage()


@pytest.mark.parametrize(
    ("path", "host"),
    [
        ("/ws/nothing/", "localhost"),
        ("/ws/", "localhost"),
        ("/", "localhost"),
        ("/ws/chat/no-number/", "localhost"),
        ("/ws/console/", "elsewhere.example"),
        ("/ws/nothing/", "elsewhere.example"),
        ("/ws/console/", "a b"),
    ],
)
async def test_lost_paths_and_unknown_hosts_are_refused_and_write_no_traceback(operator, caplog, path, host):
    with caplog.at_level(logging.DEBUG):
        async with Tab(path, operator, host=host, origin=f"http://{host}") as tab:
            assert tab.answer == {"type": "websocket.close"}
    assert not [line for line in caplog.records if line.exc_info]

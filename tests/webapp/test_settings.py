"""Under which names the application may be asked."""

import pytest

from webapp.settings import allowed_hosts

HERE = ["localhost", "127.0.0.1", "[::1]"]


@pytest.mark.parametrize(
    ("named", "listens", "hosts"),
    [
        ("", "", HERE),
        (" talk.example.org, ,", "127.0.0.1", ["talk.example.org", "127.0.0.1", *HERE]),
        ("talk.example.org", "0.0.0.0", ["talk.example.org", *HERE]),
        ("", "192.0.2.7", ["192.0.2.7", *HERE]),
        ("", "2001:db8::7", ["[2001:db8::7]", *HERE]),
        ("", "::", HERE),
    ],
)
def test_this_machine_is_always_allowed_beside_what_is_named(named, listens, hosts):
    assert allowed_hosts(named, listens) == hosts

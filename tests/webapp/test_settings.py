"""What the environment may say, and under which names the application may be asked."""

import pytest
from django.core.exceptions import ImproperlyConfigured

from webapp.settings import allowed_hosts, yes_or_no

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


@pytest.mark.parametrize(("said", "means"), [("1", True), ("0", False), ("", None)])
def test_a_yes_or_no_is_one_nought_or_nothing(monkeypatch, said, means):
    monkeypatch.setenv("JUDGE_TEACHES", said)
    assert yes_or_no("JUDGE_TEACHES") is means


@pytest.mark.parametrize("said", ["no", "true", "01", "2"])
def test_anything_else_is_an_error_that_says_what_it_takes(monkeypatch, said):
    monkeypatch.setenv("JUDGE_TEACHES", said)
    with pytest.raises(ImproperlyConfigured, match=f"JUDGE_TEACHES is '{said}': it takes 1 for yes, 0 for no"):
        yes_or_no("JUDGE_TEACHES")

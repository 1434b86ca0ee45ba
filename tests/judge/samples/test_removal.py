"""What is taken out of a text, what stands in its place, and what stays."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from judge.samples.personal.kinds import Wanted
from judge.samples.removal import Remover
from tests.judge.samples.test_personal import HELD, KEY_BLOCK


def test_a_name_and_a_password_in_an_address_leave_the_host():
    assert Remover().clean("https://bob:s3cr3t@example.com/x", "request") == "https://bob:[password 1]@example.com/x"


def test_an_installation_has_patterns_of_its_own():
    wanted = Wanted((), patterns=(("customer", r"\bC-([0-9]{6})\b"),))
    assert Remover(wanted).clean("Customer C-123456 called.", "request") == "Customer C-[customer 1] called."


def test_the_same_value_has_the_same_placeholder_in_every_text():
    remover = Remover()
    said = remover.clean("I am ana@example.com, my boss is bo@example.com.", "request")
    replied = remover.clean("Dear bo@example.com, ANA@example.com says hello.", "reply")
    assert said == "I am [email 1], my boss is [email 2]."
    assert replied == "Dear [email 2], [email 1] says hello."
    assert remover.told == [
        {"where": "reply", "kind": "email", "count": 2},
        {"where": "request", "kind": "email", "count": 2},
    ]


def test_a_password_is_known_again_where_nothing_calls_it_one():
    remover = Remover()
    remover.learn(["My password is hunter2.", "I noted hunter2 for you, not hunter22."])
    assert remover.clean("I noted hunter2 for you, not hunter22.", "reply") == (
        "I noted [password 1] for you, not hunter22."
    )


@pytest.mark.parametrize(
    ("password", "said", "stays"),
    [
        ("postgres", "Install postgres first.", True),
        ("test", "Run the test.", True),
        ("data", "Keep the data.", True),
        ("return", "return 1", True),
        ("read-only", "It is read-only.", True),
        ("1234", "1234 rows", True),
        ("hunter2", "Is hunter2 yours?", False),
        ("pa$$word", "Is pa$$word yours?", False),
        ("correct horse", "Is correct horse yours?", False),
        ("4815162342", "Is 4815162342 yours?", False),
    ],
)
def test_a_password_that_is_a_plain_word_goes_only_where_it_is_called_one(password, said, stays):
    remover = Remover()
    assigned = f'password = "{password}"'
    for text in (assigned, said):
        remover.learn(text)
    assert remover.clean(assigned, "request") == 'password = "[password 1]"'
    assert remover.clean(said, "reply") == (said if stays else said.replace(password, "[password 1]"))


def test_a_member_that_is_called_a_password_goes_whatever_it_is():
    remover = Remover()
    cleaned = remover.clean_json('{"user": "bob", "password": "swordfish", "port": 5432}', "request")
    assert cleaned == '{"user": "bob", "password": "[password 1]", "port": 5432}'


def test_json_without_findings_stays_to_the_letter():
    text = '{ "a" : 1.0,\n"b": "x" }'
    assert Remover().clean_json(text, "request") == text


SECRETS = [
    text for text, kind, secret in HELD if kind in ("key", "card", "iban", "email") and secret == text != KEY_BLOCK[:70]
]
WORDS = ["the", "cat", "sat", "on", "a", "mat", "and", "3", "dogs,", "2026", "again;", "schön."]


@given(st.lists(st.sampled_from(WORDS), max_size=8), st.lists(st.sampled_from(SECRETS), max_size=4))
def test_of_any_mixture_only_the_innocent_words_are_left(words, secrets):
    text = "\n".join([*words, *secrets, *words])
    cleaned = Remover().clean(text, "request")
    assert not any(secret in cleaned for secret in secrets)
    assert all(word in cleaned for word in words)


@given(st.text(alphabet="0123456789 +-().@abz=:password\"'/", max_size=120))
def test_what_was_cleaned_once_has_nothing_left_to_clean(text):
    remover = Remover()
    remover.learn(text)
    once = remover.clean(text, "request")
    assert Remover().clean(once, "request") == once

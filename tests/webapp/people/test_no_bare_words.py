"""Nothing of a person's own pages stays in English for a reader of another language, names and formats aside."""

from __future__ import annotations

import pytest
from django.urls import reverse
from django.utils.translation import trans_real

from accounts.models import Account
from chat.api_keys import ApiKey
from chat.models import Session
from tests.webapp.languages.brackets import CODE, Brackets, bare
from webapp.people.own_data.readers import readers

pytestmark = pytest.mark.django_db

NAMES = {"ana", "ben", "talkback", "laptop", "UTC", "Talkback"}
LANGUAGES = {"Deutsch", "Español", "简体中文"}  # English says that it is, and is left alone
KINDS = {"key", "password", "card", "iban", "email", "phone"}
"""The sorts of personal data, as they stand in brackets where one was removed."""


@pytest.fixture
def reads(client, operator, talker, monkeypatch):
    """What stands bare on the main part of a page, to an administrator who reads no English."""
    monkeypatch.setitem(trans_real._translations, CODE, Brackets(CODE))
    Account.objects.update(language=CODE)
    client.force_login(operator)

    def reads(page, *args, post=None, **query):
        there = page if page.startswith("/") else reverse(page, args=args)
        answer = client.get(there, query) if post is None else client.post(there, post)
        return bare(answer.content.decode().split("<main", 1)[1].partition(">")[2].split("</main>")[0]) - NAMES

    return reads


@pytest.mark.parametrize(
    "page",
    ["account:home", "preferences:own", "preferences:people", "consent:home", "help:glossary", "mfa_index",
     "mfa_list_webauthn", "login", "forgot", "/nowhere/", "/enter/x-y", "/join/x", "/reset/x-y"],
)  # fmt: skip
def test_a_page_says_nothing_in_english_alone(reads, page):
    assert reads(page) == set()


def test_settings_name_languages_in_themselves(reads, client, talker):
    client.force_login(talker)
    assert reads("settings:home") == LANGUAGES


def test_privacy_names_readers_and_sorts_of_data(reads, operator):
    key, _secret = ApiKey.objects.issue(operator, "laptop")
    Session.objects.create(user=operator, title="laptop", learns=False)
    names = " ".join(f"{one.name} {one.host}" for one in readers())
    assert reads("privacy:home") <= KINDS | bare(names) | bare(key.prefix)


def test_people_and_one_of_them_are_told_in_the_readers_language(reads, talker):
    assert reads("people:list") == set()
    assert reads("people:list", q="zoe") == set()
    assert reads("people:add", post={"name": "ben", "role": "talker"}) == set()  # the name is taken
    assert reads("people:one", talker.pk) == {"shared"}  # the name of a line

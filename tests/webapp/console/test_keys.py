"""Keys on pages and in a terminal: made, seen, limited, revoked."""

from __future__ import annotations

import re
from datetime import timedelta

import pytest
from django.contrib.auth.models import User
from django.core.management import call_command
from django.core.management.base import CommandError
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from chat.api_keys import ApiKey
from chat.spendings import Spending
from tests.webapp.conftest import text_of
from webapp.console.key_pages import secret_of

FORM = {"name": "laptop", "scopes": ["chat", "feedback"], "learns": "on"}


@pytest.fixture(autouse=True)
def small(settings, tiny_model):
    settings.MODEL = str(tiny_model)


@pytest.fixture
def ben(client, talker):
    """Ben's browser: he talks here, and runs nothing."""
    client.force_login(talker)
    return client


def secret_on(response) -> str:
    return re.findall(r'<code id="secret">(.*?)</code>', response.content.decode())[0]


def made(capsys, *words) -> ApiKey:
    call_command("create_key", *words)
    return ApiKey.objects.find_by_secret(capsys.readouterr().out.strip())


@pytest.mark.parametrize("page", ["connect:home", "connect:new", "connect:keys"])
def test_a_stranger_is_asked_to_sign_in(client, db, page):
    response = client.get(reverse(page))
    assert response.status_code == 302
    assert response.url.startswith(reverse("login"))


def test_a_new_key_is_shown_once_and_kept_as_a_digest(ben, talker):
    response = ben.post(reverse("connect:new"), FORM)
    secret = secret_on(response)
    key = ApiKey.objects.get()
    assert ApiKey.objects.find_open(secret) == key
    assert (key.user, key.name, key.scopes, key.learns) == (talker, "laptop", ["chat", "feedback"], True)
    assert secret not in str(ApiKey.objects.values().get())
    assert "no-store" in response["Cache-Control"]
    assert response["HX-Push-Url"] == reverse("connect:key", args=[key.pk])
    for page in (reverse("connect:home"), reverse("connect:keys"), response["HX-Push-Url"]):
        again = text_of(ben.get(page))
        assert "laptop" in again
        assert secret not in again


def test_a_form_that_is_sent_again_makes_no_second_key_and_shows_no_secret_again(ben, talker):
    once = ben.get(reverse("connect:new")).context["form"]["once"].value()
    secret = secret_on(ben.post(reverse("connect:new"), FORM | {"once": once}))
    again = ben.post(reverse("connect:new"), FORM | {"once": once}, follow=True)
    key = ApiKey.objects.get()
    assert again.redirect_chain == [(reverse("connect:key", args=[key.pk]), 302)]
    assert secret not in text_of(again)
    assert ApiKey.objects.find_open(secret) == key

    # another form, and the same number from another person, make keys of their own
    other = ben.get(reverse("connect:new")).context["form"]["once"].value()
    ben.post(reverse("connect:new"), FORM | {"once": other})
    ana = User.objects.create_user("second")
    assert secret_of(ana, once) != secret
    assert ApiKey.objects.count() == 2


def test_a_key_is_made_with_all_its_terms(ben):
    given = {"checkpoint": 0, "requests_per_minute": 60, "tokens_per_day": 100_000, "days": 30, "scopes": ["chat"]}
    page = text_of(ben.post(reverse("connect:new"), {"name": "serving"} | given))
    key = ApiKey.objects.get()
    assert (key.learns, key.scopes, key.checkpoint.number) == (False, ["chat"], 0)
    assert (key.requests_per_minute, key.tokens_per_day) == (60, 100_000)
    assert timedelta(days=29) < key.expires_at - timezone.now() <= timedelta(days=30)
    assert "60 requests a minute, 0 of 100,000 tokens today" in page
    assert "talkback@0, whatever is live" in page


@pytest.mark.parametrize(
    "wrong",
    [
        {"name": ""},
        {"name": "x" * 81},
        {"name": "a\0b"},
        {"scopes": []},
        {"scopes": ["everything"]},
        {"scopes": ["chat", "admin"]},  # not for those who only talk
        {"checkpoint": 99},
        {"requests_per_minute": 0},
        {"tokens_per_day": -1},
        {"days": 10**9},
        {"days": "soon"},
    ],
)
def test_a_form_that_makes_no_sense_makes_no_key_and_says_why(ben, wrong):
    response = ben.post(reverse("connect:new"), FORM | wrong)
    assert response.status_code == 422
    assert "errorlist" in response.content.decode()
    assert not ApiKey.objects.exists()


def test_only_those_who_run_this_give_out_administration(console):
    assert "admin: administer this Talkback; no route asks for it yet" in text_of(console.get(reverse("connect:new")))
    console.post(reverse("connect:new"), FORM | {"scopes": ["admin"]})
    assert ApiKey.objects.get().scopes == ["admin"]


def test_no_person_sees_or_ends_another_persons_key(ben, operator):
    theirs, _ = ApiKey.objects.issue(operator, "theirs")
    assert "theirs" not in text_of(ben.get(reverse("connect:keys")))
    for name in ("key", "light"):
        assert ben.get(reverse(f"connect:{name}", args=[theirs.pk])).status_code == 404
    for name in ("revoke", "try"):
        assert ben.post(reverse(f"connect:{name}", args=[theirs.pk])).status_code == 404
    theirs.refresh_from_db()
    assert theirs.revoked_at is None


def test_those_who_run_this_see_and_end_every_key_but_never_use_one(console, talker):
    key, _ = ApiKey.objects.issue(talker, "phone")
    page = text_of(console.get(reverse("connect:keys")))
    assert "phone" in page
    assert "ben" in page
    assert console.get(reverse("connect:key", args=[key.pk])).status_code == 200
    assert console.post(reverse("connect:try", args=[key.pk])).status_code == 404
    console.post(reverse("connect:revoke", args=[key.pk]))
    key.refresh_from_db()
    assert key.revoked_at


def test_revoking_says_what_it_means_and_ends_the_key_for_good(ben, talker):
    key, secret = ApiKey.objects.issue(talker, "phone")
    assert "it cannot be undone" in text_of(ben.get(reverse("connect:keys")))
    page = text_of(ben.post(reverse("connect:revoke", args=[key.pk]), follow=True))
    assert "“phone” is revoked" in page
    assert "This API key was revoked on" in page
    assert ApiKey.objects.find_open(secret) is None
    first = ApiKey.objects.get().revoked_at
    ben.post(reverse("connect:revoke", args=[key.pk]))
    assert ApiKey.objects.get().revoked_at == first


def test_revoking_asks_for_the_token(talker):
    key, _ = ApiKey.objects.issue(talker, "phone")
    strict = Client(enforce_csrf_checks=True)
    strict.force_login(talker)
    assert strict.post(reverse("connect:revoke", args=[key.pk])).status_code == 403


def test_an_expired_key_is_listed_as_such(ben, talker):
    ApiKey.objects.issue(talker, "old", expires_at=timezone.now() - timedelta(days=1))
    page = text_of(ben.get(reverse("connect:keys")))
    assert "No key opens anything any more." in page
    assert "This API key expired on" in page


def test_the_list_says_what_was_spent_today(ben, talker):
    key, _ = ApiKey.objects.issue(talker, "phone", tokens_per_day=1000)
    Spending.objects.create(key=key, day=timezone.now().date(), tokens=250)
    assert "250 of 1,000 tokens today" in text_of(ben.get(reverse("connect:keys")))


def test_a_hostile_name_stays_text(ben):
    page = ben.post(reverse("connect:new"), FORM | {"name": "<script>alert(1)</script>"})
    assert "<script>alert" not in page.content.decode()
    assert "<script>alert" not in ben.get(reverse("connect:keys")).content.decode()


def test_create_key_makes_a_key_with_its_terms(db, capsys):
    terms = ("--scope", "chat", "--serve-only", "--checkpoint", "0", "--requests-per-minute", "5", "--days", "2")
    key = made(capsys, "--name", "cron", *terms)
    assert (key.user.username, key.scopes, key.learns, key.checkpoint.number) == ("admin", ["chat"], False, 0)
    assert (key.requests_per_minute, key.tokens_per_day) == (5, None)
    assert made(capsys, "--name", "plain").scopes == ["chat", "feedback"]


@pytest.mark.parametrize("wrong", [("--checkpoint", "9"), ("--days", "0"), ("--user", "unknown"), ("--name", " ")])
def test_create_key_refuses_what_makes_no_sense(db, wrong):
    with pytest.raises(CommandError):
        call_command("create_key", "--name", "cron", *wrong)
    assert not ApiKey.objects.exists()


def test_an_admin_key_is_only_for_those_who_run_this(talker):
    with pytest.raises(CommandError, match="admin"):
        call_command("create_key", "--name", "mine", "--user", "ben", "--scope", "admin")


def test_create_key_keeps_a_key_that_still_opens_the_door(db, capsys, monkeypatch):
    key = made(capsys, "--name", "make up")
    _, secret = ApiKey.objects.issue(key.user, "kept")
    monkeypatch.setenv("API_KEY", secret)
    assert made(capsys, "--name", "make up", "--keep").name == "kept"
    ApiKey.objects.find_by_secret(secret).revoke()
    assert made(capsys, "--name", "make up", "--keep").name == "make up"


def test_keys_are_listed_and_revoked_from_a_terminal(talker, capsys):
    key, secret = ApiKey.objects.issue(talker, "phone", learns=False)
    call_command("keys", "list")
    line = capsys.readouterr().out
    assert line.split()[:4] == [str(key.pk), f"{key.prefix}…", "ben", "phone"]
    assert "chat, feedback; serve-only; never used" in line
    call_command("keys", "revoke", str(key.pk))
    assert "opens nothing any more" in capsys.readouterr().out
    assert ApiKey.objects.find_open(secret) is None
    call_command("keys", "list")
    assert "was revoked on" in capsys.readouterr().out
    with pytest.raises(CommandError, match="There is no key 999"):
        call_command("keys", "revoke", "999")

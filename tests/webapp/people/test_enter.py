"""The way in: a link that works once, and keys that are shown once."""

from __future__ import annotations

import io
import logging
from datetime import datetime, timedelta

import pytest
from django.contrib.auth.models import User
from django.core.management import CommandError, call_command
from django.test import Client

from chat.api_keys import ApiKey
from tests.webapp.conftest import Logged
from webapp.people import enter

pytestmark = pytest.mark.django_db


def printed(*command: str) -> str:
    out = io.StringIO()
    call_command(*command, stdout=out)
    return out.getvalue().strip()


def path_of(link: str) -> str:
    return "/enter/" + link.partition("/enter/")[2]


def test_the_link_signs_the_administrator_in_and_then_no_other(client: Client):
    link = path_of(printed("sign_in_link"))

    first = client.post(link)
    assert (first.status_code, first["Location"]) == (302, "/")
    assert client.session["_auth_user_id"] == str(User.objects.get(username="admin", is_superuser=True).pk)

    stranger = Client()
    for second in (stranger.get(link), stranger.post(link)):
        assert second.status_code == 410
        assert b"sign_in_link" in second.content
    assert "_auth_user_id" not in stranger.session


def test_signing_in_spends_every_link_made_before(client: Client):
    older, newer = path_of(printed("sign_in_link")), path_of(printed("sign_in_link"))
    assert client.post(newer).status_code == 302
    assert Client().post(older).status_code == 410
    assert Client().post(path_of(printed("sign_in_link"))).status_code == 302


def test_a_link_grows_old(client: Client, monkeypatch: pytest.MonkeyPatch, settings):
    link = path_of(printed("sign_in_link"))
    later = datetime.now() + timedelta(seconds=settings.PASSWORD_RESET_TIMEOUT + 60)
    monkeypatch.setattr(enter.tokens, "_now", lambda: later)
    assert (client.get(link).status_code, client.post(link).status_code) == (410, 410)


def test_a_link_of_a_person_who_was_shut_out_is_dead(client: Client):
    link = path_of(printed("sign_in_link"))
    User.objects.filter(username="admin").update(is_active=False)
    assert (client.get(link).status_code, client.post(link).status_code) == (410, 410)
    with pytest.raises(CommandError, match="inactive"):
        printed("sign_in_link")


@pytest.mark.parametrize(
    "token", ["x", "1-", "-", "1-zzz-0", "zzzzzzzzzzzzzzzzzzzzzz-1-1", "zzzzzzzzzzzzz-1-1", "0-a-b", "é-1", "%00-1-1"]
)
def test_a_made_up_link_is_answered_politely(client: Client, token: str):
    assert (client.get(f"/enter/{token}").status_code, client.post(f"/enter/{token}").status_code) == (410, 410)


def test_looking_at_a_link_shows_one_button_and_does_not_spend_it(client: Client):
    link = path_of(printed("sign_in_link"))
    preview = Client()  # of a chat program, or a scanner of mail
    for _ in range(3):
        assert (preview.head(link).status_code, preview.head(link).content) == (200, b"")
        page = preview.get(link)
        assert (page.status_code, page.content.partition(b"<main")[2].count(b"<button")) == (200, 1)
        assert b"Sign in as admin" in page.content
    assert "_auth_user_id" not in preview.session
    assert client.post(link).status_code == 302


def test_pressing_the_button_needs_the_page_that_has_it():
    link = path_of(printed("sign_in_link"))
    browser = Client(enforce_csrf_checks=True)
    assert browser.post(link).status_code == 403
    page = browser.get(link)
    assert browser.post(link, {"csrfmiddlewaretoken": page.context["csrf_token"]}).status_code == 302


def test_a_head_tells_nothing_of_a_link(client: Client):
    good, made_up = client.head(path_of(printed("sign_in_link"))), client.head("/enter/1-a-b")
    assert (good.status_code, good.headers) == (made_up.status_code, made_up.headers)


def test_no_request_writes_the_link_to_the_log(client: Client, logged: Logged):
    link = path_of(printed("sign_in_link"))
    token = link.removeprefix("/enter/")
    client.head(link)
    client.get(link)
    client.options(link)  # not allowed: the framework logs its path
    Client(enforce_csrf_checks=True).post(link)  # forged: so do two loggers
    client.get(f"{link}?from=mail")
    client.post(link)
    client.get(link)
    assert token not in logged.text
    assert "/enter/…" in logged.text
    assert [line.split("signin ")[1] for line in logged.of("webapp.people.signin")] == [
        "signed in with a link: admin from 127.0.0.1",
        "a spent or made-up sign-in link was opened from 127.0.0.1",
    ]


def test_the_servers_own_log_of_requests_holds_no_link(caplog: pytest.LogCaptureFixture):
    access = logging.getLogger("uvicorn.access")  # it has a format of its own
    with caplog.at_level(logging.INFO, "uvicorn.access"):
        access.info('%s - "%s %s HTTP/%s" %d', "127.0.0.1:5", "GET", "/enter/1-abc-def?x", "1.1", 200)
    assert caplog.messages == ['127.0.0.1:5 - "GET /enter/…?x HTTP/1.1" 200']


def test_the_link_is_never_kept_by_a_cache_or_told_to_another_site(client: Client):
    answer = client.get(path_of(printed("sign_in_link")))
    assert "no-store" in answer["Cache-Control"]
    assert answer["Referrer-Policy"] in ("same-origin", "no-referrer")


def test_the_address_of_the_link_can_be_given():
    assert printed("sign_in_link", "--address", "https://talk.example.org/").startswith(
        "https://talk.example.org/enter/"
    )


def test_a_link_for_a_stranger_is_refused_by_name():
    with pytest.raises(CommandError, match="no user named unknown"):
        printed("sign_in_link", "--user", "unknown")


def test_a_key_opens_the_door_and_only_its_hash_is_kept():
    secret = printed("create_key", "--name", "laptop")

    key = ApiKey.objects.find_open(secret)
    assert key is not None
    assert (key.name, key.user.username) == ("laptop", "admin")
    assert secret not in str(ApiKey.objects.values())


def test_a_key_that_still_opens_is_kept_and_a_revoked_one_is_replaced(monkeypatch: pytest.MonkeyPatch):
    secret = printed("create_key", "--name", "make up", "--keep")
    monkeypatch.setenv("API_KEY", secret)
    assert printed("create_key", "--name", "make up", "--keep") == secret
    assert ApiKey.objects.count() == 1

    ApiKey.objects.update(revoked_at=datetime.now().astimezone())
    assert printed("create_key", "--name", "make up", "--keep") != secret


@pytest.mark.parametrize("name", ["", "   ", "n" * 81])
def test_a_key_needs_a_name_that_fits(name: str):
    with pytest.raises(CommandError, match="1 to 80 characters"):
        printed("create_key", "--name", name)

"""One's own account: the password, a link for a new one, and the browsers that are signed in."""

from __future__ import annotations

import re

import pytest
from django.contrib.auth.models import User
from django.core import mail
from django.test import Client
from django.urls import reverse

from accounts.models import Deed, Device
from tests.webapp.conftest import text_of
from webapp.people import password_reset

OLD, NEW = "correct horse battery", "staple and a paper clip"
FIREFOX = "Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0"
PHONE = "Mozilla/5.0 (iPhone; CPU iPhone OS 18_0 like Mac OS X) AppleWebKit/605.1 Version/18.0 Safari/604.1"

pytestmark = pytest.mark.django_db


@pytest.fixture
def ben(talker):
    talker.set_password(OLD)
    talker.email = "ben@example.org"
    talker.save()
    return talker


def browser(agent=FIREFOX, password=OLD, address="192.0.2.7") -> Client:
    made = Client(headers={"User-Agent": agent}, REMOTE_ADDR=address)
    assert made.post("/login/", {"username": "ben", "password": password}).status_code == 302
    return made


def is_in(client: Client) -> bool:
    return client.get(reverse("account:home")).status_code == 200


def test_the_list_names_each_browser_with_its_address_and_signs_one_out(ben):
    desk, phone = browser(), browser(PHONE, address="192.0.2.9")
    page = text_of(desk.get(reverse("account:home")))
    assert re.search(r"Firefox on Linux</strong> <span class=\"chip good\">this one</span> .*from 192\.0\.2\.7", page)
    assert re.search(r"Safari on iPhone</strong> .*from 192\.0\.2\.9", page)
    desk.post(reverse("account:sign_out", args=[Device.objects.get(address="192.0.2.9").pk]))
    assert is_in(desk)
    assert not is_in(phone)


def test_all_others_are_signed_out_at_once(ben):
    here, *others = [browser() for _ in range(3)]
    here.post(reverse("account:sign_out_others"))
    assert [is_in(one) for one in (here, *others)] == [True, False, False]
    assert Device.objects.count() == 1


def test_no_person_signs_another_out(ben, operator):
    theirs, own = Client(), browser()
    theirs.force_login(operator)
    device = Device.objects.get(user=operator)
    assert own.post(reverse("account:sign_out", args=[device.pk])).status_code == 404
    assert theirs.get(reverse("account:home")).status_code == 200


def test_a_session_that_ends_takes_its_row_along(ben):
    one = browser()
    one.post("/logout/")
    assert not Device.objects.exists()


def test_a_new_password_signs_all_other_browsers_out(ben):
    here, other = browser(), browser()
    answer = here.post(
        reverse("account:password"), {"old_password": OLD, "new_password1": NEW, "new_password2": NEW}, follow=True
    )
    assert "All other browsers are signed out." in text_of(answer)
    assert [is_in(here), is_in(other)] == [True, False]
    assert [one.browser for one in Device.objects.all()] == ["Firefox on Linux"]
    assert Client().post("/login/", {"username": "ben", "password": OLD}).status_code == 200
    browser(password=NEW)


@pytest.mark.parametrize(
    ("said", "told"),
    [
        ({"old_password": "wrong"}, "Your old password was entered incorrectly"),
        ({"new_password2": "else"}, "didn’t match"),
        ({"new_password1": "ben", "new_password2": "ben"}, "too short"),
    ],
)
def test_a_change_that_cannot_be_changes_nothing(ben, said, told):
    here = browser()
    fields = {"old_password": OLD, "new_password1": NEW, "new_password2": NEW} | said
    answer = here.post(reverse("account:password"), fields)
    assert answer.status_code == 422
    assert told in text_of(answer)
    browser()


def test_guesses_at_the_present_password_are_slowed(ben):
    here = browser()
    fields = {"old_password": "wrong", "new_password1": NEW, "new_password2": NEW}
    codes = [here.post(reverse("account:password"), fields).status_code for _ in range(6)]
    assert codes == [422] * 5 + [429]  # PAIR.free is 5


# ---------- a link for a new password ----------


def test_a_link_that_was_mailed_sets_a_password_once(ben, settings, client):
    settings.EMAIL_HOST = "mail.example.org"
    assert password_reset.mail("ben", "https://talk.example.org") == 1
    text = mail.outbox[0].body
    assert mail.outbox[0].to == ["ben@example.org"]
    link = re.search(r"https://talk\.example\.org(/reset/\S+)", text)[1]
    other = Client()
    other.force_login(ben)  # which is a sign-in: links that were made before are spent
    assert client.get(link).status_code == 410
    password_reset.mail("BEN@example.org", "https://talk.example.org")
    link = re.search(r"(/reset/\S+)", mail.outbox[1].body)[1]
    weak = client.post(link, {"new_password1": "123", "new_password2": "123"})
    assert weak.status_code == 422
    assert client.post(link, {"new_password1": NEW, "new_password2": NEW}).status_code == 302
    assert not is_in(other)
    assert not is_in(client)  # one signs in with it, and with the second factor
    assert client.post(link, {"new_password1": OLD, "new_password2": OLD}).status_code == 410
    browser(password=NEW)


def test_the_answer_tells_no_stranger_who_has_an_account(ben, settings, client, monkeypatch):
    settings.EMAIL_HOST = "mail.example.org"
    asked: list[tuple[str, ...]] = []
    monkeypatch.setattr("webapp.people.mailing.later", lambda task, *words: asked.append(words))
    known, unknown = (client.post("/forgot/", {"who": who}) for who in ("ben", "zoe"))
    assert text_of(known).partition("<main")[2] == text_of(unknown).partition("<main")[2]
    assert "a link is on its way" in text_of(known)
    assert [words[0] for words in asked] == ["ben", "zoe"]  # a worker looks, in both cases
    assert password_reset.mail("zoe", "https://talk.example.org") == 0


def test_no_link_is_mailed_to_a_closed_account(ben):
    User.objects.filter(pk=ben.pk).update(is_active=False)
    assert password_reset.mail("ben", "http://localhost") == 0


def test_without_e_mail_the_page_says_whom_to_ask(client, monkeypatch):
    monkeypatch.setattr("webapp.people.mailing.later", lambda *words: pytest.fail("nothing is to be sent"))
    page = text_of(client.post("/forgot/", {"who": "ben"}))
    assert "This Talkback sends no e-mail. An administrator can make you a link" in page


def test_links_that_are_asked_for_in_a_row_are_slowed(settings, monkeypatch):
    settings.EMAIL_HOST = "mail.example.org"
    monkeypatch.setattr("webapp.people.mailing.later", lambda *words: None)
    codes = [Client().post("/forgot/", {"who": "ben"}).status_code for _ in range(6)]
    assert codes == [200] * 5 + [429]  # ASKED.free is 5


def test_a_link_of_an_administrator_signs_in_no_one_and_is_not_logged(console, ben, logged):
    page = console.post(reverse("people:reset", args=[ben.pk])).content.decode()
    link = re.search(r"/reset/[\w-]+", page)[0]
    guest = Client()
    guest.options(link)
    assert guest.post(link, {"new_password1": NEW, "new_password2": NEW}).status_code == 302
    assert not is_in(guest)
    assert link.removeprefix("/reset/") not in logged.text


# ---------- the audit log ----------


def test_signing_in_and_failing_to_are_in_the_audit_log(ben):
    one = browser()
    Client(REMOTE_ADDR="192.0.2.66").post("/login/", {"username": "ben", "password": "wrong"})
    Client(REMOTE_ADDR="192.0.2.66").post("/login/", {"username": "zoe-secret", "password": "wrong"})
    one.post("/logout/")
    rows = [
        (d.verb, d.by and d.by.username, d.whom and d.whom.username, d.address, d.outcome)
        for d in Deed.objects.order_by("pk")
    ]
    assert rows == [
        ("signed in with a password", "ben", "ben", "192.0.2.7", "done"),
        ("sign-in failed", None, "ben", "192.0.2.66", "refused"),
        ("sign-in failed", None, None, "192.0.2.66", "refused"),
        ("signed out", "ben", "ben", "192.0.2.7", "done"),
    ]
    assert "zoe-secret" not in str(list(Deed.objects.values()))  # some type their password there

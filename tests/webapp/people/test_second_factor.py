"""A second factor: real codes of an app, recovery codes, and roles that demand one."""

from __future__ import annotations

import base64
import hmac
import re
import struct
import time

import pytest
from allauth.mfa.models import Authenticator
from asgiref.sync import sync_to_async
from django.contrib.auth.models import User
from django.test import Client
from django.urls import reverse

from accounts import roles
from accounts.models import Deed, Role
from chat.sockets import NOT_YOURS
from tests.sockets import Tab
from tests.webapp.conftest import text_of
from webapp.people import enter

PASSWORD = "correct horse battery"

pytestmark = pytest.mark.django_db


def code_of(secret: str, steps: int = 0) -> str:
    """What an authenticator app shows (RFC 6238: HMAC-SHA1 over the count of 30 s steps), so many steps from now."""
    counter = struct.pack(">Q", int(time.time()) // 30 + steps)
    digest = hmac.digest(base64.b32decode(secret), counter, "sha1")
    at = digest[-1] & 15
    return f"{(struct.unpack('>I', digest[at : at + 4])[0] & 0x7FFFFFFF) % 10**6:06}"


def signed_in(client: Client) -> bool:
    return client.get(reverse("account:home")).status_code == 200


def with_password(browser: Client, name="ben"):
    return browser.post("/login/", {"username": name, "password": PASSWORD})


def set_up(browser: Client) -> tuple[str, list[str]]:
    """Turn an app on by the pages: its secret, and the recovery codes that are shown."""
    asked = browser.get(reverse("mfa_activate_totp"))
    assert asked.status_code == 302  # to the password, which is asked for again
    page = browser.post(asked["Location"], {"password": PASSWORD}, follow=True)
    secret = re.search(r'id="secret"[^>]* value="(\w+)"', page.content.decode())[1]
    page = browser.post(reverse("mfa_activate_totp"), {"code": code_of(secret)}, follow=True)
    codes = re.findall(r"<li>(\d{8})</li>", page.content.decode())
    return secret, codes


@pytest.fixture
def ben(talker):
    talker.set_password(PASSWORD)
    talker.save()
    return talker


@pytest.fixture
def protected(ben):
    """Ben's app, and his recovery codes."""
    browser = Client()
    with_password(browser)
    return set_up(browser)


def test_a_password_alone_signs_in_no_more_once_there_is_an_app(protected):
    secret, codes = protected
    assert len(codes) == 10
    browser = Client()
    first = with_password(browser)
    assert (first.status_code, first["Location"]) == (302, reverse("mfa_authenticate"))
    assert not signed_in(browser)
    wrong = browser.post(reverse("mfa_authenticate"), {"code": "000000"})
    assert "Incorrect code" in text_of(wrong)
    assert not signed_in(browser)
    right = browser.post(reverse("mfa_authenticate"), {"code": code_of(secret, 1)})
    assert (right.status_code, right["Location"]) == (302, "/")
    assert signed_in(browser)
    verbs = list(Deed.objects.filter(kind="sign-in").order_by("pk").values_list("verb", flat=True))
    assert verbs[-2:] == ["second factor failed", "signed in with a second factor"]


def test_each_change_is_in_the_audit_log(ben, django_capture_on_commit_callbacks):
    browser = Client()
    with_password(browser)
    with django_capture_on_commit_callbacks(execute=True):
        set_up(browser)
    with django_capture_on_commit_callbacks(execute=True):
        browser.post(reverse("mfa_generate_recovery_codes"))
    with django_capture_on_commit_callbacks(execute=True):
        browser.post(reverse("mfa_deactivate_totp"))
    told = list(Deed.objects.filter(verb__startswith="second").order_by("pk").values_list("verb", "about", "whom"))
    assert told == [
        ("second factor added", "codes of an app", ben.pk), ("second factor added", "recovery codes", ben.pk),
        ("second factor renewed", "recovery codes", ben.pk), ("second factor removed", "codes of an app", ben.pk),
        ("second factor removed", "recovery codes", ben.pk),
    ]  # fmt: skip


def test_a_code_works_once(protected):
    code = code_of(protected[0], 1)
    first, second = Client(), Client()
    for browser in (first, second):
        with_password(browser)
        browser.post(reverse("mfa_authenticate"), {"code": code})
    assert (signed_in(first), signed_in(second)) == (True, False)


def test_a_recovery_code_works_once(protected):
    code = protected[1][0]
    first, second = Client(), Client()
    for browser in (first, second):
        with_password(browser)
        browser.post(reverse("mfa_authenticate"), {"code": code})
    assert (signed_in(first), signed_in(second)) == (True, False)


def test_guesses_at_codes_are_slowed_for_all_browsers_together(protected):
    """Five wrong ones in five minutes, wherever they come from: then also the right one waits."""
    for number in range(5):
        browser = Client(REMOTE_ADDR=f"192.0.2.{number}")
        with_password(browser)
        browser.post(reverse("mfa_authenticate"), {"code": "000000"})
    browser = Client(REMOTE_ADDR="192.0.2.99")
    with_password(browser)
    browser.post(reverse("mfa_authenticate"), {"code": code_of(protected[0], 1)})
    assert not signed_in(browser)


def test_the_database_holds_no_secret_that_opens_anything(protected, ben):
    secret, codes = protected
    rows = str(list(Authenticator.objects.values()))
    assert secret not in rows
    assert not [code for code in codes if code in rows]


def test_it_is_changed_only_by_who_says_the_password_again(protected):
    browser = Client()
    with_password(browser)
    browser.post(reverse("mfa_authenticate"), {"code": code_of(protected[0], 1)})
    for page in ("mfa_activate_totp", "mfa_deactivate_totp", "mfa_generate_recovery_codes", "mfa_add_webauthn"):
        answer = browser.post(reverse(page), {"code": "1"})
        assert answer.status_code == 302, page
        assert answer["Location"].startswith(("/account/confirm/", "/account/two-factor/")), page
    assert Authenticator.objects.filter(type="totp").exists()


def test_without_an_app_nothing_more_is_asked_for(ben):
    browser = Client()
    assert with_password(browser)["Location"] == "/"
    assert signed_in(browser)


def test_a_link_of_the_command_line_still_signs_in(protected, ben):
    """It is made on the machine itself, and is the way back in for who has lost everything."""
    browser = Client()
    browser.post(enter.link_for(User.objects.get(pk=ben.pk)))
    assert signed_in(browser)


def test_an_administrator_takes_a_lost_second_factor_away(protected, console, ben):
    page = console.post(reverse("people:remove_factors", args=[ben.pk]), follow=True)
    assert "ben has no second factor now" in text_of(page)
    browser = Client()
    with_password(browser)
    assert signed_in(browser)
    assert Deed.objects.filter(verb="second factor removed", whom=ben).exists()


# ---------- roles that demand one ----------


@pytest.fixture
def demanded(settings, ben):
    settings.TWO_FACTOR_FROM = "operator"
    User.objects.create_user("other", is_staff=True)
    roles.give(ben, Role.OPERATOR)
    return User.objects.get(pk=ben.pk)


def test_an_operator_without_a_second_factor_is_led_to_one(demanded):
    browser = Client()
    with_password(browser)
    answer = browser.get(reverse("console:runs"), follow=True)
    assert answer.redirect_chain == [(reverse("mfa_index"), 302)]
    assert "Your role needs a second factor" in text_of(answer)
    assert browser.get("/privacy/").status_code == 200  # what is their own stays open
    set_up(browser)
    assert browser.get(reverse("console:runs")).status_code == 200


def test_roles_below_need_none(demanded):
    roles.give(demanded, Role.REVIEWER)
    browser = Client()
    with_password(browser)
    assert browser.get(reverse("console:hints")).status_code == 200


def test_what_a_role_waits_for_counts_everywhere(demanded):
    assert roles.role_of(demanded) == Role.TALKER
    assert not roles.may(demanded, "checkpoints")
    Authenticator.objects.create(user=demanded, type="recovery_codes", data={})  # which alone is none
    assert not roles.may(demanded, "checkpoints")
    Authenticator.objects.create(user=demanded, type="totp", data={})
    assert roles.may(demanded, "checkpoints")


@pytest.mark.django_db(transaction=True, serialized_rollback=True)
async def test_no_board_is_open_to_who_lacks_it(settings, operator):
    settings.TWO_FACTOR_FROM = "operator"
    async with Tab("/ws/console/", operator) as board:
        assert await board.ends() == NOT_YOURS
    await sync_to_async(Authenticator.objects.create)(user=operator, type="totp", data={})
    async with Tab("/ws/console/", operator) as board:
        assert await board.hears()


@pytest.mark.parametrize("page", ["mfa_index", "mfa_list_webauthn", "mfa_add_webauthn"])
def test_pages_of_passkeys_say_where_these_work_to_a_person_who_came_by_a_number(ben, settings, page):
    settings.ALLOWED_HOSTS = ["10.0.0.7", "127.0.0.1", "[::1]", "localhost", "testserver"]
    browser = Client()
    with_password(browser)
    browser.post(reverse("account_reauthenticate"), {"password": PASSWORD})

    def told(host: str) -> str:
        # what the form's own script says, once the browser refused, comes after
        text = browser.get(f"{reverse(page)}?next=/console/&a=b", headers={"host": host}).content.decode()
        return text[text.index("<main") :].partition("data-passkey-trouble")[0]

    settings.ADDRESS = "http://localhost:8000"
    for number in ("127.0.0.1:8000", "[::1]:8000"):
        assert f'<a href="http://localhost:8000{reverse(page)}?next=/console/&amp;a=b">' in told(number)
    not_held = told("127.0.0.1:9000")  # a tunnel's, or a proxy's: another program may have the name there
    settings.ADDRESS = "http://127.0.0.1:8000"  # HOST=127.0.0.1 or 0.0.0.0: web does not hold ::1
    for elsewhere in (not_held, told("10.0.0.7:8000")):
        assert "Open Talkback by its name, over https." in elsewhere
        assert "localhost" not in elsewhere
    here = told("127.0.0.1:8000")  # no link: another program may hold ::1 at that port
    assert "start it with <code>HOST=localhost</code> and open it as <code>http://localhost:8000</code>." in here
    assert "<a href" not in here.partition("this address is a number")[2].partition("</p>")[0]
    assert "this address is a number" not in told("localhost:8000")


def test_who_has_no_password_is_told_to_set_one_first(talker):
    browser = Client()
    browser.force_login(talker)
    page = browser.get(reverse("mfa_activate_totp"), follow=True)
    assert page.redirect_chain == [(reverse("account:home"), 302)]
    assert "Set a password first" in text_of(page)

"""People: invited, added, promoted, closed, opened and removed; on the page and by the command line."""

from __future__ import annotations

import io
import re
from datetime import timedelta

import pytest
from allauth.mfa.models import Authenticator
from asgiref.sync import sync_to_async
from django.contrib.auth.models import User
from django.core.management import CommandError, call_command
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse
from django.utils import timezone

from accounts import invitations, roles
from accounts.models import Deed, Device, Invitation
from chat.api_keys import ApiKey
from chat.models import Session, Turn
from chat.sockets import SIGNED_OUT
from feedback.models import Feedback
from privacy import erasures
from tests.sockets import Tab
from tests.webapp.conftest import text_of
from webapp.people import closing

PASSWORD = "correct horse battery"

pytestmark = pytest.mark.django_db


def link_in(page, kind="join") -> str:
    """The path of the link that a page shows, or a command prints."""
    text = page if isinstance(page, str) else page.content.decode()
    return re.search(rf"/{kind}/[\w-]+", text)[0]


def printed(*words: str) -> str:
    out = io.StringIO()
    call_command("people", *words, stdout=out)
    return out.getvalue().strip()


def role_of(name: str) -> str | None:
    return roles.role_of(User.objects.get(username=name))


def deeds() -> list[tuple[str, str]]:
    return [(one.verb, one.about) for one in Deed.objects.filter(kind="people").order_by("pk")]


# ---------- inviting ----------


def test_an_invitation_makes_one_account_in_its_role(console):
    made = console.post(reverse("people:invite"), {"role": "reviewer", "days": "3", "note": "Cleo"})
    assert made.status_code == 201
    link = link_in(made)
    assert link not in console.get(reverse("people:list")).content.decode()  # it is shown once
    secret = link.removeprefix("/join/")
    assert secret not in str(Invitation.objects.values())  # and kept as a hash

    guest = Client()
    assert "You were invited. Your role: reviewer." in text_of(guest.get(link))
    said = {"username": "cleo", "password": PASSWORD, "again": PASSWORD}
    assert guest.post(link, said).status_code == 302
    assert role_of("cleo") == "reviewer"
    assert guest.get(reverse("console:hints")).status_code == 200  # signed in
    assert Client().post(link, said | {"username": "dora"}).status_code == 410
    assert Client().get(link).status_code == 410
    assert not User.objects.filter(username="dora").exists()


def test_an_invitation_ends_after_its_time_and_when_it_is_withdrawn(console, operator):
    row, secret = invitations.invite("talker", by=operator, days=2)
    link = reverse("join", args=[secret])
    assert row.ends_at - row.made_at > timedelta(days=1, hours=23)
    Invitation.objects.filter(pk=row.pk).update(ends_at=timezone.now() - timedelta(seconds=1))
    assert Client().get(link).status_code == 410
    row, secret = invitations.invite("talker", by=operator)
    console.post(reverse("people:withdraw", args=[row.pk]))
    assert Client().get(reverse("join", args=[secret])).status_code == 410


@pytest.mark.parametrize(
    ("said", "told"),
    [
        ({"username": "ana"}, "The name ana is taken"),
        ({"username": "Ana"}, "The name Ana is taken"),
        ({"username": "a\u202eb"}, "holds only characters that are seen"),
        ({"again": "another"}, "The two passwords differ."),
        ({"password": "12345678", "again": "12345678"}, "entirely numeric"),
        ({"username": ""}, "This field is required."),
    ],
)
def test_a_name_or_password_that_cannot_be_spends_no_invitation(operator, said, told):
    _, secret = invitations.invite("talker", by=operator)
    link = reverse("join", args=[secret])
    fields = {"username": "cleo", "password": PASSWORD, "again": PASSWORD}
    refused = Client().post(link, fields | said)
    assert refused.status_code == 422
    assert told in text_of(refused)
    assert Client().post(link, fields).status_code == 302


@pytest.mark.parametrize("days", ["0", "91", "-1", "x", "99999999999"])
def test_an_invitation_that_never_ends_is_refused(console, days):
    answer = console.post(reverse("people:invite"), {"role": "talker", "days": days})
    assert answer.status_code == 422
    assert "1 to 90 days" in text_of(answer)
    assert not Invitation.objects.exists()


def test_no_link_is_written_to_the_log(console, logged):
    link = link_in(console.post(reverse("people:invite"), {"role": "talker", "days": "1"}))
    Client().options(link)
    Client(enforce_csrf_checks=True).post(link)
    assert link.removeprefix("/join/") not in logged.text
    assert "/join/…" in logged.text


def test_strangers_sign_up_only_where_a_setting_lets_them(client, settings):
    said = {"username": "eve", "password": PASSWORD, "again": PASSWORD}
    assert client.post("/sign-up/", said).status_code == 404
    assert "Make an account" not in text_of(client.get("/login/"))
    settings.SIGN_UP = True
    assert client.post("/sign-up/", said).status_code == 302
    assert role_of("eve") == "talker"


def test_accounts_that_are_made_in_a_row_are_slowed(settings):
    settings.SIGN_UP = True
    codes = [
        Client().post("/sign-up/", {"username": f"eve{n}", "password": PASSWORD, "again": PASSWORD}).status_code
        for n in range(12)
    ]
    assert codes.count(302) == 10  # SIGN_UPS.free; the tenth failure makes the next one wait
    assert User.objects.filter(username__startswith="eve").count() == 10


# ---------- the list and one person ----------


def test_an_account_that_an_administrator_makes_is_opened_by_its_link(console):
    made = console.post(reverse("people:add"), {"name": "cleo", "role": "operator", "email": "cleo@example.org"})
    assert made.status_code == 201
    guest = Client()
    link = link_in(made, "reset")
    assert guest.post(link, {"new_password1": PASSWORD, "new_password2": PASSWORD}).status_code == 302
    assert guest.post("/login/", {"username": "cleo", "password": PASSWORD}).status_code == 302
    assert role_of("cleo") == "operator"
    assert deeds()[:1] == [("account made", "operator")]
    assert console.post(reverse("people:add"), {"name": "cleo", "role": "talker"}).status_code == 422


def test_the_list_finds_people_by_name_and_role_a_page_at_a_time(console, talker, operator):
    User.objects.bulk_create([User(username=f"p{n:03}") for n in range(60)])
    page = text_of(console.get(reverse("people:list")))
    assert "62 accounts" in page  # ana, ben and the sixty
    assert "p047" in page  # the fiftieth: ana, ben, p000 to p047
    assert "p048" not in page
    assert "p059" in text_of(console.get(reverse("people:list"), {"after": "p047"}))
    found = text_of(console.get(reverse("people:list"), {"q": "administrator"}))
    assert ">ana<" in found
    assert ">ben<" not in found
    assert "No person here has that name" in text_of(console.get(reverse("people:list"), {"q": "zz"}))


def test_the_pages_ask_few_questions_however_many_people_there_are(console, talker, operator):
    for number in range(60):
        user = User.objects.create_user(f"p{number:03}")
        invitations.invite("talker", by=operator)
    for url in (reverse("people:list"), reverse("people:one", args=[user.pk]), reverse("account:home")):
        with CaptureQueriesContext(connection) as queries:
            assert console.get(url).status_code == 200
        assert len(queries) <= 12, (url, len(queries))


def test_a_role_is_changed_on_the_persons_page(console, talker):
    page = console.post(reverse("people:role", args=[talker.pk]), {"role": "reviewer"}, follow=True)
    assert "ben: now reviewer." in text_of(page)
    assert role_of("ben") == "reviewer"
    assert deeds() == [("role changed", "talker to reviewer")]


def test_the_last_administrator_stays_one(console, operator):
    for page, said in (("role", {"role": "talker"}), ("deactivate", {}), ("remove", {"sure": "ana"})):
        answer = console.post(reverse(f"people:{page}", args=[operator.pk]), said, follow=True)
        assert "ana is the only administrator" in text_of(answer), page
    assert role_of("ana") == "administrator"
    assert [(one.verb, one.outcome) for one in Deed.objects.filter(kind="people").order_by("pk")] == [
        ("role changed", "refused"), ("account closed", "refused"), ("account removed", "refused"),
    ]  # fmt: skip
    for words in (("role", "ana", "talker"), ("deactivate", "ana"), ("remove", "ana", "--yes")):
        with pytest.raises(CommandError, match="ana is the only administrator"):
            printed(*words)


def test_a_closed_account_opens_nothing_until_it_is_opened_again(console, talker):
    talker.set_password(PASSWORD)
    talker.save()
    browser = Client()
    assert browser.post("/login/", {"username": "ben", "password": PASSWORD}).status_code == 302
    _, secret = ApiKey.objects.issue(talker, "laptop")
    console.post(reverse("people:deactivate", args=[talker.pk]))
    assert browser.get("/privacy/").status_code == 302  # to the sign-in
    assert not Device.objects.filter(user=talker).exists()
    assert Client().post("/login/", {"username": "ben", "password": PASSWORD}).status_code == 200
    assert ApiKey.objects.find_open(secret) is None
    assert Client().get("/v1/models", headers={"Authorization": f"Bearer {secret}"}).status_code == 401
    console.post(reverse("people:activate", args=[talker.pk]))
    assert ApiKey.objects.find_open(secret) is not None
    assert Client().post("/login/", {"username": "ben", "password": PASSWORD}).status_code == 302
    assert browser.get("/privacy/").status_code == 302  # a browser that was signed out stays so


@pytest.mark.django_db(transaction=True, serialized_rollback=True)
async def test_open_pages_of_a_closed_account_close_at_once(talker):
    session = await Session.objects.acreate(user=talker)
    async with Tab(f"/ws/chat/{session.pk}/", talker) as tab:
        assert tab.is_open
        await sync_to_async(closing.deactivate)(talker)
        assert await tab.ends() == SIGNED_OUT


def test_a_person_is_removed_with_all_that_is_theirs(console, talker, make_turn, operator):
    turn = make_turn()
    Feedback.objects.give(turn, by=talker, kind="up")
    ApiKey.objects.issue(talker, "laptop")
    browser = Client()
    browser.force_login(talker)
    browser.post(reverse("account:email"), {"email": "ben@example.org"})
    kept = Session.objects.create(user=operator)
    answer = console.post(reverse("people:remove", args=[talker.pk]), {"sure": "no"}, follow=True)
    assert "Nothing was removed" in text_of(answer)
    answer = console.post(reverse("people:remove", args=[talker.pk]), {"sure": "ben"}, follow=True)
    assert "ben is removed, with all conversations." in text_of(answer)
    assert not User.objects.filter(username="ben").exists()
    assert not Turn.objects.exists()
    assert not ApiKey.objects.exists()
    assert list(Session.objects.all()) == [kept]
    rows = Deed.objects.filter(verb="e-mail address changed").values_list("by", "whom", "address")
    assert list(rows) == [(None, None, "")]  # what was decided stays; who it was, and from where, does not


@pytest.mark.django_db(transaction=True, serialized_rollback=True)
def test_a_person_goes_with_the_last_conversation_and_the_page_and_the_command_say_so(console, talker, make_turn):
    make_turn()
    answer = console.post(reverse("people:remove", args=[talker.pk]), {"sure": "ben"}, follow=True)
    assert "ben is removed, with all conversations." in text_of(answer)  # `follow` heard of it first: it was committed
    User.objects.create_user("dora")
    out = io.StringIO()
    call_command("people", "remove", "dora", yes=True, stdout=out)
    assert out.getvalue() == "dora is removed.\n"
    assert not User.objects.filter(username__in=("ben", "dora")).exists()


def test_a_person_with_much_is_closed_at_once_and_removed_when_all_is_gone(console, talker, make_turn, monkeypatch):
    monkeypatch.setattr(erasures, "AT_ONCE", 1)
    for _ in range(3):
        make_turn()
    answer = console.post(reverse("people:remove", args=[talker.pk]), {"sure": "ben"}, follow=True)
    assert "ben is closed, and is removed as soon as all conversations are." in text_of(answer)
    assert not User.objects.get(username="ben").is_active
    assert "is being removed" in text_of(console.get(reverse("people:list")))
    erasures.go_on(talker.erasures.get())
    assert closing.remove_due() == 1
    assert not User.objects.filter(username="ben").exists()


# ---------- the command ----------


def test_the_command_does_what_the_page_does(talker, operator):
    link = link_in(printed("add", "cleo", "--role", "reviewer"), "reset")
    assert Client().get(link).status_code == 200
    assert printed("role", "cleo", "operator") == "cleo was reviewer, and is operator now."
    assert role_of("cleo") == "operator"
    printed("deactivate", "cleo")
    assert role_of("cleo") is None
    assert re.search(r"cleo +operator +closed +never signed in", printed("list"))
    with pytest.raises(CommandError, match="people activate cleo"):
        printed("link", "cleo")
    printed("activate", "cleo")
    assert role_of("cleo") == "operator"
    link = printed("invite", "--role", "talker", "--days", "1", "--address", "https://talk.example.org/")
    assert link.startswith("https://talk.example.org/join/")
    assert Client().get(link_in(link)).status_code == 200
    with pytest.raises(CommandError, match="say --yes"):
        printed("remove", "cleo")
    assert printed("remove", "cleo", "--yes") == "cleo is removed."
    assert {one.by for one in Deed.objects.all()} == {None}
    assert {one.address for one in Deed.objects.all()} == {""}


def test_the_command_lists_invitations_and_withdraws_one():
    first, second = (link_in(printed("invite", "--note", note)) for note in ("for\nzoe", "for ben"))
    beginning = first.removeprefix("/join/")[:6]
    listed = printed("invitations").splitlines()
    assert len(listed) == 2
    shown = rf"(\d+) +{re.escape(beginning)}…  talker +until \d{{4}}-\d\d-\d\d \d\d:\d\d UTC  for\W+zoe"
    number = re.fullmatch(shown, listed[1])[1]
    assert printed("withdraw", number) == "The invitation opens nothing any more."
    assert Client().get(first).status_code == 410
    assert Client().get(second).status_code == 200
    assert [line.split()[-1] for line in printed("invitations").splitlines()] == ["ben"]
    assert Deed.objects.filter(verb="invitation withdrawn").count() == 1
    with pytest.raises(CommandError, match=f"No invitation {number} is open"):
        printed("withdraw", number)


def test_the_command_signs_a_person_out_everywhere_and_removes_a_lost_second_factor(talker):
    def browser():
        one = Client()
        one.force_login(talker)
        assert one.get(reverse("account:home")).status_code == 200
        return one

    browsers = [browser(), browser()]
    assert printed("sign-out", "ben") == "ben is signed out in all browsers."
    assert [one.get(reverse("account:home")).status_code for one in browsers] == [302, 302]
    Authenticator.objects.create(user=talker, type=Authenticator.Type.TOTP, data={})
    last = browser()
    assert printed("remove-factor", "ben") == "ben has no second factor now, and is signed out."
    assert not Authenticator.objects.exists()
    assert last.get(reverse("account:home")).status_code == 302
    with pytest.raises(CommandError, match="ben had no second factor"):
        printed("remove-factor", "ben")
    made = Deed.objects.filter(whom=talker).order_by("pk").values_list("verb", "about", "outcome")
    assert list(made) == [
        ("signed out everywhere", "browsers: 2", "done"),
        ("second factor removed", "", "done"),
        ("second factor removed", "", "refused"),
    ]


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("sign-out", "zoe"), "no person called 'zoe'"),
        (("role", "zoe", "talker"), "no person called 'zoe'"),
        (("add", "ana"), "The name ana is taken"),
        (("add", "a b"), "Enter a valid username"),
        (("invite", "--days", "365"), "1 to 90 days"),
        (("remove", "zoe", "--yes"), "no person called 'zoe'"),
    ],
)
def test_the_command_says_what_is_wrong(operator, words, told):
    with pytest.raises(CommandError, match=told):
        printed(*words)

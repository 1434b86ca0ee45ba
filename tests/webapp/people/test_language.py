"""Each person reads pages and e-mails in the language that they chose; programs read English."""

from __future__ import annotations

import pytest
from django.core import mail
from django.template import Context, Template
from django.test import Client
from django.urls import reverse
from django.utils import translation
from django.utils.translation import trans_real

from accounts.models import Account
from chat.api_keys import ApiKey
from chat.models import Session, Turn
from checkpoints.models import Checkpoint
from tests.webapp.conftest import text_of
from webapp import glossary
from webapp.notifications import sending
from webapp.notifications.models import Announcement, Delivery
from webapp.people import password_reset

pytestmark = pytest.mark.django_db

SPANISH = {"Accept-Language": "es-MX,es;q=0.9,en;q=0.5"}


@pytest.fixture
def german(monkeypatch):
    """Says these messages so in German, whatever the catalogue has."""

    def says(**words: str) -> None:
        for english, said in words.items():
            monkeypatch.setitem(trans_real.translation("de")._catalog._catalogs[0], english, said)

    return says


@pytest.fixture
def own(client, talker):
    client.force_login(talker)
    return client


def choose(client, code, **headers):
    return client.post(reverse("language"), {"language": code}, headers=headers)


def language_of(answer) -> tuple[str, str]:
    """What a page says of its language: to browsers in its markup, and in its header."""
    return answer.content.decode().split('<html lang="')[1].split('"')[0], answer.headers["Content-Language"]


def test_a_page_is_in_the_first_language_that_a_browser_asks_for_and_is_here(client):
    for asked, code in (
        ("es-MX,es;q=0.9", "es"),
        ("zh-CN", "zh-hans"),
        ("fr,de;q=0.5", "de"),
        ("fr", "en"),
        ("", "en"),
    ):
        assert language_of(client.get("/login/", headers={"Accept-Language": asked})) == (code, code)


def test_the_choice_is_kept_and_wins_over_what_the_browser_asks_for(own, talker):
    there = reverse("settings:home")
    assert language_of(own.get(there, headers=SPANISH)) == ("es", "es")
    assert choose(own, "de").headers["Location"] == there
    assert language_of(own.get(there, headers=SPANISH)) == ("de", "de")
    elsewhere = Client()
    elsewhere.force_login(talker)
    assert language_of(elsewhere.get(there, headers=SPANISH)) == ("de", "de")


def test_as_the_browser_asks_undoes_the_choice(own, talker):
    choose(own, "de")
    choose(own, "")
    assert language_of(own.get(reverse("settings:home"), headers=SPANISH)) == ("es", "es")
    assert Account.objects.get(user=talker).language == ""


def test_a_language_that_is_not_here_is_a_404_and_changes_nothing(own, talker):
    choose(own, "de")
    assert [choose(own, code).status_code for code in ("fr", "de-AT", "../de")] == [404] * 3
    assert Account.objects.get(user=talker).language == "de"
    assert own.get("/words/fr.js").status_code == 404


def test_a_stranger_is_asked_to_sign_in_and_keeps_no_choice(client):
    assert choose(client, "de").headers["Location"].startswith("/login/")


def test_the_card_offers_each_language_by_its_own_name_and_shows_the_choice(own):
    page = text_of(own.get(reverse("settings:home")))
    for code, name in (("en", "English"), ("de", "Deutsch"), ("es", "Español"), ("zh-hans", "简体中文")):
        assert f'<option value="{code}" lang="{code}">{name}</option>' in page
    choose(own, "de")
    assert '<option value="de" lang="de" selected>Deutsch</option>' in text_of(own.get(reverse("settings:home")))


def test_what_is_said_after_the_choice_is_in_the_new_language(own, german):
    german(**{"Saved.": "Gespeichert."})
    choose(own, "de")
    page = text_of(own.get(reverse("settings:home")))
    assert 'role="status">Gespeichert.</p>' in page


def test_the_api_speaks_english_to_a_person_who_reads_german(own, talker, german):
    german(**{"not taught yet": "noch nicht gelehrt", "Not learned: %(why)s.": "Nicht gelernt: %(why)s."})
    key, secret = ApiKey.objects.issue(talker, "test")
    turn = Turn.objects.create(
        session=Session.objects.create(user=talker, key=key),
        position=0,
        status="served",
        finish_reason="stop",
        messages=[{"role": "user", "content": "What is tea?"}],
        text="A drink.",
        checkpoint=Checkpoint.live(),
        completion_id="chatcmpl-tea",
    )
    choose(own, "de")
    assert "noch nicht gelehrt" in text_of(own.get(reverse("chat:session", args=[turn.session_id])))
    asked = {"Authorization": f"Bearer {secret}", "Accept-Language": "de"}
    with translation.override("de"):  # as where a page tries the API out
        answer = own.get("/v1/completions/chatcmpl-tea/learning", headers=asked)
    assert answer.json()["label"] == "not taught yet"
    assert "Content-Language" not in answer.headers


@pytest.mark.parametrize(("code", "subject"), [("de", "Neues Passwort"), ("", "Set a new password for Talkback")])
def test_a_link_for_a_password_is_mailed_in_the_language_that_its_person_chose(talker, german, settings, code, subject):
    german(**{"Set a new password for Talkback": "Neues Passwort", "Hello %(who)s,": "Hallo %(who)s,"})
    settings.EMAIL_HOST = "mail.example.org"
    talker.email = "ben@example.org"
    talker.save()
    Account.objects.filter(user=talker).update(language=code)
    with translation.override("es"):  # as the person reads who asked for it
        assert password_reset.mail("ben", "https://talk.example.org") == 1
    [letter] = mail.outbox
    assert letter.subject == subject
    assert letter.body.startswith("Hallo ben," if code else "Hello ben,")


def test_a_notice_is_mailed_in_the_language_that_its_person_chose(operator, german):
    german(**{"What you are told, and how: %(address)s": "Was Ihnen gesagt wird: %(address)s"})
    operator.email = "ana@example.org"
    operator.save()
    for code in ("de", ""):
        told = Announcement.objects.create(event="disk", key=f"disk {code}", text="1 GB is left.", path="/console/")
        Account.objects.filter(user=operator).update(language=code)
        sending.deliver(Delivery.objects.create(announcement=told, person=operator).pk)
    in_german, in_english = (letter.body for letter in mail.outbox)
    assert "Was Ihnen gesagt wird: http" in in_german
    assert "What you are told, and how: http" in in_english


# The words of these pages


def test_the_glossary_is_told_in_each_readers_language_and_none_is_kept_for_another(german):
    gate = glossary.terms()["gate"]
    german(**{"gate": "Tor", gate.text: "die *Prüfung* davor.", "What is “%(name)s”?": "Was ist „%(name)s“?"})
    page = Template('{% load shell %}{% words "gate" %}')
    english = page.render(Context())
    with translation.override("de"):
        shown = page.render(Context())
    assert 'aria-label="Was ist „Tor“?"' in shown
    assert "<strong>Tor</strong> <span>die <em>Prüfung</em> davor.</span>" in shown
    assert 'id="about-gate"' in shown  # its address stays
    assert page.render(Context()) == english


def test_a_name_of_an_entry_that_has_several_is_told_alone(german):
    german(**{"poll, quorum": "Umfrage, Quote", "thumb, tag": "Daumen"})
    with translation.override("de"):
        assert glossary.terms()["quorum"].called("quorum") == "Quote"
        assert glossary.terms()["tag"].called("tag") == "Daumen"  # the translation has one name for both
    assert glossary.terms()["quorum"].called("Quorum") == "Quorum"


def test_all_that_the_glossary_says_is_listed_for_translators():
    told = list(glossary.messages())
    assert {"Talking", "poll, quorum", "a program that talks to Talkback"} <= {words.split(";")[0] for words in told}
    # a heading for each part, and a title and a meaning for each entry
    assert len(told) == len(glossary.parts()) + 2 * sum(len(part.terms) for part in glossary.parts())
    assert not [words for words in told if "Code:" in words or not words]


def test_people_are_found_by_a_role_as_the_reader_calls_it(client, talker, operator, german):
    german(**{"operator": "Betrieb", "administrator": "Verwaltung"})
    client.force_login(operator)  # who was made with a console, and is an administrator
    choose(client, "de")
    for word in ("Verwaltung", "administrator"):
        page = text_of(client.get(reverse("people:list"), {"q": word}))
        assert ">ana</a>" in page
        assert ">ben</a>" not in page


def test_a_browser_that_was_kept_in_english_is_named_in_the_readers_language(client, talker, german):
    german(**{"%(browser)s on %(system)s": "%(browser)s auf %(system)s"})
    talker.set_password("correct horse battery")
    talker.save()
    agent = "Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0"
    here = Client(headers={"User-Agent": agent})
    here.post("/login/", {"username": "ben", "password": "correct horse battery"})
    assert "<strong>Firefox on Linux</strong>" in text_of(here.get(reverse("account:home")))
    choose(here, "de")
    assert "<strong>Firefox auf Linux</strong>" in text_of(here.get(reverse("account:home")))


@pytest.mark.parametrize("code", ["de", "es", "zh-hans"])
def test_each_of_these_pages_is_drawn_in_each_language(client, operator, code):
    client.force_login(operator)
    choose(client, code)
    own = (
        "settings:home",
        "account:home",
        "privacy:home",
        "preferences:own",
        "help:glossary",
        "helped:home",
        "mfa_index",
    )
    theirs = (
        reverse("people:one", args=[operator.pk]),
        reverse("people:list"),
        reverse("preferences:people"),
        "/nowhere/",
    )
    for page in (*map(reverse, own), *theirs):
        answer = client.get(page)
        assert answer.status_code == (404 if page == "/nowhere/" else 200)
        assert language_of(answer) == (code, code)

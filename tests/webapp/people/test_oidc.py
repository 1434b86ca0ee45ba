"""Sign in by OpenID Connect, against a provider that speaks real HTTP and signs with a real key."""

from __future__ import annotations

import copy

import pytest
from cryptography.hazmat.primitives.asymmetric import rsa
from django.contrib.auth.models import User
from django.core.exceptions import ImproperlyConfigured
from django.test import Client
from django.urls import reverse

from accounts import roles
from accounts.models import Deed
from tests.doubles.openid_provider import CLIENT, SECRET, provider
from tests.webapp.conftest import text_of
from webapp.settings_readers import mapped_roles

pytestmark = pytest.mark.django_db
LOGIN = "/oidc/oidc/login/"
CLEO = {"sub": "42", "email": "cleo@example.org", "email_verified": True, "preferred_username": "cleo"}


@pytest.fixture
def idp(settings):
    with provider() as made:
        settings.OIDC_ISSUER = made.issuer
        settings.OIDC_DOMAINS = ["example.org"]
        configured = copy.deepcopy(settings.SOCIALACCOUNT_PROVIDERS)
        (app,) = configured["openid_connect"]["APPS"]
        app |= {"client_id": CLIENT, "secret": SECRET, "settings": app["settings"] | {"server_url": made.issuer}}
        settings.SOCIALACCOUNT_PROVIDERS = configured
        made.claims = CLEO
        yield made


def come_in(idp, browser: Client | None = None, **query: str):
    """The whole way: to the provider, and back. Returns the browser and the last answer."""
    browser = browser or Client()
    left = browser.get(LOGIN, query)
    assert left.status_code == 302, text_of(left)
    back = idp.sign_in(left["Location"])
    return browser, browser.get(back.removeprefix("http://testserver"))


def who_is_in(browser: Client) -> str | None:
    pk = browser.session.get("_auth_user_id")
    return User.objects.get(pk=pk).username if pk else None


def test_a_verified_address_of_our_domain_gets_a_talkers_account(idp):
    browser, answer = come_in(idp)
    assert (answer.status_code, answer["Location"]) == (302, "/")
    assert who_is_in(browser) == "cleo"
    cleo = User.objects.get()
    assert roles.role_of(cleo) == "talker"
    assert not cleo.has_usable_password()
    assert set(idp.asked) == {"/.well-known/openid-configuration", "/token", "/keys"}
    again, _ = come_in(idp)
    assert who_is_in(again) == "cleo"
    assert User.objects.count() == 1
    assert "signed in by OpenID Connect" in set(Deed.objects.filter(by=cleo).values_list("verb", flat=True))


def test_it_leads_back_to_the_page_that_was_asked_for(idp):
    _, answer = come_in(idp, next="/privacy/")
    assert answer["Location"] == "/privacy/"
    _, answer = come_in(idp, next="https://evil.example/")
    assert answer["Location"] == "/"


@pytest.mark.parametrize(
    "claims",
    [
        {"email": "cleo@elsewhere.org"},
        {"email": "cleo@notexample.org"},
        {"email": "cleo@example.org@elsewhere.org"},
        {"email_verified": False},
        {"email_verified": "true"},
        {"email": ""},
    ],
)
def test_others_get_no_account(idp, claims):
    idp.claims = CLEO | claims
    browser, answer = come_in(idp)
    assert answer.status_code == 403
    assert "You have no account here" in text_of(answer)
    assert who_is_in(browser) is None
    assert not User.objects.exists()
    assert Deed.objects.get().outcome == "refused"


@pytest.mark.parametrize(
    "bent", [{"aud": "another client"}, {"iss": "https://evil.example"}, {"exp": 1}], ids=["audience", "issuer", "old"]
)
def test_a_token_for_others_or_from_others_is_refused(idp, bent):
    idp.bent = bent
    browser, answer = come_in(idp)
    assert "Signing in did not work" in text_of(answer)
    assert who_is_in(browser) is None
    assert not User.objects.exists()


def test_a_token_that_another_key_signed_is_refused(idp):
    idp.signs_with = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    browser, answer = come_in(idp)
    assert "Signing in did not work" in text_of(answer)
    assert who_is_in(browser) is None
    assert not User.objects.exists()


def test_an_answer_that_this_browser_did_not_ask_for_is_refused(idp):
    back = idp.sign_in(Client().get(LOGIN)["Location"])
    victim = Client()
    answer = victim.get(back.removeprefix("http://testserver"))
    assert "Signing in did not work" in text_of(answer)
    assert who_is_in(victim) is None


def test_groups_give_roles_at_each_sign_in(idp, settings, operator):
    settings.OIDC_DOMAINS, settings.OIDC_ROLES = [], {"staff": "operator", "root": "administrator"}
    idp.claims = CLEO | {"groups": ["people", "staff"]}
    come_in(idp)
    cleo = User.objects.get(username="cleo")
    assert roles.role_of(cleo) == "operator"
    idp.claims = CLEO | {"groups": ["staff", "root"]}  # the highest counts
    come_in(idp)
    assert roles.role_of(User.objects.get(pk=cleo.pk)) == "administrator"
    idp.claims = CLEO | {"groups": []}  # no group of ours any more
    _, answer = come_in(idp)
    assert answer.status_code == 403
    idp.claims = CLEO | {"groups": "staff"}
    come_in(idp)
    assert roles.role_of(User.objects.get(pk=cleo.pk)) == "operator"


def test_the_last_administrator_is_demoted_by_no_provider(idp, settings):
    settings.OIDC_ROLES = {"staff": "operator", "root": "administrator"}
    idp.claims = CLEO | {"groups": ["root"]}
    come_in(idp)
    idp.claims = CLEO | {"groups": ["staff"]}
    browser, _ = come_in(idp)
    assert who_is_in(browser) == "cleo"
    assert roles.role_of(User.objects.get()) == "administrator"


def test_an_address_or_a_name_of_a_local_account_gives_nothing_of_it(idp, operator):
    operator.email = CLEO["email"]
    operator.save()
    User.objects.create_user("cleo")
    browser, _ = come_in(idp)
    assert who_is_in(browser) not in (None, "ana", "cleo")
    assert User.objects.count() == 3


def test_a_local_account_is_connected_by_who_is_signed_in_to_it(idp, talker):
    talker.set_password("correct horse battery")
    talker.save()
    here = Client()
    here.force_login(talker)
    assert "Connect with your organisation" in text_of(here.get(reverse("account:home")))
    come_in(idp, here, process="connect")
    assert "This account is connected." in text_of(here.get(reverse("account:home")))
    browser, _ = come_in(idp)
    assert who_is_in(browser) == "ben"
    here.post(reverse("oidc_disconnect"))
    idp.claims = CLEO | {"email": "x@elsewhere.org"}
    assert come_in(idp)[1].status_code == 403


def test_a_closed_account_stays_closed(idp):
    come_in(idp)
    User.objects.update(is_active=False)
    browser, answer = come_in(idp)
    assert who_is_in(browser) is None
    assert "This account is closed." in text_of(browser.get(answer["Location"]))


def test_without_a_provider_there_is_none_and_nothing_is_asked(client, monkeypatch):
    monkeypatch.setattr("requests.Session.request", lambda *args, **kwargs: pytest.fail("a request left"))
    assert "Sign in with your" not in text_of(client.get("/login/"))
    assert client.get(LOGIN).status_code == 404
    assert client.get("/oidc/oidc/callback/?code=1&state=2").status_code == 404


def test_with_one_local_accounts_and_links_keep_working(idp, client, talker):
    talker.set_password("correct horse battery")
    talker.save()
    assert "Sign in with your organisation" in text_of(client.get("/login/"))
    assert client.post("/login/", {"username": "ben", "password": "correct horse battery"}).status_code == 302
    assert idp.asked == []


def test_roles_that_are_none_are_refused_at_the_start():
    assert mapped_roles("staff=operator, a=b=talker") == {"staff": "operator", "a=b": "talker"}
    for wrong in ("staff", "staff=king", "=talker"):
        with pytest.raises(ImproperlyConfigured, match="OIDC_ROLES has"):
            mapped_roles(wrong)

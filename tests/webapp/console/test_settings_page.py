"""The page of this installation's settings: each with its value, and of secrets whether they are set alone."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from django.urls import reverse

from tests.webapp.conftest import text_of
from webapp.console.system.settings_source import known

pytestmark = pytest.mark.django_db

REFERENCE = Path(__file__).parents[3] / "docs" / "reference" / "settings.md"
MARKER = "xyzzy-no-page-may-show-this"
SECRETS = [
    "SECRET_KEY", "ENGINE_API_KEY", "ENGINE_ADMIN_KEY", "TINKER_API_KEY", "JUDGE_API_KEY", "EMAIL_HOST_PASSWORD",
    "OIDC_CLIENT_SECRET", "WANDB_API_KEY", "TALKBACK_KEY", "DATABASE_URL", "REDIS_URL", "JUDGES", "SGLANG_ARGS",
]  # fmt: skip
URLS = ["ENGINE_URL", "ROUTER_URL", "SPARE_ENGINE_URL", "TINKER_URL", "JUDGE_URL", "OIDC_ISSUER", "TALKBACK_URL"]
LISTED = ["ENGINE_URLS", "CSRF_TRUSTED_ORIGINS", "CORS_ORIGINS"]
"""Addresses with commas between."""


@pytest.fixture
def give(monkeypatch, settings):
    """Give a setting a value as a start does: in the environment, and as Django then has it."""

    def give(name, value, as_django_has_it=None):
        monkeypatch.setenv(name, value)
        if hasattr(settings, name):
            setattr(settings, name, as_django_has_it or value)

    return give


@pytest.fixture
def row(console):
    """The cells of a setting's row, without markup."""

    def row(name):
        page = text_of(console.get(reverse("console:settings")))
        cells = re.findall(r"<t[hd].*?</t[hd]>", re.search(rf'<tr id="{name}">(.*?)</tr>', page)[1])
        return [re.sub(r"<[^>]+>", "", cell).strip() for cell in cells][:3]

    return row


def test_every_setting_of_the_reference_stands_on_the_page(console):
    page = console.get(reverse("console:settings")).content.decode()
    shown = re.findall(r'<tr id="(\w+)">', page)
    listed = re.findall(r"^- `(\w+)`", REFERENCE.read_text(encoding="utf-8"), re.MULTILINE)
    assert sorted(shown) == listed
    assert len(listed) > 90


def test_of_a_secret_the_page_says_only_that_it_is_set(console, operator, give):
    for name in SECRETS:
        give(name, f"{MARKER}-{name}")
    console.force_login(operator)  # another SECRET_KEY knows no session from before
    page = text_of(console.get(reverse("console:settings")))
    assert "xyzzy" not in page
    for name in SECRETS:
        said = re.search(rf'<tr id="{name}">.*?<td><span class="chip good">(\w+)</span></td>', page)
        assert said[1] == "set", name


def test_a_secret_that_is_not_there_is_not_set(monkeypatch, row):
    monkeypatch.delenv("JUDGE_API_KEY", raising=False)
    assert row("JUDGE_API_KEY")[1:] == ["not set", "as by default"]


@pytest.mark.parametrize(
    "address",
    [
        f"https://ana:{MARKER}@there.example",
        f"https://{MARKER}@there.example/v1",
        f"ana:{MARKER}@there.example",
        f"https://there.example/v1?key={MARKER}",
    ],
)
def test_no_part_of_an_address_with_a_credential_is_shown(console, give, address):
    for name in URLS + LISTED:
        give(name, address, [address] if name in LISTED else None)
    page = text_of(console.get(reverse("console:settings")))
    assert "xyzzy" not in page
    assert "there.example" not in page
    for name in URLS + LISTED:
        assert re.search(rf'<tr id="{name}">((?!</tr>).)*<span class="chip good">set</span>', page), name


def test_an_address_that_another_setting_fills_keeps_its_credential_too(console, settings, row):
    settings.ENGINE_URL = f"https://ana:{MARKER}@there.example"  # as the first of ENGINE_URLS becomes it
    assert "xyzzy" not in console.get(reverse("console:settings")).content.decode()
    assert row("ENGINE_URL")[1] in ("set", "not set")


def test_a_secret_inside_another_value_hides_that_one(console, give, row):
    give("JUDGE_API_KEY", MARKER)
    give("JUDGE_URL", f"https://there.example/{MARKER}/v1")
    assert "xyzzy" not in console.get(reverse("console:settings")).content.decode()
    assert row("JUDGE_URL")[1] == "set"


def test_every_setting_whose_name_sounds_secret_is_among_those_that_were_tried():
    sounds = {one.name for one in known() if re.search("(KEY|SECRET|PASSWORD|TOKEN)(_|$)", one.name)}
    assert sounds <= set(SECRETS)


def test_every_address_is_among_those_that_were_tried():
    ends = {one.name for one in known() if re.search("(URLS?|ISSUER|ORIGINS)$", one.name)}
    assert ends <= {*SECRETS, *URLS, *LISTED}


def test_a_row_says_the_value_the_default_and_how_it_is_changed(console, give, row, monkeypatch):
    monkeypatch.delenv("RETAIN_LAST", raising=False)
    assert row("RETAIN_LAST")[1:] == ["10", "as by default"]
    give("RETAIN_LAST", "3", 3)
    assert row("RETAIN_LAST")[1:] == ["3", "changed 10"]
    page = text_of(console.get(reverse("console:settings")))
    assert re.search(r"make up RETAIN_LAST=…</code><br><span[^>]*>remembered for later starts", page)
    assert re.search(r"make up PORT=…</code><br><span[^>]*>to be given at each start", page)
    assert "How many retired checkpoints of each line keep their weights, however old." in page
    assert '<h2 id="group-1" lang="en">Where it is reached</h2>' in page


@pytest.mark.parametrize(
    ("wanted", "found"),
    [
        ("retain_last", ["RETAIN_LAST"]),
        ("retired checkpoints", ["RETAIN_LAST"]),  # both words of its meaning
        ("weights stay", ["RETAIN_LAST", "RETAIN_DAYS", "DISK_RESERVE_MB"]),  # of the part
        ("zzzz", []),
    ],
)
def test_the_search_looks_in_names_parts_and_meanings(console, wanted, found):
    page = console.get(reverse("console:settings"), {"q": wanted}).content.decode()
    assert re.findall(r'<tr id="(\w+)">', page) == found
    assert ("No setting has these words." in page) == (found == [])


def test_the_search_finds_no_value(console, give):
    give("JUDGE_API_KEY", MARKER)
    page = console.get(reverse("console:settings"), {"q": "xyzzy"}).content.decode()
    assert re.findall(r'<tr id="(\w+)">', page) == []


def test_what_a_meaning_sets_in_backticks_is_code_on_the_page(console):
    page = text_of(console.get(reverse("console:settings"), {"q": "SECRET_KEY"}))
    assert "Signs sessions and links; <code>make up</code> makes one, containers have to be given one." in page
    assert "`" not in text_of(console.get(reverse("console:settings")))


def test_nothing_can_be_posted(console):
    assert console.post(reverse("console:settings"), {"RETAIN_LAST": "3"}).status_code == 405

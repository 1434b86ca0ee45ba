"""The frame of each page: a bar, a person's menu, and a rail of six entries that leads to every page of the console."""

from __future__ import annotations

import re
from html import unescape

import pytest
from django.urls import URLPattern, URLResolver, get_resolver, reverse

from tests.webapp.conftest import text_of
from webapp.console import navigation

SIX = ["Overview", "Review", "Training", "Checkpoints", "People", "System"]
ROOMS = ("console", "worlds", "connect", "preferences", "settings", "privacy", "helped")

FOR_SCRIPTS = {"console:waiting", "privacy:erasing", "console:overlay", "console:overlay_figures"}
"""What a page of ours asks for by itself, or a form of a list that is empty here."""


SAY_MORE = {"console:settings", "console:helped", "admin:index"}
"""Settings and Did it help? say whose, as each person has such a page as well; Django heads its own page."""


def rail_of(page: str) -> str:
    return page[page.index('<nav aria-label="Console">') : page.index("</aside>")]


def menu_of(page: str) -> str:
    return page[page.index('<nav aria-label="Yours">') : page.index('action="/logout/"')]


def names(patterns, space="") -> list[tuple[str, object]]:
    """Every named address that takes no argument, with its namespace, and its view."""
    found = []
    for one in patterns:
        if isinstance(one, URLResolver):
            inner = ":".join(filter(None, (space, one.namespace)))
            found += names(one.url_patterns, inner) if not one.pattern.regex.groups else []
        elif isinstance(one, URLPattern) and one.name and not one.pattern.regex.groups:
            found.append((f"{space}:{one.name}" if space else one.name, one.callback))
    return found


def links(page: str) -> set[str]:
    return {re.split(r"[?#]", href)[0] for href in re.findall(r'href="([^"]*)"', page)}


def test_the_rail_has_six_entries(console):
    page = text_of(console.get(reverse("console:board")))
    titles = re.findall(r'class="rail-entry"[^>]*><svg.*?</svg> ([^<]+?) ?</', rail_of(page))
    assert titles == SIX


def test_each_page_of_the_console_is_found_in_two_clicks(console):
    """The first opens an entry of the rail or the person's menu, the second a page of it; or a page that stands in the
    rail links to it."""
    board = text_of(console.get(reverse("console:board")))
    named = links(rail_of(board)) | links(menu_of(board))
    open_pages = [text_of(console.get(url)) for url in named if url != reverse("admin:index")]
    linked = set().union(*map(links, open_pages))
    lost = []
    for name, _ in names(get_resolver().url_patterns):
        if name.split(":")[0] not in ROOMS or name in FOR_SCRIPTS:
            continue
        url = reverse(name)
        if url not in named and console.get(url).status_code != 405 and url not in linked:
            lost.append(name)
    assert lost == []


@pytest.mark.parametrize("view", ["console:board", "people:list", "consent:home", "preferences:people", "worlds:home"])
def test_the_bar_says_that_a_page_of_the_console_is_open(console, view):
    page = text_of(console.get(reverse(view)))
    assert '<a href="/console/" aria-current="page">Console</a>' in page


@pytest.mark.parametrize(
    ("view", "entry", "tab"),
    [
        ("console:board", "Overview", "Overview"),
        ("console:run", "Training", "Runs"),
        ("console:schedule", "Training", "Schedule"),
        ("console:hint", "Review", "Hints"),
        ("console:turn", "Review", "Latest replies"),
        ("console:policy", "People", "Teams"),
        ("connect:keys", "People", "Keys"),
        ("connect:new", "System", "Connect"),
        ("preferences:of", "Review", "What people ask for"),
        ("console:comparison", "Checkpoints", "Compare"),
    ],
)
def test_a_page_opens_its_entry_and_its_tab(operator, view, entry, tab):
    found = navigation.rail(view, operator)
    assert [one.title for one in found if one.is_open] == [entry]
    assert [one.title for each in found for one in each.tabs if one.is_open] == [tab]


def pages_of_the_rail():
    places = [place for _title, _icon, inside in navigation.ENTRIES for place in inside]
    return [(place.view, str(place.title)) for place in places if place.view not in SAY_MORE]


@pytest.mark.parametrize(("view", "tab"), pages_of_the_rail())
def test_a_page_is_headed_and_titled_by_the_words_that_led_to_it(console, view, tab):
    page = unescape(text_of(console.get(reverse(view))))
    assert f"<title>{tab} · Talkback</title>" in page
    assert re.search(r"<h1>\s*(.*?)\s*</h1>", page)[1] == tab


def test_a_page_that_is_not_there_is_not_named(operator, monkeypatch):
    nowhere = (navigation.Place("Nowhere", "console:nowhere"), navigation.Place("Runs", "console:runs"))
    monkeypatch.setattr(navigation, "ENTRIES", (("Training", "training", nowhere), ("Empty", "empty", nowhere[:1])))
    found = navigation.rail("", operator)
    assert [(one.title, [tab.title for tab in one.tabs]) for one in found] == [("Training", ["Runs"])]


@pytest.mark.parametrize("page", ["/", "/connect/", "/privacy/", "/settings/", "/worlds/"])
def test_who_does_not_run_it_sees_no_console_and_finds_their_own_pages_in_the_menu(client, talker, page):
    client.force_login(talker)
    shown = text_of(client.get(page))
    assert reverse("console:board") not in links(shown)
    assert '<aside id="rail"' not in shown
    menu = links(menu_of(shown))
    assert menu >= {"/settings/", "/preferences/", "/privacy/", "/connect/", "/connect/keys/", "/worlds/", "/helped/"}


def test_a_stranger_has_no_menu(client, db):
    page = text_of(client.get(reverse("login")))
    assert "Sign out" not in page
    assert 'aria-label="Yours"' not in page


def test_the_menu_says_which_page_is_open(console):
    menu = menu_of(text_of(console.get("/privacy/")))
    assert '<a href="/privacy/" aria-current="page">Privacy</a>' in menu
    assert menu.count("aria-current") == 1


def test_health_names_what_does_not_answer_and_what_to_do(console, monkeypatch):
    from webapp import health

    async def look():
        return {"redis": health.Check(False, "Redis does not answer: start it again."), "disk": health.Check(True)}

    monkeypatch.setattr(health, "look", look)
    page = text_of(console.get(reverse("console:health")))
    assert "One part does not answer." in page
    assert '<th scope="row">Redis</th><td><span class="chip bad">does not answer</span>' in page
    assert "Redis does not answer: start it again." in page


def test_the_schedule_says_the_rules_and_what_holds_training_back(console, settings):
    settings.LEARN_HOURS, settings.LEARN_IDLE_S = "22:00-07:00", "300"
    page = text_of(console.get(reverse("console:schedule")))
    assert "<dt>Hours</dt><dd>22:00-07:00" in page
    assert "after 300 seconds without chat" in page
    console.post(reverse("console:pause"), {"reason": "a demo"})
    assert "paused by ana (a demo)" in text_of(console.get(reverse("console:schedule")))


def test_a_schedule_that_cannot_be_read_says_so(console, settings):
    settings.LEARN_HOURS = "at night"
    page = text_of(console.get(reverse("console:schedule")))
    assert "LEARN_HOURS holds &#x27;at night&#x27;: a range of hours looks like 22:00-07:00." in page

"""Each route is asked for as each role and as a stranger, and lets in exactly those that the one table names."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

import pytest
from asgiref.sync import sync_to_async
from django.contrib.auth.models import User
from django.test import Client
from django.urls import get_resolver

from accounts.models import RANKS, Role
from accounts.roles import give
from chat.api.access import SCOPES
from chat.api_keys import ApiKey
from chat.models import Session
from chat.sockets import NOT_YOURS, SIGNED_OUT
from tests.sockets import Tab
from tests.webapp.people.routes import ANY, KEYS, PAGES, PUBLIC, SOCKETS
from webapp.urls import websocket_urlpatterns

STRANGER = "stranger"
FILLED = {"uuid": "00000000-0000-4000-8000-000000000000", "uuidstr": "00000000-0000-4000-8000-000000000000"}
"""What stands for a part of a path, by its converter: nothing that there is. Of others, a 9."""


def routes(resolver=None, space=(), before="") -> Iterator[tuple[str, str]]:
    """Every route of the urlconf: its name with its namespace, and its path."""
    for one in (resolver or get_resolver()).url_patterns:
        path = before + str(one.pattern)
        if hasattr(one, "url_patterns"):
            yield from routes(one, (*space, one.namespace) if one.namespace else space, path)
        else:
            yield ":".join((*space, one.name or "")), path


def least(name: str) -> str | None:
    """The least role of a route, by the table."""
    return PAGES.get(name) or PAGES.get(name.partition(":")[0] + ":" if ":" in name else "")


def filled(path: str) -> str:
    path = re.sub(r"\^\(\?P<app_label>(\w+)[^)]*\)/\$", r"\1/", path).replace("(?P<url>.*)$", "9")
    return "/" + re.sub(r"<(?:(\w+):)?\w+>", lambda found: FILLED.get(found[1], "9"), path)


ROUTES = [(name, path) for name, path in routes() if not path.startswith("v1/")]
OF_API = sorted({path for _, path in routes() if path.startswith("v1/")})


@pytest.fixture
def people(db) -> dict[str, User | None]:
    """One person of each role, and none."""
    found: dict[str, User | None] = {STRANGER: None}
    for role in Role:
        found[role] = User.objects.create_user(f"a-{role}")
        give(found[role], role)
    User.objects.create_user("a-second-administrator", is_staff=True)
    return found


def answers(browser: Client, name: str, path: str) -> dict[str, str]:
    """What a browser hears, by method: let in, or refused. A method that is none of the route's is not told."""
    found = {}
    for method in ("get",) if name.startswith("admin:") else ("get", "post"):  # those are for reading alone
        answer = getattr(browser, method)(path)
        if answer.status_code == 405:
            continue
        to_login = answer.status_code == 302 and answer["Location"].startswith("/login/?next=")
        found[method] = "refused" if to_login or answer.status_code in (401, 403) else "let in"
        assert answer.status_code < 500 or path in ("/readyz", "/console/engines/repair/"), (path, answer.status_code)
    return found


def test_every_route_is_in_the_table_and_every_row_is_a_route():
    names = {name for name, _ in ROUTES}
    assert sorted(name for name in names if least(name) is None) == []
    assert sorted(row for row in PAGES if not row.endswith(":") and row not in names) == []
    assert set(OF_API) == set(KEYS)
    assert [str(one.pattern) for one in websocket_urlpatterns if str(one.pattern)] == list(SOCKETS)


@pytest.mark.parametrize("who", [STRANGER, *Role])
def test_each_page_lets_in_exactly_the_roles_of_the_table(people, engine, who):
    rank = -1 if who == STRANGER else RANKS[Role(who)]
    wrong, asked, browser = [], 0, Client()
    if people[who] is not None:
        browser.force_login(people[who])
    for name, path in sorted(ROUTES, key=lambda route: "logout" in route[0]):
        needed = least(name)
        expected = "let in" if needed == PUBLIC or rank >= RANKS[Role(needed)] else "refused"
        heard = answers(browser, name, filled(path))
        asked += len(heard)
        if not heard or set(heard.values()) != {expected}:
            wrong.append((name, expected, heard))
    assert wrong == []
    assert asked >= len(ROUTES)


def test_each_route_of_the_api_lets_in_exactly_the_scopes_of_the_table(people, engine):
    secrets = {scope: ApiKey.objects.issue(people["talker"], scope, scopes=[scope])[1] for scope in SCOPES}
    wrong = []
    for path in OF_API:
        needed = KEYS[path]
        for scope in ("none", *SCOPES):
            headers = {"Authorization": f"Bearer {secrets[scope]}"} if scope != "none" else {}
            for method in ("get", "post"):
                answer = getattr(Client(), method)(
                    filled(path), headers=headers, **({"content_type": "application/json"} if method == "post" else {})
                )
                if answer.status_code == 405:
                    continue
                refused = answer.status_code == 401 or "insufficient_scope" in answer.content.decode(errors="replace")
                expected = needed == PUBLIC or (scope != "none" and needed in (ANY, scope))
                if refused == expected:
                    wrong.append((path, scope, method, answer.status_code))
    assert wrong == []


def test_an_admin_key_is_as_good_as_its_owner(people):
    """A key for administration opens nothing where its owner is no administrator, or was demoted."""
    from chat.api.access import ScopeMissing, check_scope

    for role in Role:
        key, _ = ApiKey.objects.issue(people[role], "admin", scopes=["admin"])
        if role == Role.ADMINISTRATOR:
            check_scope(key, "admin")
        else:
            with pytest.raises(ScopeMissing):
                check_scope(key, "admin")


@pytest.mark.django_db(transaction=True, serialized_rollback=True)
async def test_each_socket_stays_open_for_exactly_the_roles_of_the_table(make_run):
    run = await sync_to_async(make_run)("running")
    for who in (STRANGER, *Role):
        person = None
        if who != STRANGER:
            person = await User.objects.acreate_user(f"b-{who}")
            await sync_to_async(give)(person, who)
            if who == Role.ADMINISTRATOR:
                await User.objects.acreate_user("second", is_staff=True)
        for path, needed in SOCKETS.items():
            chat = await Session.objects.acreate(user=person) if person else None
            url = path.replace("<uuid:pk>", str(chat.pk) if chat else FILLED["uuid"]).replace("<row:pk>", str(run.pk))
            async with Tab(f"/{url}", person) as tab:
                is_let_in = person is not None and RANKS[Role(who)] >= RANKS[Role(needed)]
                if is_let_in:
                    assert tab.is_open, (who, path)
                    assert await tab.is_silent() or await tab.hears(), (who, path)
                else:
                    assert await tab.ends() == (NOT_YOURS if person else SIGNED_OUT), (who, path)


def test_the_page_says_who_may(people):
    browser = Client()
    browser.force_login(people["reviewer"])
    page = browser.get("/console/runs/")
    assert page.status_code == 403
    assert "This page is for operators. An administrator can make you one." in page.content.decode()


def test_no_page_of_the_console_leads_a_reviewer_to_a_closed_one(people, engine):
    """Links that a person would only be refused at are left out of the navigation and the overview."""
    browser = Client()
    browser.force_login(people["reviewer"])
    for path in ("/console/", "/console/hints/", "/console/judges/"):
        page = browser.get(path).content.decode()
        links = {link for link in re.findall(r'href="(/[^"?#]*)', page) if not link.startswith("/static")}
        assert {link: browser.get(link).status_code for link in links if browser.get(link).status_code == 403} == {}


def test_the_table_covers_the_api_as_its_schema_lists_it():
    schema = json.loads(Client().get("/v1/openapi.json").content)
    listed = {path.lstrip("/") for path in schema["paths"]}
    ours = {re.sub(r"<(?:\w+:)?(\w+)>", r"{\1}", path) for path in KEYS if KEYS[path] != PUBLIC}
    assert ours == listed

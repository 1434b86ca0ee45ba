"""The list of chats: dated groups, pins, folders, the archive, a menu for each row."""

from __future__ import annotations

from datetime import date, datetime, timedelta

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from chat import turns
from chat.api_keys import ApiKey
from chat.listing import pages
from chat.listing.folders import Folder
from chat.models import Session

pytestmark = pytest.mark.django_db

HTMX = {"HX-Request": "true", "HX-Current-URL": "http://testserver/chats/new/"}


@pytest.fixture
def own(ana) -> Client:
    client = Client()
    client.force_login(ana)
    return client


@pytest.fixture
def chat(ana):
    def chat(title="Rain", days=0, **fields) -> Session:
        at = timezone.now() - timedelta(days=days)
        return Session.objects.create(user=ana, title=title, active_at=at, **fields)

    return chat


def titles(answer) -> list[str]:
    return [one.title for one in answer.context["own"].rows]


def at(day: int, month: int = 11) -> Session:
    return Session(active_at=datetime(2026, month, day, 12, tzinfo=timezone.get_current_timezone()))


def test_chats_are_grouped_by_the_day_they_were_last_active():
    rows = [at(29), at(28), at(27), at(22), at(21), at(1), at(30, month=10)]
    groups = pages.group_by_date(rows, date(2026, 11, 29))
    # The 22nd is seven days before the 29th; the 21st is not among the last seven.
    assert [(one.kind, one.month, len(one.rows)) for one in groups] == [
        ("today", None, 1),
        ("yesterday", None, 1),
        ("week", None, 2),
        ("month", date(2026, 11, 1), 2),
        ("month", date(2026, 10, 1), 1),
    ]


def test_a_page_that_goes_on_within_a_group_has_no_second_heading():
    groups = pages.group_by_date([at(2), at(30, month=10)], date(2026, 11, 29), after=at(3).active_at)
    assert [one.is_continued for one in groups] == [True, False]


def test_the_list_stays_small_and_quick_with_a_thousand_chats(own, ana):
    key, _ = ApiKey.objects.issue(ana, "laptop")
    folder = Folder.objects.create(user=ana, name="Work")
    now = timezone.now()
    rows = [{}, {"key": key}, {"folder": folder}, {"pinned_at": now}, {"archived_at": now}]
    Session.objects.bulk_create(
        Session(user=ana, title=f"Chat {n} " + "long " * 20, active_at=now - timedelta(hours=n), **rows[n % 5])
        for n in range(1000)
    )
    with CaptureQueriesContext(connection) as asked:
        answer = own.get("/chats/new/")
    # The sign-in (2), consent, folders, pinned and own, through keys, who answers now (3) and the notices of the bar.
    assert len(asked) <= 12, [one["sql"] for one in asked]
    assert len(answer.content) < 200_000
    assert len(answer.context["own"].rows) == pages.LISTED + pages.PINNED


def test_each_chat_is_listed_once_wherever_it_was_put(own, chat, ana):
    chat("Plain")
    pinned, filed, stored = chat("Pinned", days=90), chat("Filed"), chat("Stored")
    own.post(f"/chats/{pinned.pk}/pin/", {"pinned": "yes"})
    own.post(f"/chats/{filed.pk}/move/", {"name": "Work"})
    own.post(f"/chats/{stored.pk}/archive/", {"archived": "yes"})
    answer = own.get("/chats/new/")
    assert titles(answer) == ["Pinned", "Plain"]
    assert answer.context["own"].groups[0].kind == "pinned"
    folder = Folder.objects.get(user=ana)
    assert [(one.name, one.chats) for one in answer.context["folders"]] == [("Work", 1)]
    assert [one.title for one in own.get(f"/chats/folders/{folder.pk}/").context["chats"].rows] == ["Filed"]
    assert [one.title for one in own.get("/chats/archive/").context["chats"].rows] == ["Stored"]
    own.post(f"/chats/{pinned.pk}/pin/", {"pinned": "no"})
    own.post(f"/chats/{stored.pk}/archive/", {"archived": "no"})
    assert titles(own.get("/chats/new/")) == ["Stored", "Plain", "Pinned"]


def test_a_folder_that_is_removed_leaves_its_chats(own, chat, ana):
    filed = chat("Filed")
    own.post(f"/chats/{filed.pk}/move/", {"name": "Work"})
    folder = Folder.objects.get()
    own.post(f"/chats/folders/{folder.pk}/rename/", {"name": "Play"})
    own.post(f"/chats/{chat('Other').pk}/move/", {"name": "pLAY"})  # the same one, in whatever case
    assert [(one.name, one.sessions.count()) for one in Folder.objects.all()] == [("Play", 2)]
    own.post(f"/chats/folders/{folder.pk}/remove/")
    assert not Folder.objects.exists()
    assert sorted(titles(own.get("/chats/new/"))) == ["Filed", "Other"]


def test_a_folder_keeps_a_name_of_its_own(own, ana):
    Folder.objects.create(user=ana, name="Work")
    other = Folder.objects.create(user=ana, name="Play")
    answer = own.post(f"/chats/folders/{other.pk}/rename/", {"name": "work"}, follow=True)
    assert "You have a folder of that name already" in answer.content.decode()
    other.refresh_from_db()
    assert other.name == "Play"


@pytest.mark.parametrize("what", ["manage", "rename", "pin", "archive", "move", "delete", "restore"])
def test_another_persons_chat_is_out_of_reach(own, ben, what):
    foreign = Session.objects.create(user=ben, title="Secret", deleted_at=timezone.now() if what == "restore" else None)
    send = own.get if what == "manage" else own.post
    assert send(f"/chats/{foreign.pk}/{what}/", {"title": "x", "name": "x"}).status_code == 404
    assert Session.objects.filter(pk=foreign.pk, title="Secret", pinned_at=None, archived_at=None).exists()


def test_another_persons_folder_is_out_of_reach(own, chat, ben):
    mine, folder = chat(), Folder.objects.create(user=ben, name="Secret")
    assert own.get(f"/chats/folders/{folder.pk}/").status_code == 404
    assert own.post(f"/chats/folders/{folder.pk}/remove/").status_code == 404
    assert own.post(f"/chats/{mine.pk}/move/", {"folder": folder.pk}).status_code == 404
    assert "Secret" not in own.get(f"/chats/{mine.pk}/manage/").content.decode()


def test_the_menu_is_a_part_for_the_list_and_a_page_without_scripts(own, chat):
    one = chat()
    part, page = (own.get(f"/chats/{one.pk}/manage/", headers=head).content.decode() for head in (HTMX, {}))
    for text in (part, page):
        assert all(word in text for word in ("Rename", "Pin", "Archive", "Move", "Delete"))
    assert "<html" not in part
    assert "<html" in page


def test_what_is_done_in_the_list_brings_it_back(own, chat):
    one, open_one = chat("Rain", days=1), chat("Snow")
    head = HTMX | {"HX-Current-URL": f"http://testserver/chats/{open_one.pk}/"}
    text = own.post(f"/chats/{one.pk}/rename/", {"title": "Storm"}, headers=head).content.decode()
    assert "Storm" in text
    assert text.count('aria-current="page"') == 1
    refused = own.post(f"/chats/{one.pk}/rename/", {"title": ""}, headers=head)
    assert (refused.status_code, "A chat needs a name." in refused.content.decode()) == (422, True)


@pytest.mark.parametrize("back", ["https://evil.example/", "//evil.example", "javascript:alert(1)"])
def test_no_form_leads_away(own, chat, back):
    one = chat()
    assert own.post(f"/chats/{one.pk}/pin/", {"pinned": "yes", "back": back}).url == f"/chats/{one.pk}/"
    assert "evil" not in own.get(f"/chats/{one.pk}/manage/", {"back": back}).content.decode()


@pytest.mark.parametrize(
    ("said", "title"),
    [
        ("# Fix **this** `code`", "Fix this code"),
        ("- [x] see [the docs](https://example.org)", "[x] see the docs"),
        ("```python\nprint(1)\n```", "print(1)"),
        ("What is 2*3*4 and a_b_c?", "What is 2*3*4 and a_b_c?"),
        ("***", "***"),
    ],
)
def test_a_title_shows_no_markdown(said, title):
    assert turns.title_of([{"role": "user", "content": said}]) == title

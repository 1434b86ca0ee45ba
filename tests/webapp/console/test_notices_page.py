"""Notices stand on every page of the console until an operator reads them."""

from __future__ import annotations

import pytest
from django.urls import reverse

from checkpoints import notices
from checkpoints.models import Checkpoint
from tests.webapp.conftest import text_of
from webapp.console import fragments

HERE = "/console/runs/"


@pytest.mark.parametrize("page", ["/console/", "/console/checkpoints/", "/console/hints/", "/connect/"])
def test_a_notice_stands_on_every_page_of_the_console(console, page):
    notices.tell("disk", "1 GB is left on <the disk>.", level="error")
    assert "1 GB is left on &lt;the disk&gt;." in text_of(console.get(page))


def test_it_is_read_by_a_click_and_the_person_is_back_where_they_were(console, operator):
    notice = notices.tell("disk", "1 GB is left.")
    answer = console.post(reverse("console:notice_read", args=[notice.pk]), {"back": HERE})
    assert answer.url == HERE
    notice.refresh_from_db()
    assert notice.read_by == operator
    assert "1 GB is left." not in text_of(console.get(HERE))
    assert "read by ana" in text_of(console.get(reverse("console:notices")))


def test_no_form_sends_a_person_elsewhere(console):
    notice = notices.tell("disk", "1 GB is left.")
    answer = console.post(reverse("console:notice_read", args=[notice.pk]), {"back": "https://elsewhere.example/"})
    assert answer.url == reverse("console:notices")


def test_by_htmx_the_rest_takes_its_place(console):
    notice = notices.tell("disk", "1 GB is left.")
    notices.tell("guard", "It was rolled back.")
    answer = console.post(reverse("console:notice_read", args=[notice.pk]), headers={"HX-Request": "true"})
    assert "It was rolled back." in text_of(answer)
    assert "1 GB is left." not in text_of(answer)
    assert "<html" not in text_of(answer)


def test_an_open_board_hears_of_it(operator):
    notices.tell("disk", "1 GB is left.")
    assert "1 GB is left." in fragments.render(operator)["notices"]


def test_many_are_counted_and_not_all_shown(console):
    for number in range(5):
        notices.tell("", f"Thing {number}.")
    page = text_of(console.get(HERE))
    assert "Thing 4." in page
    assert "Thing 1." not in page  # three are shown, the newest
    assert "2 more notices" in page


def test_who_does_not_run_it_neither_sees_nor_reads_notices(client, talker):
    notice = notices.tell("disk", "1 GB is left.")
    client.force_login(talker)
    assert "1 GB is left." not in text_of(client.get("/connect/"))
    assert client.post(reverse("console:notice_read", args=[notice.pk])).status_code == 403


# A candidate that waits


@pytest.mark.parametrize("page", [HERE, "/console/notices/", "/console/checkpoints/0/"])
def test_a_candidate_that_waits_is_named_on_every_page_until_a_person_has_decided(console, make_checkpoint, page):
    candidate = make_checkpoint(1)
    assert "talkback@1 has learned and waits for a yes." in text_of(console.get(page))
    Checkpoint.objects.filter(pk=candidate.pk).update(status="rejected")
    assert "waits for a yes" not in text_of(console.get(page))


def test_where_it_is_said_already_it_is_not_said_twice(console, make_checkpoint):
    make_checkpoint(1)
    for page in ("/console/", "/console/checkpoints/1/"):
        assert "has learned and waits for a yes" not in text_of(console.get(page))


def test_a_script_hears_of_what_waits_and_of_nothing_held(console, make_checkpoint):
    make_checkpoint(1)
    make_checkpoint(2, is_on_hold=True)
    make_checkpoint(3, "candidate")
    found = console.get(reverse("console:waiting")).json()
    assert [(one["tag"], one["title"], one["url"]) for one in found["news"]] == [
        ("talkback@1", "talkback@1 waits for you", "/console/checkpoints/1/")
    ]


def test_who_does_not_run_it_hears_of_no_candidate(client, talker, make_checkpoint):
    make_checkpoint(1)
    client.force_login(talker)
    assert client.get(reverse("console:waiting")).status_code == 403
    assert "notify.js" not in text_of(client.get("/"))

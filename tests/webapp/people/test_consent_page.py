"""The page of what each person allows: for operators, paged, without a word of theirs, and to read alone."""

from __future__ import annotations

import re
from datetime import UTC, datetime

import pytest
from django.contrib.auth.models import User
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.urls import reverse
from django.utils import timezone

from accounts import roles
from accounts.models import Role
from chat.models import Session, Turn
from chat.usual_consent import Consent
from checkpoints.models import Checkpoint, Line, Member
from privacy import consent
from tests.webapp.conftest import text_of

pytestmark = pytest.mark.django_db

PAGE = "/console/people/consent/"
WORDS = "My secret garden"


@pytest.fixture
def rows(console, operator):
    """Each person's cells on the page, as an operator sees them."""
    roles.give(User.objects.create_user("zoe", is_staff=True), Role.ADMINISTRATOR)
    roles.give(operator, Role.OPERATOR)

    def rows(**query):
        page = text_of(console.get(PAGE, query))
        cells = [re.findall(r"<t[hd].*?</t[hd]>", row) for row in re.findall(r"<tr>(.*?)</tr>", page)[1:]]
        plain = [[re.sub(r"<[^>]+>", "", cell).strip() for cell in row] for row in cells]
        return {row[0]: row[1:] for row in plain}

    return rows


def counted(page: str) -> list[str]:
    return re.findall(r"<dd>(\d+)</dd>", page)


def test_it_says_of_each_person_what_they_allow(console, talker, rows):
    line = Line.objects.create(name="team", title="Team", start=Checkpoint.live())
    Member.objects.create(user=talker, line=line, pools=True)
    Consent.objects.create(user=talker, learns=False, changed_at=datetime(2026, 3, 5, 9, 30, tzinfo=UTC))
    cleo = User.objects.create_user("cleo", is_active=False)
    Member.objects.create(user=cleo, line=line)
    for learns in (False, False, True):
        Session.objects.create(user=talker, learns=learns)
    Session.objects.create(user=talker, learns=False, deleted_at=timezone.now())  # the bin's is not counted
    found = rows()
    assert found["ben"] == ["do not teach", "is taught too", "2", "talker", "open", "5 Mar 2026, 09:30"]
    assert found["cleo"] == ["may teach", "is not taught", "0", "talker", "closed", "never"]
    assert found["ana"] == ["may teach", "is theirs", "0", "operator", "open", "never"]
    # ana, ben, cleo, zoe; all but ben teach; ben pools; two chats of ben's
    assert counted(text_of(console.get(PAGE))) == ["4", "3", "1", "2"]


def test_who_has_said_nothing_goes_by_the_setting(console, rows, settings, talker):
    settings.LEARN_BY_DEFAULT = False
    assert {row[0] for row in rows().values()} == {"do not teach"}
    assert "For a person who has said nothing, new chats do not teach here." in text_of(console.get(PAGE))
    consent.set_default(talker, True)
    assert rows()["ben"][0] == "may teach"
    assert counted(text_of(console.get(PAGE)))[1] == "1"


def test_no_word_of_theirs_stands_there(console, talker, rows):
    chat = Session.objects.create(user=talker, learns=False, title=WORDS, instructions=WORDS)
    said = [{"role": "user", "content": WORDS}]
    Turn.objects.create(session=chat, position=0, checkpoint=Checkpoint.live(), messages=said, text=WORDS)
    assert rows()["ben"][2] == "1"
    assert "garden" not in text_of(console.get(PAGE))


def test_it_changes_nothing_and_says_whose_it_is_to_change(console, rows):
    page = text_of(console.get(PAGE))
    assert "This page changes nothing: what may be learned from is each person’s own to say" in page
    assert f'<a href="{reverse("privacy:home")}">Privacy</a>' in page
    main = page.split("<main", 1)[1]
    assert 'method="post"' not in main
    assert console.post(PAGE, {"learns": "on"}).status_code == 405


def test_it_is_paged_searched_and_asks_as_often_for_many_as_for_few(console, rows):
    rows()  # what is kept for a while is kept now
    with CaptureQueriesContext(connection) as few:
        console.get(PAGE)
    for number in range(60):
        person = User.objects.create_user(f"p{number:02}")
        Session.objects.create(user=person, learns=False)
        Consent.objects.create(user=person, learns=False)
    with CaptureQueriesContext(connection) as many:
        first = text_of(console.get(PAGE))
    assert len(many) <= 12
    assert len(many) <= len(few)
    # ana, then p00 to p48 are fifty
    assert re.search(r'href="\?after=(\w+)"', first)[1] == "p48"
    assert list(rows(after="p48")) == [*(f"p{number}" for number in range(49, 60)), "zoe"]
    assert list(rows(q="P07")) == ["p07"]
    assert rows(q="none of them") == {}


def test_a_reviewer_is_told_whom_it_is_for(console, operator, rows):
    roles.give(operator, Role.REVIEWER)
    assert console.get(PAGE).status_code == 403

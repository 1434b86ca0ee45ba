"""What leaves as mail or as a table is text there too: no header, no markup, no formula."""

from __future__ import annotations

import csv
import io
import json
from uuid import uuid4

import pytest
from asgiref.sync import async_to_sync
from django.contrib.auth.models import User
from django.core import mail
from django.test import Client
from django.urls import reverse

from accounts.models import Deed, Role
from accounts.roles import give
from tests.webapp.payloads import texts
from webapp.notifications.models import Announcement, Delivery
from webapp.notifications.sending import send_email
from webapp.people import password_reset

HEADERS = "\r\nBcc: zz@example.org\r\nContent-Type: text/html\r\n\r\n"


@pytest.fixture
def mia(db) -> User:
    name = texts.text("", "auth.User.username", lines=False) + HEADERS
    mia = User.objects.create_user("mia", email="mia@example.org")
    give(mia, Role.ADMINISTRATOR)
    User.objects.filter(pk=mia.pk).update(username=name)  # no form lets it in; a row from elsewhere might hold it
    mia.refresh_from_db()
    return mia


def one_mail() -> mail.EmailMessage:
    """The one that went: plain text to mia alone."""
    (sent,) = mail.outbox
    message = sent.message()
    assert sent.recipients() == ["mia@example.org"]
    assert "Bcc" not in message
    assert message.get_content_type() == "text/plain"
    assert not message.is_multipart()
    return sent


def test_a_notice_by_mail_holds_a_hostile_text_as_plain_text_in_one_part_and_one_subject(mia):
    said = HEADERS + texts.text("", "Announcement.text", lines=True)
    announced = Announcement.objects.create(event="candidate", key=uuid4().hex, text=said, path="/console/")
    send_email(Delivery.objects.create(announcement=announced, person=mia))
    sent = one_mail()
    assert "\n" not in str(sent.subject)
    assert all(piece in sent.body for piece in texts.PIECES)  # as it stands, and nothing quoted as for a page


def test_a_link_for_a_new_password_greets_a_hostile_name_as_plain_text(mia):
    assert password_reset.mail("mia@example.org", "https://talkback.example") == 1
    assert all(piece in one_mail().body for piece in texts.PIECES)


def downloaded(client: Client, name: str) -> str:
    """What this address streams."""
    streamed = client.get(reverse(name)).streaming_content

    async def joined() -> bytes:
        return b"".join([part async for part in streamed])

    return async_to_sync(joined)().decode()


@pytest.mark.django_db(transaction=True)
def test_no_cell_of_a_table_begins_as_a_formula_whatever_white_space_is_before_it(client, mia):
    for place, start in enumerate(texts.FORMULAS):
        by = User.objects.create_user(f"person {place}")
        User.objects.filter(pk=by.pk).update(username=f"{start}{texts.FORMULA}{place}")
        Deed.objects.create(kind="people", verb=f"{start}added", about=start + texts.FORMULA, by=by, whom=by)
    client.force_login(mia)
    table = downloaded(client, "console:audit_csv")
    cells = [cell for row in csv.reader(io.StringIO(table, newline="")) for cell in row]
    assert sum(texts.FORMULA in cell for cell in cells) >= 3 * len(texts.FORMULAS)  # by, about and whom of each
    assert [cell for cell in cells if cell.strip()[:1] in {"=", "+", "-", "@"}] == []


@pytest.mark.django_db(transaction=True)
def test_each_line_of_the_log_is_one_object_that_says_a_hostile_text_as_it_stands(client, mia):
    about = texts.text("", "accounts.Deed.about", lines=True)
    Deed.objects.create(kind="people", verb="added", about=about, by=mia)
    client.force_login(mia)
    log = downloaded(client, "console:audit_jsonl")
    assert about in [value for line in log.removesuffix("\n").split("\n") for value in json.loads(line).values()]

"""A webhook gets a signed message, again until it takes it, and never twice under another id."""

from __future__ import annotations

import hashlib
import hmac
import json
import time

import pytest
from django.utils import timezone

from tests.webapp.conftest import text_of
from webapp.notifications import sending
from webapp.notifications.models import Announcement, Delivery, Webhook

PAGE = "/console/webhooks/"


@pytest.fixture
def delivery(db, receiver) -> Delivery:
    hook = Webhook.objects.create(url=receiver.url, secret="sesame", events=["disk"])
    announced = Announcement.objects.create(event="disk", key="notice 1", text="1 GB ist übrig.", path="/console/")
    return Delivery.objects.create(announcement=announced, webhook=hook)


def make(console, url, **fields):
    return console.post(f"{PAGE}make/", {"url": url, "events": ["disk"], **fields})


def test_a_message_says_what_happened_and_is_signed_with_its_time(delivery, receiver):
    before = int(time.time())
    done = sending.deliver(delivery.pk)
    assert (done.status, done.answer) == ("sent", "It answered 204.")
    [(path, headers, content)] = receiver.heard
    assert path == "/hook?team=a"
    assert headers["Host"] == receiver.url.split("/")[2]
    said = json.loads(content)
    assert (said["id"], said["event"], said["text"]) == (str(delivery.pk), "disk", "1 GB ist übrig.")
    assert said["url"].endswith("/console/")
    at, signed = (part.split("=")[1] for part in headers["Talkback-Signature"].split(","))
    assert before <= int(at) <= time.time()
    assert signed == hmac.new(b"sesame", f"{at}.".encode() + content, hashlib.sha256).hexdigest()


def test_one_that_is_refused_is_tried_again_under_its_id_and_later_each_time(delivery, receiver):
    receiver.code = 503
    tries = []
    for _ in range(sending.ATTEMPTS):
        Delivery.objects.filter(pk=delivery.pk).update(due_at=timezone.now())
        done = sending.deliver(delivery.pk)
        tries.append((done.status, round((done.due_at - timezone.now()).total_seconds())))
    assert tries == [
        ("waiting", 30), ("waiting", 60), ("waiting", 120), ("waiting", 240), ("waiting", 480), ("failed", 960),
    ]  # fmt: skip
    assert {headers["Talkback-Delivery"] for _, headers, _ in receiver.heard} == {str(delivery.pk)}
    assert done.answer == "It answered 503."
    Delivery.objects.filter(pk=delivery.pk).update(due_at=timezone.now())
    assert sending.deliver(delivery.pk) is None
    assert len(receiver.heard) == sending.ATTEMPTS


def test_one_that_arrived_or_is_being_sent_is_not_sent_again(delivery, receiver):
    sending.deliver(delivery.pk)
    assert sending.deliver(delivery.pk) is None
    Delivery.objects.filter(pk=delivery.pk).update(status="sending")  # by another worker, which has its time
    assert sending.deliver(delivery.pk) is None
    assert len(receiver.heard) == 1


def test_a_redirect_is_not_followed(delivery, receiver):
    receiver.code = 302
    done = sending.deliver(delivery.pk)
    assert (done.status, done.answer) == ("waiting", "It answered 302.")
    assert [path for path, _, _ in receiver.heard] == ["/hook?team=a"]


def test_an_address_that_leads_inside_by_now_is_not_posted_to(delivery, receiver, settings):
    settings.WEBHOOKS_INSIDE = False
    done = sending.deliver(delivery.pk)
    assert done.status == "waiting"
    assert "inside this machine or its network" in done.answer
    assert receiver.heard == []


def test_a_receiver_that_is_away_is_told_of_in_words(delivery, receiver):
    receiver.server.server_close()
    done = sending.deliver(delivery.pk)
    assert (done.status, done.answer.startswith("No answer: ")) == ("waiting", True)


def test_the_page_makes_one_shows_its_secret_once_and_tests_it(console, receiver):
    made = text_of(make(console, receiver.url))
    hook = Webhook.objects.get()
    assert (hook.url, hook.events) == (receiver.url, ["disk"])
    assert hook.secret in made
    assert hook.secret not in text_of(console.get(PAGE))
    page = text_of(console.post(f"{PAGE}{hook.pk}/test/", follow=True))
    assert "It answered 204." in page
    [(_, headers, content)] = receiver.heard
    assert headers["Talkback-Event"] == json.loads(content)["event"] == "test"
    receiver.code = 500
    page = text_of(console.post(f"{PAGE}{hook.pk}/test/", follow=True))
    assert '<span class="chip bad">failed</span>' in page
    console.post(f"{PAGE}{hook.pk}/remove/")
    assert not Webhook.objects.exists()


def test_an_address_inside_is_refused_on_the_page_with_what_to_do(console, db):
    answer = make(console, "http://127.0.0.1:6379/")
    assert answer.status_code == 422
    assert "To allow that, start with WEBHOOKS_INSIDE=1." in text_of(answer)
    assert not Webhook.objects.exists()


def test_a_webhook_without_an_event_is_refused(console, receiver):
    answer = console.post(f"{PAGE}make/", {"url": receiver.url})
    assert "Choose at least one event." in text_of(answer)


def test_only_who_runs_it_sees_webhooks(client, talker):
    client.force_login(talker)
    assert client.get(PAGE).status_code == 403
    assert make(client, "https://example.org/").status_code == 403

"""What happens is announced once to each that wants it, and sent until it arrives."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.core import mail
from django.utils import timezone

from checkpoints import notices
from tests.webapp.conftest import text_of
from webapp.notifications import events, sending
from webapp.notifications.models import Announcement, Choice, Delivery, Event, Webhook


@pytest.fixture
def sent(monkeypatch) -> list[str]:
    """What workers were nudged to deliver."""
    nudged: list[str] = []
    monkeypatch.setattr(events, "nudge", lambda pk: nudged.append(str(pk)))
    return nudged


@pytest.fixture
def hook(db) -> Webhook:
    return Webhook.objects.create(url="https://example.org/hook", events=[*Event.values])


def announced() -> list[tuple[str, str]]:
    return list(Announcement.objects.order_by("pk").values_list("event", "text"))


def test_a_candidate_that_waits_is_announced_once(make_checkpoint, hook, sent):
    make_checkpoint(1)
    make_checkpoint(2, is_on_hold=True)
    assert events.announce() == 1
    assert events.announce() == 0
    assert announced() == [("candidate", "talkback@1 has learned and waits for a yes. Have a look at what changed.")]
    assert Announcement.objects.get().path == "/console/checkpoints/1/"
    assert Delivery.objects.get().webhook == hook


@pytest.mark.parametrize(
    ("key", "level", "event"),
    [
        ("disk", "warning", "disk"),
        ("guard shared", "error", "rolled_back"),
        ("swap shared", "error", "rolled_back"),
        ("guard shared 1 ups", "warning", None),  # the guard tells and changes nothing
        ("wish 1 shared", "info", None),
    ],
)
def test_a_notice_is_announced_as_the_event_that_it_is(db, sent, key, level, event):
    notices.tell(key, "It happened.", level=level)
    events.announce()
    assert announced() == ([(event, "It happened.")] if event else [])


def test_a_failed_run_and_a_stop_that_is_stuck_for_minutes_are_learning_that_is_stuck(
    make_run, make_turn, workers, sent
):
    run = make_run("failed", error="No room.", finished_at=timezone.now())
    turn = make_turn("observed")
    workers.never_heard("judge")
    events.announce()
    assert announced() == [("stuck", f"Run {run.pk} failed, and nothing was learned. No room.")]
    type(turn).objects.filter(pk=turn.pk).update(moved_at=timezone.now() - timedelta(seconds=301))
    events.announce()
    events.announce()
    assert announced()[1:] == [("stuck", "Stuck: Judge. Waiting for a judge worker: none has answered yet.")]


def test_what_failed_before_today_is_no_news(make_run, sent):
    make_run("failed", finished_at=timezone.now() - timedelta(days=2))
    assert events.announce() == 0
    assert announced() == []


def test_a_webhook_hears_of_what_it_asked_for_alone(db, hook, sent):
    Webhook.objects.filter(pk=hook.pk).update(events=["candidate"])
    notices.tell("disk", "1 GB is left.")
    assert events.announce() == 0
    assert announced() == [("disk", "1 GB is left.")]


def test_a_person_is_written_to_by_email_who_chose_so(operator, talker, sent, settings):
    settings.EMAIL_HOST = "mail.example.org"
    for person in (operator, talker):
        person.email = f"{person.username}@example.org"
        person.save()
        Choice.objects.create(person=person, event="disk", email=True)
    notices.tell("disk", "The disk is filling up. 1 GB is left.\nSee Storage.")
    assert events.announce() == 1  # ben does not run this Talkback
    one = sending.deliver(Delivery.objects.get().pk)
    [letter] = mail.outbox
    assert (letter.to, letter.subject) == (["ana@example.org"], "Talkback: The disk is filling up")
    assert "/console/storage/" in letter.body
    assert str(one.pk) in letter.extra_headers["Message-ID"]
    assert one.status == "sent"


def test_who_chose_nothing_gets_no_email_and_hears_in_the_browser(console, operator, sent):
    operator.email = "ana@example.org"
    operator.save()
    notices.tell("disk", "1 GB is left.")
    assert events.announce() == 0
    [news] = console.get("/console/notices/waiting/").json()["news"]
    assert (news["title"], news["body"], news["url"]) == (
        "The disk is filling up",
        "1 GB is left.",
        "/console/storage/",
    )
    Choice.objects.create(person=operator, event="disk", browser=False)
    assert console.get("/console/notices/waiting/").json() == {"news": []}


def test_a_delivery_that_lost_its_worker_is_tried_again_by_the_sweep(hook, sent):
    notices.tell("disk", "1 GB is left.")
    events.announce()
    [pk] = sent
    Delivery.objects.update(status="sending", attempts=1, due_at=timezone.now() + timedelta(seconds=60))
    events.announce()
    assert sent == [pk]  # it is being sent
    Delivery.objects.update(due_at=timezone.now() - timedelta(seconds=1))
    events.announce()
    assert sent == [pk, pk]


def test_settings_keep_one_choice_a_person_and_event(console, operator):
    said = {"email": "ana@example.org", "browser": ["candidate"], "by_email": ["disk", "stuck"]}
    page = text_of(console.post("/settings/notices/", said, follow=True))
    assert "Saved." in page
    rows = Choice.objects.filter(person=operator).values_list("event", "browser", "email")
    assert set(rows) == {
        ("candidate", True, False), ("rolled_back", False, False), ("stuck", False, True), ("disk", False, True),
    }  # fmt: skip
    assert 'name="by_email" value="disk" aria-label="The disk is filling up: by e-mail" checked' in page
    operator.refresh_from_db()
    assert operator.email == "ana@example.org"


@pytest.mark.parametrize("email", ["", "not an address"])
def test_email_without_an_address_is_refused_with_what_to_do(console, email):
    answer = console.post("/settings/notices/", {"email": email, "by_email": ["disk"]})
    assert answer.status_code == 422
    assert "e-mail address" in text_of(answer) or "valid email" in text_of(answer)
    assert not Choice.objects.exists()


def test_who_does_not_run_it_chooses_no_notices(client, talker):
    client.force_login(talker)
    assert client.post("/settings/notices/", {"by_email": []}).status_code == 403
    assert "What you are told" not in text_of(client.get("/settings/"))

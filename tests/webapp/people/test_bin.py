"""The bin: a chat is gone at once, teaches nothing, can be taken back, and is deleted for good in the end."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.test import Client
from django.utils import timezone

from chat.api_keys import ApiKey
from chat.models import Session, Turn
from feedback.models import Feedback
from judge.models import Hint
from privacy import bin as chat_bin
from tests.webapp.conftest import text_of
from training.models import Sample
from webapp.people.own_data import own_export

pytestmark = pytest.mark.django_db

HTMX = {"HX-Request": "true"}


@pytest.fixture
def page(talker) -> Client:
    client = Client()
    client.force_login(talker)
    return client


def delete(page, pk, here=""):
    return page.post(f"/chats/{pk}/delete/", headers=HTMX | {"HX-Current-URL": f"http://testserver{here}"})


def test_a_deleted_chat_is_gone_at_once_and_undo_brings_it_back(page, make_turn):
    turn = make_turn(text="Paris, of course.")
    Session.objects.update(title="France")
    answer = text_of(delete(page, turn.session_id, "/chats/new/"))
    assert "“France” is in the bin." in answer
    assert "Undo" in answer
    assert page.get(f"/chats/{turn.session_id}/").status_code == 404
    assert "France" not in text_of(page.get("/chats/new/"))
    assert "France" in text_of(page.get("/chats/bin/"))
    assert "7 days left" in text_of(page.get("/chats/bin/"))
    page.post(f"/chats/{turn.session_id}/restore/", headers=HTMX)
    assert page.get(f"/chats/{turn.session_id}/").status_code == 200


def test_the_chat_on_the_page_gives_way_to_a_new_one_with_undo(page, make_turn):
    turn = make_turn()
    here = f"/chats/{turn.session_id}/"
    answer = delete(page, turn.session_id, here)
    assert answer.headers["HX-Redirect"] == f"/chats/new/?gone={turn.session_id}"
    text = text_of(page.get(answer.headers["HX-Redirect"]))
    assert "is in the bin." in text
    page.post(f"/chats/{turn.session_id}/restore/")
    assert "is in the bin." not in text_of(page.get(answer.headers["HX-Redirect"]))


def test_what_is_in_the_bin_teaches_nothing_and_teaches_again_when_taken_back(page, make_lesson, talker):
    turn = make_lesson().turn
    Feedback.objects.give(turn, by=talker, kind="thumb", value=1)
    assert Sample.objects.filter(status=Sample.Status.READY).exists()
    chat_bin.discard(turn.session)
    assert not Sample.objects.exists()
    assert not Hint.objects.exists()
    assert not Turn.objects.trainable().exists()
    chat_bin.restore(turn.session)
    turn.refresh_from_db()
    # Its verdict is due again: what its person said of it has stayed.
    assert turn.status == Turn.Status.OBSERVED
    assert Feedback.objects.standing().filter(turn=turn, value=1).exists()
    assert Session.objects.get().learns


def test_a_chat_that_was_off_the_record_comes_back_off_the_record(page, make_turn):
    turn = make_turn()
    Session.objects.update(learns=False)
    chat_bin.discard(turn.session)
    chat_bin.restore(turn.session)
    assert not Session.objects.get().learns


def test_everything_off_the_record_holds_for_the_bin_too(page, make_turn):
    turn = make_turn()
    chat_bin.discard(turn.session)
    page.post("/privacy/everything-off/")
    chat_bin.restore(turn.session)
    assert not Session.objects.get().learns


def test_the_sweep_deletes_for_good_after_the_stated_time(make_turn):
    old, new, kept = make_turn(), make_turn(), make_turn()
    for one in (old, new):
        chat_bin.discard(one.session)
    late = timezone.now() - chat_bin.KEPT - timedelta(minutes=1)
    Session.objects.filter(pk=old.session_id).update(deleted_at=late)
    Session.objects.filter(pk=kept.session_id).update(active_at=late)
    assert chat_bin.sweep() == 1
    assert set(Turn.objects.values_list("pk", flat=True)) == {new.pk, kept.pk}
    assert chat_bin.sweep() == 0


def test_the_sweep_is_part_of_the_pipelines():
    from webapp import pipeline

    assert pipeline.chat_bin is chat_bin


def test_the_bin_is_emptied_by_its_person_alone(page, make_turn, operator):
    mine = make_turn()
    foreign = Session.objects.create(user=operator, deleted_at=timezone.now())
    chat_bin.discard(mine.session)
    assert "1 chat is gone for good." in text_of(page.post("/chats/bin/empty/", follow=True))
    assert Session.objects.get() == foreign


def test_delete_mine_takes_the_bin_along(page, make_turn):
    chat_bin.discard(make_turn().session)
    page.post("/privacy/delete/", {"sure": "delete"})
    assert not Session.objects.exists()


def test_the_bin_is_in_no_export_and_not_in_the_api(page, make_turn, talker, client):
    turn = make_turn(text="Paris, of course.")
    key, secret = ApiKey.objects.issue(talker, "laptop")
    Session.objects.update(key=key, title="France", external_id="trip")
    head = {"Authorization": f"Bearer {secret}"}
    assert client.get(f"/v1/completions/{turn.completion_id}/learning", headers=head).status_code == 200
    chat_bin.discard(turn.session)
    assert client.get(f"/v1/completions/{turn.completion_id}/learning", headers=head).status_code == 404
    body = {"completion_id": turn.completion_id, "thumb": "up"}
    assert client.post("/v1/feedback", body, content_type="application/json", headers=head).status_code == 404
    export = str(list(own_export.exported(talker)))
    assert "France" not in export
    assert "Paris" not in export


def test_a_client_that_goes_on_under_the_name_of_a_deleted_chat_begins_a_new_one(make_turn, talker):
    from chat import sessions

    key, _ = ApiKey.objects.issue(talker, "laptop")
    turn = make_turn()
    Session.objects.update(key=key, external_id="trip")
    chat_bin.discard(turn.session)
    hi = [{"role": "user", "content": "Hi"}]
    begun, follows = sessions.find(key, hi, external_id="trip", named_by="header")
    assert (begun.pk != turn.session_id, follows) == (True, None)
    chat_bin.restore(turn.session)
    # The new one keeps the name: the old one comes back without it.
    assert set(Session.objects.values_list("pk", "external_id")) == {(begun.pk, "trip"), (turn.session_id, "")}


def test_a_reply_that_is_being_written_ends_with_its_chat(make_turn):
    turn = make_turn(status="answering", finish_reason="")
    chat_bin.discard(turn.session)
    turn.refresh_from_db()
    assert turn.finish_reason == "abort"

"""Decisions that another overtook, that are many at once, and that a policy takes."""

from __future__ import annotations

import pytest
from django.contrib.auth import get_user_model
from django.urls import reverse

from judge.hints import acceptance, decisions, reviews
from judge.models import Acceptance, Ruling
from tests.webapp.conftest import text_of
from tests.webapp.desk_cast import fill
from tests.webapp.review.desk import HTMX, now


@pytest.fixture
def other(db):
    """A second reviewer, at a browser of their own."""
    return get_user_model().objects.create_user("cleo", is_staff=True)


@pytest.mark.parametrize("htmx", [True, False])
def test_a_collision_says_who_did_what_and_keeps_what_was_typed(decide, hint, other, htmx):
    seen = decisions.standing(hint)
    reviews.reject(hint, by=other)
    response = decide(hint, "edit", seen=seen, htmx=htmx, text="Name the city, and nothing else.", reason="clearer")
    page = text_of(response)
    assert response.status_code == 409
    assert "cleo rejected this hint" in page.lower()
    assert "What you typed is still here." in page
    assert "Name the city, and nothing else.</textarea>" in page
    assert 'value="clearer"' in page
    assert f'data-at-hand="{hint.pk}"' in page
    assert now(hint).status == "rejected"
    assert Ruling.objects.count() == 1
    if htmx:
        assert f'id="hint-row-{hint.pk}" class="queue-row" hx-swap-oob="true"' in page
        assert "rejected by cleo" in page


def test_after_a_collision_the_form_knows_what_stands_now(console, decide, hint, other):
    seen = decisions.standing(hint)
    reviews.reject(hint, by=other)
    page = decide(hint, "accept", seen=seen, htmx=True).content.decode()
    fresh = page.partition('name="seen" value="')[2].partition('"')[0]
    assert fresh == decisions.standing(now(hint))
    decide(hint, "accept", seen=fresh)
    assert now(hint).status == "accepted"


def test_a_hint_whose_conversation_was_deleted_says_so(console, hint):
    url = reverse("console:hint_decide", args=[hint.pk, "accept"])
    hint.turn.session.delete()
    response = console.post(url, headers=HTMX)
    assert response.status_code == 404
    assert f'<li id="hint-row-{hint.pk}" hx-swap-oob="delete">' in text_of(response)
    assert "deleted meanwhile" in text_of(console.post(url, follow=True))


def test_an_undo_that_was_overtaken_changes_nothing(console, decide, hint, other):
    decide(hint, "accept")
    reviews.reject(now(hint), by=other)
    ruling = Ruling.objects.get(verb="accept")
    response = console.post(reverse("console:hint_undo", args=[ruling.pk]), {"at": hint.pk}, headers=HTMX)
    assert response.status_code == 409
    assert "cleo rejected this hint" in text_of(response).lower()
    assert now(hint).status == "rejected"


def selected(*hints):
    return [f"{hint.pk}~{decisions.standing(hint)}" for hint in hints]


@pytest.mark.parametrize(("verb", "status"), [("accept", "accepted"), ("reject", "rejected")])
@pytest.mark.parametrize("htmx", [True, False])
def test_many_are_decided_and_taken_back_together(console, talker, verb, status, htmx):
    made = fill([talker], 5)
    headers = HTMX if htmx else {}
    sent = {"verb": verb, "hint": selected(*made[1:4]), "at": made[1].pk}
    response = console.post(reverse("console:hints_decide"), sent, headers=headers)
    page = text_of(response if htmx else console.get(response.url))
    assert f'data-at-hand="{made[4].pk}"' in page
    assert [now(hint).status for hint in made] == ["waiting", status, status, status, "waiting"]
    assert len({ruling.bulk for ruling in Ruling.objects.all()}) == 1
    console.post(reverse("console:hint_undo_last"), headers=headers)
    assert {now(hint).status for hint in made} == {"waiting"}


def test_one_that_cannot_be_decided_keeps_no_other_back(console, talker, other):
    made = fill([talker], 3)
    sent = {"verb": "accept", "hint": selected(*made)}
    reviews.reject(made[1], by=other)
    page = text_of(console.post(reverse("console:hints_decide"), sent, headers=HTMX))
    assert [now(hint).status for hint in made] == ["accepted", "rejected", "accepted"]
    assert "Accepted: 2 hints." in page
    assert "cleo rejected this hint" in page.lower()


@pytest.mark.parametrize(
    ("sent", "said"),
    [
        ({"verb": "accept"}, "Select hints first"),
        ({"verb": "edit", "hint": "1~x"}, "Say what is to be done with them"),
        ({"verb": "accept", "hint": "x~y"}, "Select hints first"),
    ],
)
def test_many_of_nothing_is_refused_in_words(console, hint, sent, said):
    assert said in text_of(console.post(reverse("console:hints_decide"), sent, follow=True))
    assert now(hint).status == "waiting"


def test_the_policy_is_brought_once_its_panel_is_opened_and_without_a_script_by_a_link(console, hint):
    address, field = reverse("console:hint_acceptance"), 'name="tool"'
    page = text_of(console.get(reverse("console:hints")))
    assert f'hx-get="{address}?"' in page
    assert field not in page
    panel = text_of(console.get(address, headers=HTMX))
    assert field in panel
    assert "hint-text" not in panel
    whole = text_of(console.get(address))
    assert field in whole
    assert "hint-text" not in whole  # the desk is a link away
    assert f'<h1><a href="{reverse("console:hints")}' in whole


def test_the_policy_is_set_source_by_source_and_says_who_set_it(console, operator):
    response = console.post(reverse("console:hint_acceptance"), {"tool": "90", "user": "80", "web": ""}, headers=HTMX)
    page = text_of(response)
    assert acceptance.threshold("tool") == 0.9
    assert acceptance.threshold("user") == 0.8
    assert not Acceptance.objects.filter(source="web").exists()  # it waits already: nothing was changed
    assert "Saved, for tool, user." in page or "Saved, for user, tool." in page
    assert "ana, 0 s ago" in page
    assert Ruling.objects.filter(verb="policy", by=operator).count() == 2


@pytest.mark.parametrize("share", ["101", "-1", "most", "nan", "inf"])
def test_a_share_that_is_none_is_refused_and_still_there(console, db, share):
    response = console.post(reverse("console:hint_acceptance"), {"tool": share}, headers=HTMX)
    assert response.status_code == 422
    assert f'value="{share}"' in text_of(response)
    assert "is no share of votes" in text_of(response)
    assert acceptance.threshold("tool") is None
    assert "is no share of votes" in text_of(
        console.post(reverse("console:hint_acceptance"), {"tool": share}, follow=True)
    )

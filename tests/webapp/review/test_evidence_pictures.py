"""Where a verdict is read, the pictures that judges saw stand beside its words, for their own person alone."""

from __future__ import annotations

import re
from hashlib import sha256

import pytest
from django.contrib.auth import get_user_model
from django.urls import reverse

from accounts.models import Role
from accounts.roles import give
from chat.models import Session, Turn
from chat.pictures import keeping
from judge.models import Hint, Judgement
from tests.doubles.chat_server import server
from tests.judge.votes.pictured_turns import AFTER, BEFORE, afresh, pictured, seeing
from tests.served_turns import judge_it, judges_count, person, renderer, serve
from tests.webapp.conftest import text_of

__all__ = ["afresh", "judge_it", "judges_count", "person", "pictured", "renderer", "seeing", "serve", "server"]

pytestmark = pytest.mark.django_db

PAGES = ("turn", "reward", "hint")


@pytest.fixture
def judged(pictured, seeing, judge_it, person) -> Turn:
    """A turn that a judge that sees has voted on; its person is a reviewer too."""
    seeing.answer = lambda body: (200, '{"reasoning": "They object.", "score": -1}')
    give(person, Role.REVIEWER)
    turn = pictured()
    judge_it(turn)
    return turn


@pytest.fixture
def reviewer(db):
    olga = get_user_model().objects.create_user("olga")
    give(olga, Role.ADMINISTRATOR)
    return olga


def address(page: str, turn: Turn) -> str:
    """Of the page on which this turn's evidence stands."""
    if page != "hint":
        return reverse(f"console:{page}", args=[turn.pk])
    hint = Hint.objects.create(turn=turn, source="file", proposed="Name the breed.", text="Name the breed.")
    return reverse("console:hint", args=[hint.pk])


def shown(page: str) -> list[str]:
    return re.findall(r'<img src="([^"]+/pictures/[^"]+)"', page)


@pytest.mark.parametrize("page", PAGES)
def test_its_own_person_sees_what_the_judge_saw(judged, person, client, page):
    client.force_login(person)
    html = text_of(client.get(address(page, judged)))
    addresses = [reverse("chat:picture", args=[judged.pk, sha256(one).hexdigest()]) for one in (BEFORE, AFTER)]
    assert shown(html) == addresses
    assert html.index("Before the reply:") < html.index(addresses[0]) < html.index("After the reply:")
    assert [client.get(one).content for one in addresses] == [BEFORE, AFTER]
    assert "No judge that voted here sees" not in html


@pytest.mark.parametrize("page", PAGES)
def test_another_reviewer_is_told_how_many_and_sees_none(judged, reviewer, client, page):
    client.force_login(reviewer)
    html = text_of(client.get(address(page, judged)))
    assert shown(html) == []
    assert "2 pictures stand with it, for their person alone to see." in html
    for one in (BEFORE, AFTER):
        assert client.get(reverse("chat:picture", args=[judged.pk, sha256(one).hexdigest()])).status_code == 404


def test_of_a_judge_that_does_not_see_the_page_says_so(pictured, seeing, judge_it, person, client):
    seeing.pages = {}
    give(person, Role.REVIEWER)
    turn = pictured()
    judge_it(turn)
    client.force_login(person)
    html = text_of(client.get(reverse("console:turn", args=[turn.pk])))
    assert "No judge that voted here sees: it read “(picture)” in place of a picture." in html


def test_a_picture_that_is_gone_is_counted_and_not_shown(judged, person, client):
    (keeping.folder(judged.session_id) / sha256(AFTER).hexdigest()).unlink()
    client.force_login(person)
    html = text_of(client.get(reverse("console:turn", args=[judged.pk])))
    assert len(shown(html)) == 1
    assert "1 picture is no longer kept." in html


def test_off_the_record_none_is_left_on_the_page(judged, person, client, judge_it):
    Session.objects.update(learns=False)
    Turn.objects.update(status=Turn.Status.OBSERVED)
    judge_it(judged)
    assert Judgement.objects.get(turn=judged).evidence == ""
    client.force_login(person)
    assert shown(text_of(client.get(reverse("console:turn", args=[judged.pk])))) == []


def test_with_its_chat_its_pictures_votes_and_evidence_go(judged, django_capture_on_commit_callbacks):
    with django_capture_on_commit_callbacks(execute=True):
        judged.session.delete()
    assert not keeping.folder(judged.session_id).exists()
    assert not Judgement.objects.exists()

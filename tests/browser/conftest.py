"""The people, the site and the quick replies of the chat's tests, for pages of every room."""

from __future__ import annotations

import pytest

from chat.models import Session, Turn
from feedback.models import Feedback
from judge.models import Hint
from tests.browser.taught_chat import LONG, judge, say_in
from tests.chat.conftest import ana, ben, site, small_and_quick

__all__ = ["ana", "ben", "site", "small_and_quick"]


@pytest.fixture
def chat(ana, monkeypatch) -> Session:
    """Twenty turns, all on one page: some liked, some not, one cut short, one off the record, and one of which a judge
    guessed a wish."""
    monkeypatch.setattr("chat.branches.SHOWN", 20)
    session = Session.objects.create(user=ana, title="Rainbows")
    turns = [say_in(session, n, text=LONG if n % 3 else "A rainbow is an arc of light.") for n in range(20)]
    judge(turns[2], 1)
    judge(turns[4], -1)
    judge(turns[5], None, lesson=False, reason_code="unclear", reason="unclear")
    guess = judge(turns[6], -1, hint="Add type hints.", hint_from="votes")
    Hint.objects.create(
        turn=guess.turn, status="accepted", source="user", proposed=guess.hint, text=guess.hint, confidence=1.0
    )
    Turn.objects.filter(pk=turns[8].pk).update(finish_reason="length")
    Turn.objects.filter(pk=turns[9].pk).update(learns=False)
    Feedback.objects.create(turn=turns[3], by=ana, kind="thumb", value=-1, tags=["too long"])
    Feedback.objects.create(turn=turns[3], by=ana, kind="guidance", text="Answer in one or two short sentences.")
    Feedback.objects.create(turn=turns[7], by=ana, kind="rewrite", text="An arc of colours in the sky.")
    Feedback.objects.create(turn=turns[12], by=ana, kind="marks", spans=[[0, 9, 1]])
    return session

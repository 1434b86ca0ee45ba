"""People who review, and hints that wait for them."""

from __future__ import annotations

import pytest
from django.contrib.auth import get_user_model

from chat.models import Turn
from judge.models import Hint, Judgement
from tests.judge.hints.rows import SHORT
from tests.judge.hints.voted_hints import NO, OPD, TELL, yes
from training.config import Recipe


@pytest.fixture
def ben(db):
    return get_user_model().objects.create_user("ben", is_staff=True)


@pytest.fixture
def hear(serve, judge_it, engine):
    """A judged turn after whose reply a person said something that so many of three votes make this hint of."""

    def hear(hint: str, votes: int = 3, recipe: Recipe = OPD, score: int = -1, **fields) -> Turn:
        engine.says(yes(hint), to=TELL, times=votes)
        if votes < 3:
            engine.says(NO, to=TELL, times=3 - votes)
        if recipe.w_rl:
            engine.says(rf"\boxed{{{score}}}", times=3)
        turn = serve(**{"next_state": f"Please change it: {hint}"} | fields)
        judge_it(turn, recipe)
        return Turn.objects.get(pk=turn.pk)

    return hear


@pytest.fixture
def again(judge_it):
    """Judge a turn again, without asking a judge: what was voted on the same evidence counts."""

    def again(turn: Turn, recipe: Recipe = OPD) -> Judgement:
        assert judge_it(turn, recipe)
        return Judgement.objects.select_related("sample").get(turn=turn)

    return again


@pytest.fixture
def cleo(db):
    return get_user_model().objects.create_user("cleo", is_staff=True)


@pytest.fixture
def propose(serve):
    """A hint that waits, on a judged turn of its own unless one is named."""

    def propose(text: str = SHORT, turn: Turn | None = None, **fields) -> Hint:
        turn = turn or serve(status="judged")
        fields = {"source": "user", "confidence": 2 / 3, "evidence": "e"} | fields
        return Hint.objects.create(turn=turn, proposed=text, text=text, **fields)

    return propose

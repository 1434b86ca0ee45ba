"""A hint that waits, and what decides it."""

from __future__ import annotations

import pytest
from django.urls import reverse

from judge.hints import decisions
from judge.models import Hint
from tests.webapp.desk_cast import make_hint
from tests.webapp.review.desk import HTMX


@pytest.fixture
def hint(talker):
    return make_hint(talker)


@pytest.fixture
def decide(console):
    """Send a form about a hint, as the page would: with what it showed."""

    def decide(hint, verb, *, htmx=False, seen=None, back="", **said):
        shown = decisions.standing(Hint.objects.get(pk=hint.pk)) if seen is None else seen
        url = reverse("console:hint_decide", args=[hint.pk, verb])
        return console.post(url, {"seen": shown, "back": back, **said}, headers=HTMX if htmx else {})

    return decide

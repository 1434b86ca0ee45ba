"""What was said before this version is found too, and titles lose Markdown's marks that a person did not write."""

from __future__ import annotations

from importlib import import_module
from types import SimpleNamespace

import pytest
from django.apps import apps
from django.db import connection

from chat.models import Session, Turn
from chat.search import finding
from chat.search.passages import Passage
from checkpoints.models import Checkpoint

pytestmark = pytest.mark.django_db


def test_old_turns_are_found_and_old_titles_are_plain(ana):
    said = "# Fix **this** now"
    made = Session.objects.create(user=ana, title=said)
    named = Session.objects.create(user=ana, title="My **own** name")
    attempt = Session.objects.create(user=ana, title="Attempt", named_by="key")
    turns = [
        Turn.objects.create(
            session=session, position=0, checkpoint=Checkpoint.live(), text="Mended.",
            messages=[{"role": "user", "content": said}],
        )
        for session in (made, named, attempt)
    ]  # fmt: skip
    import_module("chat.migrations.0005_lists").fill(apps, SimpleNamespace(connection=connection))
    made.refresh_from_db()
    named.refresh_from_db()
    assert (made.title, named.title) == ("Fix this now", "My **own** name")
    assert {hit.turn for hit in finding.find(ana, "mended").hits} == {turns[0].pk, turns[1].pk}
    assert [hit.session for hit in finding.find(ana, "own name").hits] == [named]
    assert Passage.objects.count() == 4  # two turns, two titles

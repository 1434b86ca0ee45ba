"""A person changes their line, or their word, while a verdict on them is being written."""

from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import pytest
from django.contrib.auth import get_user_model
from django.db import connection

from chat.models import Session
from checkpoints import lines
from checkpoints.lines import LineRefused
from checkpoints.models import SHARED, Member
from privacy import membership
from training.models import Sample

pytestmark = [
    pytest.mark.django_db(transaction=True, serialized_rollback=True),
    pytest.mark.database("postgresql"),  # SQLite lets one writer in at a time: nothing can race
]


def at_once(*acts):
    start = Barrier(len(acts))

    def run(act):
        try:
            start.wait(10)
            return act()
        finally:
            connection.close()

    with ThreadPoolExecutor(len(acts)) as threads:
        return list(threads.map(run, acts))


@pytest.fixture
def thumbs(serve, say, engine, person):
    """Six turns with a thumb, each in a chat of its own."""
    engine.says(r"\boxed{1}", times=None)
    turns = [serve(next_state="Thanks.", session=Session.objects.create(user=person)) for _ in range(6)]
    for turn in turns:
        say(turn, "thumb", value=1)
    return turns


def test_nothing_waits_in_the_shared_line_once_it_was_taken_back(thumbs, judge_it, person):
    membership.join(lines.make("Ana"), person)
    membership.pool(person, may=True)
    at_once(*(lambda turn=turn: judge_it(turn) for turn in thumbs), lambda: membership.pool(person, may=False))
    assert Sample.objects.filter(status="ready", line="ana").count() == 6
    assert not Sample.objects.filter(status="ready", line=SHARED).exists()


def test_nothing_stays_in_the_shared_line_of_who_got_one_of_their_own_meanwhile(thumbs, judge_it, person):
    line = lines.make("Ana")
    at_once(*(lambda turn=turn: judge_it(turn) for turn in thumbs), lambda: membership.join(line, person))
    assert set(Sample.objects.filter(status="ready").values_list("line", flat=True)) == {"ana"}
    assert Sample.objects.filter(status="ready").count() == 6


def test_of_two_lines_that_take_a_person_in_at_once_one_has_them(db):
    ben = get_user_model().objects.create_user("ben")
    one, other = lines.make("One"), lines.make("Other")
    at_once(lambda: membership.join(one, ben), lambda: membership.join(other, ben))
    assert Member.objects.get().user == ben


def test_of_two_who_make_a_line_of_one_name_one_does(db):
    def make():
        try:
            return lines.make("Ana")
        except LineRefused as refused:
            return refused

    assert sum(isinstance(outcome, LineRefused) for outcome in at_once(make, make)) == 1

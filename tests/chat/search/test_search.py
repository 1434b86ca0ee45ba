"""Search over all of a person's chats: titles and both sides, kept right as turns come, change and go."""

from __future__ import annotations

import random
import uuid
from datetime import timedelta

import pytest
from asgiref.sync import sync_to_async
from django.db import connection, transaction
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from chat.models import Session, Turn
from chat.replying import writers
from chat.search import finding, keeping
from chat.search.passages import Passage
from checkpoints.models import Checkpoint
from privacy import bin as chat_bin
from privacy import erasures
from tests.chat.conftest import assistant, open_turn, reply_to, user

pytestmark = pytest.mark.django_db


@pytest.fixture
def own(ana) -> Client:
    client = Client()
    client.force_login(ana)
    return client


@pytest.fixture
def talk(ana):
    def talk(said="What is rain?", reply="Water that falls.", *, by=None, title="Weather", **fields) -> Turn:
        session = fields.pop("session", None) or Session.objects.create(user=by or ana, title=title)
        keeping.keep_title(session)
        turn = Turn.objects.create(
            session=session,
            position=session.turns.count(),
            status="served",
            finish_reason="stop",
            checkpoint=Checkpoint.live(),
            messages=[user(said)],
            text=reply,
            **fields,
        )
        keeping.keep_turn(turn, session)
        return turn

    return talk


def found(person, query) -> list[uuid.UUID | None]:
    return [hit.turn for hit in finding.find(person, query).hits]


def marked(pieces) -> list[str]:
    return [piece.text for piece in pieces if piece.is_match]


@pytest.mark.django_db(transaction=True, serialized_rollback=True)
async def test_a_turn_is_found_by_both_sides_once_its_reply_has_ended(ana, session, engine):
    engine.says("A coloured bow.", to="What is a rainbow?")
    turn = await reply_to(await open_turn(session, [user("What is a rainbow?")]), engine)
    look = sync_to_async(found)
    assert await look(ana, "coloured bow") == [turn.pk]
    # What was said is the chat's title too.
    assert await look(ana, "rainbow") == [turn.pk, None] or await look(ana, "rainbow") == [None, turn.pk]
    # A later turn carries the whole history, and is found by what is new in it alone.
    later = await open_turn(session, [user("What is a rainbow?"), assistant("A coloured bow."), user("And hail?")])
    later = await reply_to(later, engine)
    assert await look(ana, "hail") == [later.pk]
    assert later.pk not in await look(ana, "coloured bow")


def test_words_are_found_by_their_beginning_as_one_types_and_without_accents(ana, talk):
    turn = talk("Où est le Café?", "In the Straße, 東京 too.")
    for query in ("caf", "CAFE", "café est", "où ca", "strasse", "東京", "京", '"cafe"', "cafe OR", "(le) -caf*"):
        assert (turn.pk in found(ana, query)) == ("OR" not in query), query
    for query in ("", "  ", "***", "'", '"', "NEAR(", "%", "cafe tea", "ca le x"):
        assert found(ana, query) == [], query


def test_matches_are_marked_in_an_excerpt_and_hostile_text_stays_text(own, talk):
    turn = talk("<script>alert(1)</script> rain & <b>", "long " * 200 + "<i>rainbow</i> " + "end " * 200)
    text = own.get("/chats/search/", {"q": "rainb"}).content.decode()
    assert "&lt;i&gt;<mark>rainbow</mark>&lt;/i&gt;" in text
    assert "Reply:" in text
    assert len(text) < 20_000
    text = own.get("/chats/search/", {"q": "rain alert"}).content.decode()
    assert "&lt;script&gt;<mark>alert</mark>(1)" in text
    assert "<script>alert" not in text
    assert f"/chats/{turn.session_id}/?at={turn.pk}#turn-{turn.pk}" in text
    assert "<script>" not in own.get("/chats/search/", {"q": "<script>x</script>"}).content.decode().split("<main")[1]


def test_a_result_opens_the_chat_at_that_turn_in_its_branch(own, talk, monkeypatch):
    monkeypatch.setattr("chat.branches.SHOWN", 4)
    first = talk("Question 0")
    line = [first]
    for n in range(1, 12):
        line.append(talk(f"Question {n}", session=first.session, follows=line[-1]))
    other = talk("Another wording", session=first.session, follows=line[0])
    # The page of turn 3 of 12 ends with it, so that it is there however long the others are: positions 0 to 3.
    page = own.get(f"/chats/{first.session_id}/", {"at": str(line[3].pk)})
    assert [turn.pk for turn in page.context["turns"]] == [turn.pk for turn in line[0:4]]
    page = own.get(f"/chats/{first.session_id}/", {"at": str(other.pk)})
    assert [turn.pk for turn in page.context["turns"]] == [first.pk, other.pk]
    first.session.refresh_from_db()
    assert first.session.head is None  # what is looked at moves nothing
    for nowhere in ("x", str(uuid.uuid4())):
        assert own.get(f"/chats/{first.session_id}/", {"at": nowhere}).status_code == 200


def test_titles_are_found_as_they_are_now(own, ana, talk):
    turn = talk(title="Weather")
    assert found(ana, "weather") == [None]
    own.post(f"/chats/{turn.session_id}/rename/", {"title": "Clouds"})
    assert (found(ana, "weather"), found(ana, "clouds")) == ([], [None])


def test_a_person_finds_their_own_chats_alone(ana, ben, talk):
    mine, foreign = talk("secret rain"), talk("secret rain", by=ben)
    assert found(ana, "secret") == [mine.pk]
    assert found(ben, "secret") == [foreign.pk]
    from django.contrib.auth.models import AnonymousUser

    assert found(AnonymousUser(), "secret") == []


def test_a_changed_turn_is_found_by_its_new_words_alone(ana, talk):
    turn = talk(reply="My password is hunter2")
    turn.text = "My password is [password 1]"
    turn.save()
    keeping.keep_turn(turn, turn.session)
    assert (found(ana, "hunter2"), found(ana, "password")) == ([], [turn.pk])
    assert Passage.objects.filter(turn=turn).count() == 1


def index_rows() -> int:
    """Rows of the index itself that have the word, whatever the tables say."""
    with connection.cursor() as cursor:
        if connection.vendor == "postgresql":
            cursor.execute("SELECT count(*) FROM chat_passage WHERE lexemes @@ 'hunter2'::tsquery")
        else:
            cursor.execute("SELECT count(*) FROM chat_passage_index WHERE chat_passage_index MATCH 'hunter2'")
        return int(cursor.fetchone()[0])


@pytest.mark.parametrize("how", ["turn", "session", "erasure", "bin"])
def test_what_is_erased_is_in_no_index(ana, talk, how):
    turn = talk("hunter2", "hunter2", title="hunter2")
    assert index_rows() == 2  # the turn, and the title
    if how == "turn":
        turn.delete()
    elif how == "session":
        turn.session.delete()
    elif how == "erasure":
        erasures.go_on(erasures.ask(ana, revokes_keys=False))
    else:
        chat_bin.discard(turn.session)
    assert index_rows() == (1 if how == "turn" else 0)


def test_a_chat_that_is_taken_back_is_found_again(ana, talk):
    turn = talk("hunter2", title="hunter2")
    chat_bin.discard(turn.session)
    assert found(ana, "hunter2") == []
    chat_bin.restore(Session.objects.get())
    assert set(found(ana, "hunter2")) == {turn.pk, None}


def test_a_write_that_is_rolled_back_leaves_the_index_as_it_was(ana, talk):
    turn = talk()
    with transaction.atomic():
        turn.text = "Hunter2"
        keeping.keep_turn(turn, turn.session)
        assert index_rows() == 1
        transaction.set_rollback(True)
    assert index_rows() == 0
    assert found(ana, "falls") == [turn.pk]


def test_a_reply_whose_writer_died_is_found_by_what_was_said(ana, session):
    turn = Turn.objects.create(
        session=session, position=0, checkpoint=Checkpoint.live(), messages=[user("Thunder?")], text="It ro"
    )
    Turn.objects.update(moved_at=timezone.now() - timedelta(hours=1))
    assert writers.close_stranded() == 1
    assert found(ana, "thunder ro") == [turn.pk]


def test_side_requests_and_agents_attempts_are_not_found(ana, talk):
    turn = talk(line=Turn.Line.SIDE)
    attempt = Session.objects.create(user=ana, title="rain", named_by="key")
    talk(session=attempt)
    assert found(ana, "rain") == []
    assert not Passage.objects.exclude(session=turn.session).exists()


def test_results_come_in_pages_each_once(own, ana, talk):
    turns = [talk(f"rain {n}", title="") for n in range(45)]
    seen, answer = [], own.get("/chats/search/", {"q": "rain"})
    while True:
        seen += [hit.turn for hit in answer.context["found"].hits]
        if not answer.context["found"].more:
            break
        answer = own.get(answer.context["found"].more, headers={"HX-Request": "true"})
        assert "<html" not in answer.content.decode()
    assert seen == [turn.pk for turn in reversed(turns)]
    assert own.get("/chats/search/", {"q": "rain", "after": "nowhere"}).status_code == 404


def test_an_empty_search_box_brings_the_list_back(own, talk):
    talk(title="Weather")
    head = {"HX-Request": "true", "HX-Current-URL": "http://testserver/chats/new/"}
    assert "Today" in own.get("/chats/search/", {"q": " "}, headers=head).content.decode()
    assert "No chat has all of these words." in own.get("/chats/search/", {"q": "zzz"}, headers=head).content.decode()


VOCABULARY = [f"{a}{b}{c}" for a in "bcdfglmnprst" for b in "aeiou" for c in ("n", "r", "st", "m", "l", "mber", "ck")]


@pytest.mark.processes
@pytest.mark.parametrize("query", ["the", "the b", "ban", "needle", "the needle", "bar cock dim", "zzz"])
def test_a_hundred_thousand_turns_are_searched_by_a_few_questions(client_of_many, query):
    answer = client_of_many.get("/chats/search/", {"q": query})
    hits = answer.context["found"].hits
    expected = {"zzz": 0, "the b": 0, "needle": 3, "the needle": 3}
    assert len(hits) == expected.get(query, finding.SHOWN)
    with CaptureQueriesContext(connection) as asked:
        client_of_many.get("/chats/search/", {"q": query})
    assert len(asked) <= 12


@pytest.fixture(scope="module")
def client_of_many(django_db_setup, django_db_blocker):
    """The browser of a person with 70,000 turns of 100,000, of which three have the word that is looked for."""
    from django.contrib.auth import get_user_model

    with django_db_blocker.unblock(), transaction.atomic():
        people = [get_user_model().objects.create_user(name) for name in ("many", "others")]
        dice, now = random.Random(7), timezone.now()
        # The other's are three sessions of ten, and of the four needles the one of turn 300.
        sessions = [Session(user=people[n % 10 in (3, 5, 7)], title=f"Chat {n}") for n in range(1000)]
        Session.objects.bulk_create(sessions)
        live = Checkpoint.live()
        for start in range(0, 100_000, 5000):
            turns = []
            for n in range(start, start + 5000):
                words = ["the", *dice.choices(VOCABULARY, k=24), *["needle"] * (n in (5, 20_050, 90_099, 300))]
                turns.append(
                    Turn(
                        session=sessions[n // 100], position=n % 100, status="served", checkpoint=live,
                        messages=[], text=" ".join(words), created_at=now - timedelta(minutes=n),
                    )
                )  # fmt: skip
            Turn.objects.bulk_create(turns)
            keeping.write(
                [
                    Passage(
                        user_id=turn.session.user_id, session_id=turn.session_id, turn_id=turn.pk, at=turn.created_at,
                        words=" ".join(sorted(set(turn.text.split()))),
                    )
                    for turn in turns
                ]
            )  # fmt: skip
        with connection.cursor() as cursor:
            cursor.execute("ANALYZE")  # as PostgreSQL does by itself, soon after so many rows
        client = Client()
        client.force_login(people[0])
        yield client
        transaction.set_rollback(True)

"""Of two transactions that want the same rows one waits for the other, and neither is ended by a deadlock.

SQLite has one writer at a time: there is nothing to see there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import pytest
from django.contrib.auth import get_user_model
from django.db import OperationalError, connection, transaction
from django.db.models.signals import post_delete, pre_delete

from benchmarks.stack import wait_for
from chat import asking, sessions
from chat.api_keys import ApiKey
from chat.models import Session, Turn
from chat.replying import beats, replies
from chat.requests import Ask
from checkpoints.models import Checkpoint
from gpu_workers.types import Sampling

pytestmark = [
    pytest.mark.django_db(transaction=True, serialized_rollback=True),
    pytest.mark.database("postgresql"),  # SQLite locks no rows
]


@pytest.fixture
def key(db) -> ApiKey:
    return ApiKey.objects.issue(get_user_model().objects.create_user("ana"), "laptop")[0]


@pytest.fixture
def turns(key) -> list[Turn]:
    """Two of one session that are being written, by number."""
    session = Session.objects.create(user=key.user, key=key)
    return sorted((writing(session, position) for position in range(2)), key=lambda turn: turn.pk)


def writing(session: Session, position: int, **fields: Any) -> Turn:
    said = [{"role": "user", "content": f"Question {position}"}]
    return Turn.objects.create(
        session=session, position=position, checkpoint=Checkpoint.live(), messages=said, **fields
    )


@pytest.fixture
def beside() -> Iterator[Callable[..., Future[Any]]]:
    """Call something in a thread with a connection of its own."""

    def closing(call: Callable[..., Any], *values: Any) -> Any:
        try:
            return call(*values)
        finally:
            connection.close()

    with ThreadPoolExecutor(2) as pool:
        yield lambda call, *values: pool.submit(closing, call, *values)


def one_waits() -> bool:
    """Whether a transaction of this database waits for what another holds."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT count(*) FROM pg_locks WHERE NOT granted")
        return bool(cursor.fetchone()[0])


def said(text: str = "Hello.") -> dict[str, Any]:
    message = {"role": "assistant", "content": text}
    return {"text": text, "message": message, "response_ids": [1], "logprobs": [-0.5], "finish_reason": "stop"}


@pytest.mark.parametrize("what", ["its chat", "its account"])
def test_a_chat_that_is_deleted_while_its_reply_ends_waits_for_it_or_is_waited_for(turns, beside, monkeypatch, what):
    """A deletion that took the turns before their session met a reply's end, which takes them the other way round."""
    turn = turns[0]
    ended: list[Future[Any]] = []
    tries = []

    def trying(pk: Any) -> Session:
        tries.append(pk)
        return real(pk)

    real = sessions.locked
    monkeypatch.setattr(sessions, "locked", trying)

    def meanwhile(sender: type[Turn], instance: Turn, **kwargs: Any) -> None:
        if not ended:
            ended.append(beside(replies.finish, turn, Turn.Status.SERVED, said()))
            wait_for("the reply's end waits", lambda: beside(one_waits).result(10), 10, 0.02)

    post_delete.connect(meanwhile, sender=Turn)
    try:
        (turn.session if what == "its chat" else turn.session.user).delete()
    finally:
        post_delete.disconnect(meanwhile, sender=Turn)
    assert ended[0].result(10) is None
    assert len(tries) == 1, "a deadlock ended it, and it tried again"
    assert not Session.objects.exists()
    assert not Turn.objects.exists()


def test_of_an_account_that_goes_every_chat_is_held_before_a_row_of_any_is_touched(key, turns, beside):
    """Its listeners change what others hold, and the cascade takes the chats in no order."""
    other = Session.objects.create(user=key.user)
    writing(other, 0)
    free = []

    def touched(sender: type[Turn], **kwargs: Any) -> None:
        free.extend(beside(lock_now, pk).result(10) for pk in (turns[0].session_id, other.pk))

    pre_delete.connect(touched, sender=Turn)
    try:
        key.user.delete()
    finally:
        pre_delete.disconnect(touched, sender=Turn)
    assert free == [False] * 6  # two chats, as each of three turns is about to go
    assert not Session.objects.exists()


def test_a_beat_waits_for_no_row_that_another_transaction_holds(turns, beside):
    """One that waited held the rows that come before, and a process that changes several in another order wanted
    those."""
    first, second = turns
    Turn.objects.update(text="")
    with transaction.atomic():
        Turn.objects.filter(pk=second.pk).update(learns=False)
        wanted = beside(beats.note_beats, {first.pk: "One.", second.pk: "Two."}).result(10)
        Turn.objects.filter(pk=first.pk).update(learns=False)
    assert wanted == {first.pk, second.pk}
    assert list(Turn.objects.order_by("pk").values_list("text", flat=True)) == ["One.", ""]
    assert beats.note_beats({second.pk: "Two."}) == {second.pk}
    assert Turn.objects.get(pk=second.pk).text == "Two."


def test_a_beat_waits_for_no_transaction_that_holds_the_session(turns, beside):
    """A reply's end holds it while it waits for the turn that the beat holds."""
    first, second = turns
    with transaction.atomic():
        sessions.locked(first.session_id)
        assert beside(beats.note_beats, {first.pk: "One.", second.pk: None}).result(10) == {first.pk, second.pk}
    assert Turn.objects.get(pk=first.pk).text == "One."


def test_what_is_no_retry_after_all_holds_no_session_but_its_own(key, beside, monkeypatch):
    """It looked whether it was one in the session of the first try, and then belonged to another."""
    ask = Ask(
        messages=[{"role": "user", "content": "Say hello"}],
        sampling=Sampling(max_new_tokens=4),
        checkpoint=Checkpoint.live(),
        body=b"the same",
    )
    (before,) = asking.open_turns(key, ask)
    before.move(Turn.Status.CLOSED, finish_reason="abort")
    writing(before.session, 1)  # another turn since: the same once more is no retry
    free = []

    def placed(*values: Any, **named: Any) -> Any:
        free.append(beside(lock_now, before.session_id).result(10))
        return real(*values, **named)

    real = sessions.place_request
    monkeypatch.setattr(sessions, "place_request", placed)
    (anew,) = asking.open_turns(key, ask)
    assert anew.pk != before.pk
    assert free == [True]


def lock_now(pk: Any) -> bool:
    try:
        with transaction.atomic():
            return Session.objects.select_for_update(nowait=True).filter(pk=pk).exists()
    except OperationalError:
        return False

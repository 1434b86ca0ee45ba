"""A process that is killed while it has tools in hand: another goes on, no call is made twice, and none is lost."""

from __future__ import annotations

import asyncio
import queue
import threading
import uuid
from collections import Counter
from collections.abc import Callable
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path

import pytest
from asgiref.sync import async_to_sync
from django.utils import timezone

from chat import views
from chat.models import Session, Turn
from chat.replying import live_replies, writers
from chat.tools import calls, leases, reaching, rounds, takeovers, tasks
from chat.tools.calls import ToolCall, ToolLease
from chat.tools.servers import ToolServer
from core.mcp.results import Answered
from tests.chat.conftest import user
from tests.chat.tools.conftest import calling
from tests.killed_workers import Fate, Killed
from tests.races import at_once
from webapp import pipeline

pytestmark = pytest.mark.django_db(transaction=True, serialized_rollback=True)

BUY = calling(("buy", {"item": "bread"}), ("buy", {"item": "milk"}))
GONE = "0" * 32
"""A process that was killed: its file is there, and none holds it."""


class Till:
    """What the server's tool did, and the worker that may die before and after each time."""

    def __init__(self) -> None:
        self.bought: list[str] = []
        self.fate = Fate(10**9)

    async def call(self, server: ToolServer, tool: str, definition: str, arguments: dict) -> Answered:
        self.fate.act()
        self.bought.append(arguments["item"])
        self.fate.act()
        return Answered([{"type": "text", "text": f"bought {arguments['item']}"}])

    @contextmanager
    def dies_at(self, act: int, engine):
        self.fate = Fate(act)
        try:
            with self.fate.upon(engine):
                yield
        finally:
            self.fate = Fate(10**9)


@pytest.fixture
def till(monkeypatch, settings, tmp_path: Path) -> Till:
    till = Till()
    monkeypatch.setattr(reaching, "call", till.call)
    settings.DATA_DIR = tmp_path
    (tmp_path / "writers").mkdir()
    (tmp_path / "writers" / GONE).touch()
    return till


@pytest.fixture
def buyer(ana, engine, till) -> Callable[[], Session]:
    """A new chat whose model buys bread and milk, both allowed beforehand, and then says so."""
    engine.says("Both bought.", to="<tool_response>", times=None)
    engine.says(BUY, times=None)
    tool = {"name": "buy", "description": "Buy it.", "schema": {"type": "object"}}
    server = ToolServer.objects.create(name="shop", url="http://shop.example", listed=[tool])
    (one,) = server.tools

    def made() -> Session:
        return Session.objects.create(user=ana, tools=[one.id], granted=[one.grant])

    return made


def ask(session: Session) -> Turn:
    return views.open_message(session.user, session, text="Buy", message_id=uuid.uuid4(), after=None)


def process_gone() -> None:
    """The process that had this in hand is killed."""
    ToolLease.objects.update(holder=GONE)
    Turn.objects.filter(status=Turn.Status.ANSWERING).update(writer=GONE)


def take_up(engine) -> None:
    """As one sweep does with all that it finds."""
    pipeline._close_stranded()
    for pk in leases.lost():
        async_to_sync(takeovers.take_up)(pk, engine)


def check_whole(session: Session, bought: list[str]) -> str:
    """Each call was made once at most, each result is kept, and one answer goes on from them. What it came to."""
    assert not ToolLease.objects.exists()
    turns = list(session.turns.order_by("position"))
    made = list(ToolCall.objects.filter(turn__session=session).order_by("place"))
    if not made:  # killed before the reply was whole: it is tried again by its person, as replies are
        assert [turn.status for turn in turns] == ["closed"]
        assert bought == []
        return "closed"
    assert [turn.text for turn in turns] == ["", "Both bought."]
    assert turns[1].status == "served"
    assert set(Counter(bought).values()) <= {1}, "a call was made twice"
    results = [message["content"] for message in turns[1].messages if message["role"] == "tool"]
    assert results == [call.result for call in made]
    for call, item in zip(made, ("bread", "milk"), strict=True):
        if call.status == "done":
            assert (call.result, item in bought) == (f"bought {item}", True)
        else:
            assert (call.status, call.result) == ("broken", calls.BROKEN_OFF)
    return " ".join(call.status for call in made)


def test_there_is_no_act_at_which_a_killed_process_loses_an_answer_or_calls_twice(buyer, engine, till):
    """Every single act from the open turn to the last word, in order, until one survives to its end."""
    at, died, seen = 0, True, Counter[str]()
    while died:
        at, till.bought = at + 1, []
        session = buyer()
        turn = ask(session)
        died = False
        try:
            with till.dies_at(at, engine):
                async_to_sync(rounds.answer)(turn, engine)
        except Killed:
            died = True
        process_gone()
        take_up(engine)
        seen[check_whole(session, till.bought)] += 1
    assert at > 40  # it is a long way: leases, calls, results, the answer
    # Killed within a call, its result was never kept: one call at most is broken off, and the rest is done.
    assert set(seen) == {"closed", "done done", "broken done", "done broken"}


@pytest.mark.processes  # for its time
@pytest.mark.parametrize("left", ["a call at work", "results without an answer", "half an answer"])
def test_there_is_no_act_at_which_the_one_that_takes_over_does_harm(buyer, engine, till, left):
    at, died = 0, True
    while died:
        at, till.bought = at + 1, []
        session = buyer()
        leave(session, engine, till, left)
        died = False
        for act in (at, 10**9):  # the second one lives
            try:
                with till.dies_at(act, engine):
                    take_up(engine)
            except Killed:
                died = True
            process_gone()
        check_whole(session, till.bought)
    assert at > 15


def leave(session: Session, engine, till: Till, what: str) -> None:
    """A chat as a killed process left it."""
    turn = ask(session)
    lease = leases.take(turn)
    async_to_sync(reply)(turn, engine)
    rounds.prepare(turn, lease)
    first, second = turn.calls.order_by("place")
    assert leases.claim(first, session.pk, lease)
    till.bought.append("bread")
    if what != "a call at work":
        ToolCall.objects.filter(pk=first.pk).update(status="done", result="bought bread")
        assert leases.claim(second, session.pk, lease)
        till.bought.append("milk")
        ToolCall.objects.filter(pk=second.pk).update(status="done", result="bought milk")
    if what == "half an answer":
        following = rounds.go_on(turn, lease)
        Turn.objects.filter(pk=following.pk).update(text="Both bo")
    process_gone()


async def reply(turn: Turn, engine) -> None:
    await rounds.live_replies.speak(turn, engine)


def test_a_call_that_waits_for_its_person_is_in_no_hand_when_they_can_see_it(buyer, engine, till):
    session = buyer()
    Session.objects.filter(pk=session.pk).update(granted=[])
    turn = ask(session)
    lease = leases.take(turn)
    async_to_sync(live_replies.speak)(turn, engine)

    made = rounds.prepare(turn, lease)

    assert {call.status for call in made} == {"waiting"}
    assert not ToolLease.objects.exists()  # else a word said at once would take this one, which is given up behind it


def test_calls_at_work_in_no_hand_end_at_the_next_sweep_but_for_those_that_wait_or_just_began(buyer, engine, till):
    old = timezone.now() - timedelta(minutes=5)
    left, waiting, new = (ask(buyer()) for _ in range(3))
    for turn, place, status, began in (
        (left, 0, "running", old), (left, 1, "allowed", old),
        (waiting, 0, "allowed", old), (waiting, 1, "waiting", None),
        (new, 0, "running", timezone.now()),
    ):  # fmt: skip
        ToolCall.objects.create(turn=turn, place=place, call_id=str(place), status=status, started_at=began)

    leases.close_unheld()

    found = {turn: [call.status for call in turn.calls.order_by("place")] for turn in (left, waiting, new)}
    assert found == {left: ["broken", "refused"], waiting: ["allowed", "waiting"], new: ["running"]}


def test_of_two_that_find_a_lost_lease_at_once_one_takes_it(buyer, engine, till):
    leave(buyer(), engine, till, "results without an answer")
    lease = ToolLease.objects.get()
    taken = at_once(*[lambda: takeovers.take_over(lease.pk)] * 4)
    assert [one is not None for one in taken].count(True) == 1


def test_of_two_that_begin_one_call_at_once_one_does(buyer, engine, till):
    session = buyer()
    turn = ask(session)
    lease = leases.take(turn)
    async_to_sync(reply)(turn, engine)
    (call, _) = rounds.prepare(turn, lease)
    begun = at_once(*[lambda: leases.claim(call, session.pk, lease)] * 4)
    assert sorted(begun) == [False, False, False, True]


def test_a_holder_that_was_thought_gone_begins_nothing_more(buyer, engine, till):
    session = buyer()
    leave(session, engine, till, "a call at work")
    before = ToolLease.objects.get()
    taken = takeovers.take_over(before.pk)
    second = ToolCall.objects.get(place=1)
    assert not leases.claim(second, session.pk, before)
    assert leases.claim(second, session.pk, taken)


def test_a_lease_is_not_taken_from_a_process_that_lives_and_at_once_from_one_that_was_killed(
    buyer, engine, till, other, settings, data_dir
):
    settings.DATA_DIR = data_dir
    session = buyer()
    leave(session, engine, till, "a call at work")
    silent = timezone.now() - timedelta(minutes=5)
    ToolLease.objects.update(holder=other.name, beat_at=silent)
    take_up(engine)
    assert ToolCall.objects.get(place=0).status == "running"

    other.dies()
    writers.clear()  # its file is kept for as long as a lease names it
    take_up(engine)
    assert check_whole(session, till.bought) == "broken done"


def test_the_sweep_hands_what_is_lost_to_a_worker(buyer, engine, till, monkeypatch):
    session = buyer()
    leave(session, engine, till, "results without an answer")
    monkeypatch.setattr("celery.Task.apply_async", lambda task, arguments=(), **options: task(*arguments))
    monkeypatch.setattr("gpu_workers.engines.policy", lambda: engine)
    monkeypatch.setattr(pipeline, "ARROWS", [])
    pipeline._take_up()
    tasks.finish()
    assert check_whole(session, till.bought) == "done done"


def test_tools_that_take_long_hold_up_no_verdict_and_no_more_than_so_many_run_at_once(engine, monkeypatch):
    """Each runs beside the worker's own threads, and gives its place back at its end, however it ends."""
    goes_on, began = threading.Event(), queue.Queue()

    async def holds(pk, engine):
        began.put(pk)
        await asyncio.to_thread(goes_on.wait, 60)
        raise RuntimeError("a fault")

    monkeypatch.setattr(takeovers, "take_up", holds)
    monkeypatch.setattr("gpu_workers.engines.policy", lambda: engine)
    try:
        for pk in range(tasks.AT_ONCE):
            assert tasks.take_up(str(pk))  # it comes back while the tool is at work
        assert {began.get(timeout=60) for _ in range(tasks.AT_ONCE)} == set(range(tasks.AT_ONCE))
        assert not tasks.take_up("99")
    finally:
        goes_on.set()
        tasks.finish()
    assert tasks.take_up("99")
    tasks.finish()
    assert began.get(timeout=60) == 99


@pytest.mark.parametrize("breaks", ["start", "end"])
def test_a_thread_that_does_not_start_or_breaks_at_its_end_keeps_no_place(engine, monkeypatch, breaks):
    def cannot(*said) -> None:
        raise RuntimeError("can't start new thread")

    async def at_once_over(pk, engine) -> bool:
        return True

    monkeypatch.setattr(takeovers, "take_up", at_once_over)
    monkeypatch.setattr("gpu_workers.engines.policy", lambda: engine)
    places = threading.BoundedSemaphore(1)
    monkeypatch.setattr(tasks, "_places", places)
    with monkeypatch.context() as broken:
        if breaks == "start":
            broken.setattr(threading.Thread, "start", cannot)
            with pytest.raises(RuntimeError):
                tasks.take_up("1")
        else:
            broken.setattr(tasks.connections, "close_all", cannot)
            assert tasks.take_up("1")
        tasks.finish()
    assert tasks.take_up("2")
    tasks.finish()
    assert places.acquire(blocking=False)


def test_stop_ends_what_a_killed_process_left_and_nothing_goes_on(buyer, engine, till):
    session = buyer()
    leave(session, engine, till, "a call at work")
    async_to_sync(rounds.stop)(session)
    take_up(engine)
    assert {call.status for call in ToolCall.objects.all()} == {"stopped"}
    assert (session.turns.count(), till.bought) == (1, ["bread"])


def test_a_person_who_writes_on_first_goes_on_without_what_was_left(buyer, engine, till):
    session = buyer()
    leave(session, engine, till, "a call at work")
    following = ask(session)
    assert [call.status for call in ToolCall.objects.order_by("place")] == ["broken", "refused"]
    assert following.messages[-1] == user("Buy")
    take_up(engine)
    assert session.turns.count() == 2
    assert till.bought == ["bread"]


def test_a_reply_that_its_person_tries_again_is_not_written_twice(buyer, engine, till):
    session = buyer()
    leave(session, engine, till, "half an answer")
    half = session.turns.get(position=1)
    again = views.retry_reply(session.user, half)
    async_to_sync(reply)(again, engine)
    take_up(engine)
    half.refresh_from_db()
    assert [(turn.position, turn.status) for turn in session.turns.order_by("position")][1:] == [
        (1, "closed"),
        (2, "served"),
    ]


def test_what_was_allowed_long_ago_and_never_begun_is_asked_about_again(buyer, engine, till):
    session = buyer()
    leave(session, engine, till, "a call at work")
    ToolLease.objects.update(beat_at=timezone.now() - rounds.WORD_KEPT - timedelta(minutes=1))
    take_up(engine)
    assert [call.status for call in ToolCall.objects.order_by("place")] == ["broken", "waiting"]
    assert (till.bought, session.turns.count()) == (["bread"], 1)
    lease = rounds.decide(ToolCall.objects.get(place=1), "once")
    async_to_sync(rounds.go_on_from)(session.turns.get(), lease, engine)
    assert check_whole(session, till.bought) == "broken done"


def test_what_brings_down_one_process_after_another_is_left_to_its_person(buyer, engine, till):
    session = buyer()
    leave(session, engine, till, "half an answer")
    ToolLease.objects.update(tries=takeovers.MOST_TRIES)
    take_up(engine)
    last = session.turns.get(position=1)
    assert (last.status, last.error) == ("closed", takeovers.GIVEN_UP)
    assert not ToolLease.objects.exists()


@pytest.mark.parametrize("how", ["bin", "closed account"])
def test_nothing_goes_on_in_a_deleted_chat_nor_for_a_closed_account(buyer, engine, till, how):
    session = buyer()
    leave(session, engine, till, "a call at work")
    if how == "bin":
        Session.objects.filter(pk=session.pk).update(deleted_at=timezone.now())
    else:
        session.user.is_active = False
        session.user.save()
    take_up(engine)
    assert (till.bought, session.turns.count(), ToolLease.objects.count()) == (["bread"], 1, 0)

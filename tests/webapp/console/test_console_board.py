"""The board's sentences, the socket that keeps it moving, and the pictures."""

from __future__ import annotations

import time
from dataclasses import replace
from datetime import timedelta
from itertools import pairwise
from unittest.mock import patch

import pytest
from asgiref.sync import sync_to_async
from channels.layers import get_channel_layer
from django.utils import timezone
from hypothesis import given
from hypothesis import strategies as st

from checkpoints.models import Checkpoint
from tests.sockets import Tab
from training.batches import Filling
from training.models import Run
from webapp.charts import heat, small_curves
from webapp.console import board
from webapp.console.loop.facts import Facts
from webapp.console.loop.stations import stations
from webapp.console.review import differences
from webapp.live_pages import BOARD

NOW = timezone.now()
ZEROS = {name: dict.fromkeys(model.Status.values, 0) for name, model in board.STATES.items()}


def facts(**changes):
    base = Checkpoint(number=0, kind="base", status="live", moved_at=NOW - timedelta(hours=2))
    counts = {name: {**states, **changes.pop(name, {})} for name, states in ZEROS.items()}
    return replace(Facts(now=NOW, counts=counts, oldest=ZEROS, batch=Filling(16), live=base), **changes)


def station(key, **changes):
    return next(s for s in stations(facts(**changes)) if s.key == key)


def run(status, **fields):
    return Run(pk=3, status=status, recipe={}, moved_at=NOW, **fields)


def test_the_batch_says_how_many_more_it_waits_for():
    now = station("batch", batch=Filling(16, 3))
    assert (now.figure, now.mood) == ("3 of 16", "waiting")
    assert now.sentence == "3 of 16 lessons. Training starts at 16, or now."
    assert station("batch", batch=Filling(16, 15)).sentence == "15 of 16 lessons. Training starts at 16, or now."


def test_a_batch_that_waits_for_corrections_says_so_though_it_has_more_than_a_run_takes():
    now = station("batch", batch=Filling(16, ready=20, said=3, rewrites=2, awaited=4))
    assert (now.figure, now.mood) == ("20 ready", "waiting")
    assert now.sentence == (
        "16 of 16 lessons, and 4 more after them. Training can start now. The recipe waits for 2 more rewrites, for 13 "
        "more lessons from people, or for 76 more of any kind."
    )


def test_a_full_batch_waits_for_the_learner_that_is_busy():
    now = station("batch", batch=Filling(16, 16), runs={"running": 1}, run=run("running"))
    assert now.sentence == "16 of 16 lessons. Waiting for the learner, which is busy with run 3."


def test_turns_wait_for_a_judge_worker_that_is_not_there():
    now = station("judge", turns={"observed": 2}, silences={"judge": 40.0, "learn": 0.0})
    assert (now.mood, now.sentence) == ("stuck", "Waiting for a judge worker: none has answered for 40 s.")
    now = station("judge", turns={"observed": 2}, silences={"judge": None, "learn": 0.0})
    assert now.sentence == "Waiting for a judge worker: none has answered yet."


def test_a_worker_between_two_heartbeats_is_there():
    assert station("judge", turns={"observed": 2}, silences={"judge": 2.5, "learn": 0.0}).mood == "working"


def test_nothing_to_judge_needs_no_worker():
    assert station("judge", silences={"judge": None, "learn": None}).mood == "idle"


def test_judges_that_have_all_stopped_call_for_a_person_once_nothing_is_due():
    now = station("judge", stopped=True)
    assert now.mood == "you"
    assert now.sentence.startswith("Every judge has stopped: votes teach nothing.")
    assert station("judge", stopped=True, turns={"observed": 1}).mood == "working"


def test_with_redis_away_the_board_says_so_and_what_follows():
    now = station("judge", turns={"observed": 1}, silences=None)
    assert now.mood == "stuck"
    assert "Waiting for Redis" in now.sentence
    assert "sent again once it is back" in now.sentence


def test_a_run_tells_its_phase_and_how_long_it_will_take():
    progress = {"phase": "learning", "done": 4, "total": 16, "share": 0.25, "eta_s": 120.0}
    now = station("learn", run=run("running", progress=progress, heartbeat_at=NOW))
    assert (now.sentence, now.percent) == ("Learning, about 2 min to go.", 25)


def test_a_silent_run_is_stuck():
    now = station("learn", run=run("running", heartbeat_at=NOW - timedelta(seconds=80)))
    assert now.mood == "stuck"
    assert now.sentence.startswith("Its learner has been silent for 80 s")


def test_a_queued_run_names_the_worker_that_is_missing():
    now = station("learn", run=run("queued"), silences={"judge": 0.0, "learn": 300.0})
    assert now.sentence == "Waiting for a learn worker: none has answered for 5 min."


def test_a_failed_run_keeps_its_sentence():
    assert station("learn", run=run("failed", error="The gradient is zero.")).sentence == "The gradient is zero."


def test_a_candidate_that_passed_is_for_a_person():
    passed = Checkpoint(number=4, status="passed", moved_at=NOW)
    now = station("approve", passed=passed, checkpoints={"passed": 2})
    assert (now.mood, now.sentence) == ("you", "It passed the gate and waits for a person. 1 more after it.")


def test_stops_that_wait_for_the_same_are_told_together():
    candidate = Checkpoint(number=4, status="candidate", moved_at=NOW)
    known = facts(turns={"observed": 1}, candidate=candidate, silences={"judge": 40.0, "learn": 0.0})
    [call] = board.Board(known, stations(known)).stuck
    assert call.title == "Judge, Examine"


def test_json_counts_every_state_zero_included(db):
    told = board.read().as_json()
    assert told["turns"] == {"answering": 0, "served": 0, "observed": 0, "judged": 0, "closed": 0}
    assert told["samples"] == {"ready": 0, "claimed": 0, "trained": 0, "stale": 0}
    assert told["runs"] == {"queued": 0, "running": 0, "finished": 0, "failed": 0}
    assert told["checkpoints"] == {
        "candidate": 0, "passed": 0, "approved": 0, "live": 1, "retired": 0, "rejected": 0,
    }  # fmt: skip
    assert told["live"] == 0
    assert told["batch"] == {"ready": 0, "needed": 16, "wanting": 16, "corrections": 0}
    assert told["waiting"] == {"batch": "0 of 16 lessons. Training starts at 16."}


# The socket


@pytest.mark.django_db(transaction=True, serialized_rollback=True)
async def test_nobody_but_staff_hears_the_board(talker):
    for user, code in ((None, 4401), (talker, 4403)):
        async with Tab("/ws/console/", user) as tab:
            assert await tab.ends() == code
            assert await tab.is_silent()


@pytest.mark.django_db(transaction=True, serialized_rollback=True)
async def test_an_open_board_receives_what_changed_and_only_that(operator, make_turn):
    async with Tab("/ws/console/", operator) as tab:
        assert (await tab.hears()).count('hx-swap-oob="true"') == 7

        await sync_to_async(make_turn)(text="A new reply.")
        await get_channel_layer().group_send(BOARD, {"type": "board.changed"})

        news = await tab.hears()
        assert "1 reply waiting for what comes back" in news
        assert 'id="board-decisions"' not in news


@pytest.mark.django_db(transaction=True, serialized_rollback=True)
async def test_an_open_list_of_turns_receives_a_new_one_where_it_is_narrowed_to_its_state(operator, make_turn):
    async with Tab("/ws/console/turns/?status=served", operator) as served:
        assert "No reply is like that." in await served.hears()
        await sync_to_async(make_turn)(text="A new reply.")
        await get_channel_layer().group_send(BOARD, {"type": "board.changed"})
        assert "A new reply." in await served.hears()


@pytest.mark.django_db(transaction=True, serialized_rollback=True)
async def test_a_board_that_cannot_look_closes_so_that_the_page_connects_again(operator, monkeypatch):
    def broken(user):
        raise RuntimeError("the database went away")

    monkeypatch.setattr("webapp.console.fragments.render", broken)
    async with Tab("/ws/console/", operator) as tab:
        assert await tab.ends() == 1011


# The pictures


def test_words_that_only_one_side_has_are_told_apart():
    live, candidate = differences.between("It is blue, you see.", "It is very blue.")
    assert [p.text for p in live if p.only_here] == [", you see"]
    assert [p.text for p in candidate if p.only_here] == ["very "]


def test_of_two_replies_with_little_in_common_the_words_are_marked_that_the_other_does_not_have_anywhere():
    # "the" alone is shared, in another place: 2 · 1 of 4 + 4 words is a quarter
    live, candidate = differences.between("The alpha beta. Gamma", "one two three the")
    assert [p.text for p in live if p.only_here] == ["alpha beta", "Gamma"]
    assert [p.text for p in candidate if p.only_here] == ["one two three"]
    assert differences.has_marks(live, candidate)
    assert not differences.has_marks(*differences.between("The same.", "The same."))


@given(st.text(), st.text(), st.integers(1, 30))
def test_a_text_that_is_shown_in_two_parts_is_whole(left, right, most):
    pieces, _ = differences.between(left, right)
    first, rest, more = differences.shorten(pieces, most)
    assert "".join(piece.text for piece in (*first, *rest)) == left
    assert bool(more) <= bool(rest)


def test_a_text_that_is_hardly_longer_than_what_is_shown_stays_whole():
    pieces = [differences.Piece("one two three four five", False)]
    assert differences.shorten(pieces, 4)[1:] == ([], 0)  # five are at most a quarter more than four
    assert differences.shorten(pieces, 3)[2] == 2


@given(st.text(), st.text())
def test_the_pieces_put_together_are_the_replies(left, right):
    sides = differences.between(left, right)
    assert ["".join(p.text for p in side) for side in sides] == [left, right]


WORDY = st.lists(st.sampled_from(["a", "b", " ", "\n", ", ", "word"]), max_size=30).map("".join)


@pytest.mark.parametrize("compared", [differences.COMPARED, 4])
@given(before=WORDY, after=WORDY)
def test_a_rewrite_and_its_reply_are_both_there_whole_however_much_is_compared(compared, before, after):
    with patch.object(differences, "COMPARED", compared):
        changes = differences.merged(before, after)
    assert "".join(change.text for change in changes if change.kind != "new") == before
    assert "".join(change.text for change in changes if change.kind != "gone") == after
    assert all(one.kind != two.kind for one, two in pairwise(changes))


def test_a_word_that_comes_again_and_again_is_compared_at_once():
    # A cubic comparison of so many steps takes minutes; this one takes a few hundredths of a second.
    before = time.process_time()
    changes = differences.merged("a " * 4000, "a b " * 2000)
    assert [change.kind for change in changes].count("new") == 2000
    differences.between("a " * 4000, "a b " * 2000)
    assert time.process_time() - before < 5


def test_what_is_too_long_to_compare_is_gone_and_new_between_its_common_ends(monkeypatch):
    monkeypatch.setattr(differences, "COMPARED", 8)  # three words are gone and three are new: nine pairs
    changes = differences.merged("so a b c end", "so x b z end")
    assert [(c.kind, c.text) for c in changes] == [
        ("kept", "so "),
        ("gone", "a b c "),
        ("new", "x b z "),
        ("kept", "end"),
    ]


def test_the_heat_map_says_in_words_what_it_shows():
    tokens = heat.tokens(
        {"tokens": ["a", " b", " c"], "logprobs": [-0.5, -3.0, -1.0], "old_logprobs": [-1.0, -1.0, -1.0]}
    )
    assert [token.shade for token in tokens] == ["up-2", "down-4", ""]  # +0.5, −2.0, 0
    assert heat.sentence(tokens) == (
        "Of 3 tokens the hint would raise 1 and lower 1. Lowered most: “b” (−2.00). Raised most: “a” (+0.50)."
    )


def test_a_heat_map_of_lists_that_disagree_raises():
    with pytest.raises(ValueError):
        heat.tokens({"tokens": ["a"], "logprobs": [-1.0, -2.0], "old_logprobs": [-1.0]})


def test_a_curve_spans_its_picture_and_continues_its_ancestors():
    [loss] = small_curves.curves([[{"loss": 1.0}], [{"loss": 0.5, "note": "x"}, {"loss": 0.0}]])
    assert [(at.x, at.y) for at in loss.points] == [
        (4.0, 4.0),
        (100.0, 28.0),
        (196.0, 52.0),
    ]  # 200 × 56, a margin of 4; high is up
    assert loss.own == "4,4 100,28 196,52"  # begun where its ancestor ended
    assert loss.sentence == "loss: from 1 to 0 in 3 updates, between 0 and 1."


def test_a_flat_curve_lies_in_the_middle_and_a_missing_number_is_left_out():
    [kl] = small_curves.curves([[{"kl": 0.2}, {"kl": None}, {"kl": 0.2}]])
    assert [at.y for at in kl.points] == [28.0, 28.0]

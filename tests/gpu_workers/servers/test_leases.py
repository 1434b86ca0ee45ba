"""One owner a card, or turns where there are fewer cards than owners; anything else is refused with a sentence."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpu_workers.servers import leases
from gpu_workers.servers.leases import LeaseInvalid, Leases

COUNTS = st.one_of(st.none(), st.integers(0, 9))


def cards(count):
    return tuple(str(n) for n in range(count))


@given(count=st.integers(0, 9), actor=COUNTS, rollout=COUNTS, prm=COUNTS)
def test_each_gets_as_many_cards_as_it_asked_for_and_none_has_two_owners_without_need(count, actor, rollout, prm):
    asked = {"learner": actor, "engine": rollout, "judge": prm}
    try:
        given_out = leases.divide_cards(cards(count), actor, rollout, prm)
    except LeaseInvalid:
        # Where something is refused, what was asked for (an engine has one card unless told) does not fit singly.
        most = (actor or 0) + (1 if rollout is None else rollout) + (prm or 0) + (actor is None)
        assert most > count
        return
    everyone = [card for owner in vars(given_out).values() for card in owner]
    assert set(everyone) <= set(cards(count))
    for owner, wanted in asked.items():
        assert wanted is None or len(getattr(given_out, owner)) == wanted
    if len(everyone) != len(set(everyone)):  # in turns: more owners than cards, a card each, and every card is used
        owners = [owner for owner in vars(given_out).values() if owner]
        assert len(owners) > count
        assert all(len(owner) == 1 for owner in owners)
        assert set(everyone) == set(cards(count))


@given(count=st.integers(0, 9))
def test_without_a_word_there_is_an_engine_and_the_learner_has_the_rest(count):
    given_out = leases.divide_cards(cards(count))
    assert (len(given_out.engine), given_out.judge) == (min(1, count), ())
    assert len(given_out.learner) == (count if count < 2 else count - 1)
    assert given_out.learner_shares == (count == 1)


def test_cards_are_given_out_in_the_references_order():
    settings = {"NUM_GPUS": "8", "ACTOR_GPUS": "4", "ROLLOUT_GPUS": "2", "PRM_GPUS": "2"}
    given_out = leases.read(settings, cards(8))
    assert given_out == Leases(("0", "1", "2", "3"), ("4", "5"), ("6", "7"))
    assert str(given_out) == "learner 0, 1, 2, 3; engine 4, 5; judge 6, 7"


def test_one_card_is_used_in_turns_and_of_two_the_learner_has_one_to_itself():
    assert leases.divide_cards(cards(1), 1, 1, 1) == Leases(("0",), ("0",), ("0",))
    two = leases.divide_cards(cards(2), 1, 1, 1)
    assert two == Leases(("0",), ("1",), ("1",))
    assert (two.learner_shares, two.engine_shares) == (False, True)


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"NUM_GPUS": "4"}, "NUM_GPUS is 4, and this machine shows 2"),
        ({"ACTOR_GPUS": "2"}, "ACTOR_GPUS=2, ROLLOUT_GPUS=1 make 3 of 2 cards"),
        ({"ACTOR_GPUS": "two"}, "ACTOR_GPUS is 'two': write how many cards"),
        ({"PRM_GPUS": "-1"}, "PRM_GPUS is '-1'"),
        ({"NUM_GPUS": "0", "ROLLOUT_GPUS": "1"}, "ROLLOUT_GPUS=1 make 1 of 0 cards"),
    ],
)
def test_what_cannot_be_is_said_in_a_sentence(settings, says):
    with pytest.raises(LeaseInvalid, match=says):
        leases.read(settings, cards(2))


def test_cards_that_this_process_may_use_keep_their_names(monkeypatch):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "5, GPU-7f")
    assert leases.find_cards() == ("5", "GPU-7f")
    assert leases.read({"NUM_GPUS": "1"}, leases.find_cards()) == Leases(("5",), ("5",))


def test_a_card_has_one_learner_and_beside_it_an_engine(tmp_path):
    with (
        leases.lease(tmp_path, ["0", "1"], "learner"),
        leases.lease(tmp_path, ["1"], "engine"),
        pytest.raises(LeaseInvalid, match=f"GPU 1 has learner already, process {os.getpid()}"),
        leases.lease(tmp_path, ["2", "1"], "learner"),
    ):
        pass
    with leases.lease(tmp_path, ["2", "1"], "learner"):  # what was taken on the way to a refusal was given back
        pass


def test_the_kernel_lets_go_of_a_card_whose_owner_dies(tmp_path):
    code = (
        "import sys, time; from pathlib import Path; from gpu_workers.servers import leases;"
        "taken = leases.take(Path(sys.argv[1]), ['0'], 'engine'); print('taken', flush=True); sys.stdin.read()"
    )
    owner = subprocess.Popen(
        [sys.executable, "-c", code, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert owner.stdout is not None
    assert owner.stdout.readline() == "taken\n"
    with pytest.raises(LeaseInvalid, match=f"process {owner.pid}"), leases.lease(tmp_path, ["0"], "engine"):
        pass
    owner.kill()
    owner.communicate()
    with leases.lease(tmp_path, ["0"], "engine"):
        pass

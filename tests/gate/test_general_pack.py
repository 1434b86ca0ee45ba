"""The general pack: right answers against wrong ones, what a fall costs a candidate, and that live is asked once."""

from __future__ import annotations

from collections import Counter

import pytest

from checkpoints.models import Checkpoint
from gate import findings, general_pack
from gate.general_pack import Row, Scores
from gate.models import Examination
from gpu_workers.errors import EngineUnavailable
from tests.gate.candidates import both_say, check
from training.config import Gate

LIMITS = Gate(prompts=4, pack=10)


def row(before, after, name="a"):
    return Row(name, name, Scores(*before), Scores(*after))


RIGHT, WRONG = (-1.0, (-2.0,)), (-2.0, (-1.0,))


def test_the_packs_items_are_many_varied_and_each_has_one_right_answer():
    items = general_pack.items()
    assert len(items) >= 50
    assert len({item.id for item in items}) == len({item.prompt for item in items}) == len(items)
    assert all(item.right not in item.wrong and len(set(item.wrong)) == len(item.wrong) for item in items)
    kinds = Counter(item.kind for item in items)
    assert {"arithmetic", "fact", "reading", "format", "code", "sanity", "languages", "reference"} <= set(kinds)
    assert len({item.kind for item in items[:24]}) >= 8  # a short pack is varied too


@pytest.mark.parametrize(
    ("lost", "passed"),
    # Of 20. Six lost: 0.05 and two standard errors of 0.105 make 0.26, and 0.30 is more. Three: 0.05 + 2 · 0.082.
    [(0, True), (3, True), (6, False)],
)
def test_a_share_of_the_pack_may_be_lost_and_no_more(lost, passed):
    rows = [row(RIGHT, WRONG if at < lost else RIGHT, str(at)) for at in range(20)]
    share, nats = findings.kept_up(rows, Gate())
    assert share.passed == passed
    assert share.worst == (() if passed else ("0", "1", "2", "3", "4"))
    assert nats.value == pytest.approx(-lost / 20)


def test_what_is_right_but_far_less_likely_fails_too():
    share, nats = findings.kept_up([row((-1.0, (-3.0,)), (-1.6, (-3.0,)))] * 2, Gate())
    assert (share.passed, nats.passed) == (True, False)


def test_what_was_wrong_before_is_no_loss():
    found = general_pack.outcome([row(WRONG, WRONG), row(WRONG, RIGHT), row(RIGHT, RIGHT)])
    assert (found.lost, found.won, found.live, found.candidate) == ((), 1, 1 / 3, 2 / 3)


def test_a_candidate_that_forgot_is_rejected_with_the_questions(engine, examine, candidate):
    honest = engine.logprobs
    items = general_pack.items()[:10]
    forgotten = {
        tuple(engine.tokenizer.encode(item.right, add_special_tokens=False).ids): item.id
        for item in items
        if item.wrong
    }

    def logprobs(prompt_ids, response_ids, adapter):
        fall = -4.0 if adapter and tuple(response_ids) in forgotten else 0.0
        rise = 4.0 if tuple(response_ids) in forgotten else 0.0  # live knows them all
        return [value + rise + 2 * fall for value in honest(prompt_ids, response_ids, adapter)]

    engine.logprobs = logprobs
    both_say(engine)
    exam = examine(LIMITS)
    assert candidate.status == "rejected"
    assert "general questions rightly" in candidate.reason
    failed = check(exam, "general pack")
    assert failed["value"] == 0
    assert set(failed["worst"]) <= set(forgotten.values())
    assert len(failed["worst"]) == 5


def test_what_live_did_is_asked_once_for_all_exams(engine, examine, candidate):
    both_say(engine)
    first = examine(LIMITS)
    of_live = [call for call in engine.asked("score") if call.adapter is None]
    engine.calls.clear()
    second = Checkpoint.objects.create(
        number=2, adapter="talkback-2-b", path="checkpoints/2", probe=candidate.probe, parent=Checkpoint.live()
    )

    asked = general_pack.ask(general_pack.items()[:10], Examination(checkpoint=second, against=Checkpoint.live()),
                     general_pack.known(Checkpoint.live()), engine, examine.renderer)  # fmt: skip

    assert [one.live.right for one in asked] == [one["live"][0] for one in first.pack]
    assert of_live
    assert not [call for call in engine.asked("score") if call.adapter is None]


def test_an_exam_that_died_in_the_pack_goes_on_where_it_was(engine, examine, candidate, monkeypatch):
    both_say(engine)
    ask = general_pack.ask
    handfuls = []

    def dies(wanted, *args):
        if handfuls:
            raise EngineUnavailable("gone")
        handfuls.append([item.id for item in wanted])
        return ask(wanted, *args)

    monkeypatch.setattr(general_pack, "ask", dies)
    with pytest.raises(EngineUnavailable):
        examine(LIMITS)
    exam = Examination.objects.get()
    assert len(exam.pack) == 8
    assert exam.progress.items() >= {"phase": "general pack", "done": 12, "total": 14}.items()  # with four prompts

    monkeypatch.setattr(
        general_pack, "ask", lambda wanted, *args: handfuls.append([i.id for i in wanted]) or ask(wanted, *args)
    )
    exam = examine(LIMITS)
    assert (len(exam.pack), len(handfuls[1])) == (10, 2)
    assert candidate.status == "passed"

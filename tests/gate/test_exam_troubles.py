"""An exam beside damaged weights, a person who decides meanwhile, an engine that forgets or talks nonsense."""

from __future__ import annotations

import pytest

from checkpoints import notices
from checkpoints.models import Checkpoint, Decision
from gate import exam as gate
from gpu_workers.errors import AdapterMissing, EngineGarbled, EngineRefused, EngineUnavailable
from tests.gate.candidates import both_say, check


def test_an_engine_that_forgot_the_candidate_gets_it_again(engine, examine, candidate):
    both_say(engine)
    generate = engine.generate
    forgotten = False

    async def forgets(*args, **kwargs):
        nonlocal forgotten
        if kwargs["adapter"] and not forgotten:
            forgotten = True
            engine.loaded.clear()
        return await generate(*args, **kwargs)

    engine.generate = forgets
    examine()
    assert candidate.status == "passed"
    assert [what for what, _ in engine.admin].count("load") >= 2  # who asks at once may both have it loaded


def test_a_person_who_rejects_during_the_exam_has_the_last_word(engine, examine, candidate, monkeypatch):
    both_say(engine)
    close = gate._close

    def late(exam, checkpoint, checks):
        Checkpoint.objects.filter(pk=candidate.pk).update(status="rejected", reason="I do not like it.")
        close(exam, checkpoint, checks)

    monkeypatch.setattr(gate, "_close", late)
    examine()
    assert (candidate.status, candidate.reason) == ("rejected", "I do not like it.")


def test_a_late_examiner_does_not_reject_what_passed_meanwhile(engine, examine, candidate, monkeypatch):
    engine.invalid.add(candidate.adapter)
    close = gate._close

    def late(exam, checkpoint, checks):
        Checkpoint.objects.filter(pk=candidate.pk).update(status="passed")
        close(exam, checkpoint, checks)

    monkeypatch.setattr(gate, "_close", late)
    exam = examine()
    assert candidate.status == "passed"
    assert (exam.checks, exam.finished_at) == ([], None)
    assert not Decision.objects.exists()


def test_an_examiner_that_lost_its_seat_decides_nothing(engine, examine, candidate, monkeypatch):
    engine.invalid.add(candidate.adapter)
    monkeypatch.setattr("judge.sittings.Seat.renew", lambda self, for_s: False)
    examine()
    assert candidate.status == "candidate"


def test_a_question_the_engine_refuses_fails_the_exam_with_its_sentence(engine, examine, candidate, monkeypatch):
    async def refused(*args, **kwargs):
        raise EngineRefused("The input is too long.")

    monkeypatch.setattr(engine, "generate", refused)
    exam = examine()
    assert candidate.status == "rejected"
    assert "The input is too long." in candidate.reason
    assert [check["passed"] for check in exam.checks] == [False]


def fail_undecided(engine, examine, candidate, monkeypatch, failure):
    """Where every reply of the engine fails so, the exam is for another time and the candidate stays one."""

    async def fail(*args, **kwargs):
        raise failure

    monkeypatch.setattr(engine, "generate", fail)
    with pytest.raises(EngineUnavailable):
        examine()
    candidate.refresh_from_db()
    assert candidate.status == "candidate"


def test_an_engine_that_keeps_forgetting_the_candidate_is_asked_another_time(engine, examine, candidate, monkeypatch):
    fail_undecided(engine, examine, candidate, monkeypatch, AdapterMissing("It is not loaded."))


@pytest.fixture
def damaged(engine, db, settings, tmp_path):
    """A checkpoint whose weights are not those that were written, and which the engine has let go of."""
    settings.DATA_DIR = tmp_path
    folder = tmp_path / "checkpoints" / "9"
    folder.mkdir(parents=True)
    (folder / "adapter_model.safetensors").write_bytes(b"rotten")
    return Checkpoint.objects.create(
        number=9,
        status="retired",
        adapter="talkback-9-99999999",
        path="checkpoints/9",
        parent=Checkpoint.live(),
        files={"adapter_model.safetensors": "0" * 64},
    )


def test_a_damaged_live_checkpoint_has_sound_candidates_wait(engine, examine, candidate, damaged):
    both_say(engine)
    Checkpoint.live().move("retired")
    damaged.go_live()

    for _ in range(2):  # as the sweep asks again
        with pytest.raises(EngineUnavailable, match="checksum differs"):
            examine()
    candidate.refresh_from_db()
    assert candidate.status == "candidate"
    (notice,) = notices.unread()  # told once
    assert notice.text.startswith(f"{damaged} cannot be asked, so the exam of {candidate} waits.")

    damaged.move("retired")  # as the repair does: what was live before answers again
    Checkpoint.objects.get(number=0).go_live()
    examine()
    assert candidate.status == "passed"


def test_a_candidate_of_weights_that_are_gone_for_good_is_held_against_the_base(engine, examine, candidate, damaged):
    both_say(engine)
    Checkpoint.objects.filter(pk=candidate.pk).update(parent=damaged)
    exam = examine()
    assert candidate.status == "passed"
    assert check(exam, "new")["sentence"].endswith("from those of the base.")


def test_a_damaged_candidate_is_still_rejected(engine, examine, candidate, damaged, settings):
    Checkpoint.objects.filter(pk=candidate.pk).update(path=damaged.path, files=damaged.files)
    examine()
    assert candidate.status == "rejected"
    assert "checksum differs" in candidate.reason


def test_an_engine_that_talks_nonsense_decides_nothing_of_a_candidate(engine, examine, candidate, monkeypatch):
    garbled = EngineGarbled("The engine returned 1 log-probs for 2 tokens.")
    fail_undecided(engine, examine, candidate, monkeypatch, garbled)

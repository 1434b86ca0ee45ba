"""A run's life: it counts wholly or not at all, whatever happens in between."""

from __future__ import annotations

from datetime import timedelta
from types import SimpleNamespace

import pytest
from django.utils import timezone

from checkpoints.models import Checkpoint
from core.errors import IllegalMove
from gpu_workers.errors import NothingLearned
from gpu_workers.learner.learner import Learner
from tests.ready_samples import PROMPT, RESPONSE
from tests.training.conftest import RECIPE
from training import batches, learning, runs, tasks
from training.models import Run, Sample
from training.running import run_ledger, run_locks


def again(row):
    return type(row).objects.get(pk=row.pk)


def folders(home):
    checkpoints = home / "checkpoints"
    return sorted(path.name for path in checkpoints.iterdir()) if checkpoints.exists() else []


def test_a_run_ends_in_a_candidate_and_trained_samples(queued, home):
    candidate = runs.train(queued)

    run = again(queued)
    assert (run.status, run.attempts, run.error) == ("finished", 1, "")
    assert (candidate.status, candidate.number, candidate.kind) == ("candidate", 1, "lora")
    assert (candidate.parent.number, candidate.run) == (0, run)
    assert candidate.adapter.startswith("talkback-1-")
    assert set(run.samples.values_list("status", flat=True)) == {"trained"}
    assert (candidate.folder / "adapter_model.safetensors").exists()
    assert folders(home) == [candidate.adapter]


def test_the_candidate_is_what_the_files_hold(queued, home, settings):
    candidate = runs.train(queued)

    probe = candidate.probe
    saved = Learner(settings.MODEL, adapter_dir=candidate.folder, dtype=probe["dtype"])
    assert saved.score(probe["prompt_ids"], probe["response_ids"]) == pytest.approx(probe["logprobs"], abs=1e-5)
    base = saved.score(probe["prompt_ids"], probe["response_ids"], adapter=False)
    assert base == pytest.approx(probe["base_logprobs"], abs=1e-5)
    assert probe["logprobs"] != probe["base_logprobs"]


def test_each_update_leaves_its_figures(queued):
    runs.train(queued)

    metrics = again(queued).metrics
    assert [row["update"] for row in metrics] == [1, 2]
    expected = {
        "loss", "policy_loss", "kl_loss", "distillation_loss", "kl", "entropy", "clip_fraction", "ratio_mean",
        "ratio_max", "advantage_mean", "advantage_min", "advantage_max", "grad_norm", "adapter_norm", "update_norm",
        "gap_mean", "gap_p99", "tokens", "tokens_per_s", "seconds", "lr",
    }  # fmt: skip
    assert expected <= metrics[0].keys()
    assert metrics[0]["kl"] == pytest.approx(0.0, abs=1e-3)  # nothing has moved yet; bfloat16 rounds by 6e-5 here
    assert metrics[1]["kl"] > 0.1
    assert (metrics[0]["advantage_min"], metrics[0]["advantage_max"]) == (-1.0, 1.0)


def test_each_update_says_what_its_batch_said(queued):
    runs.train(queued)

    for figures in again(queued).metrics:
        told = {name: value for name, value in figures.items() if name.startswith(("replies", "reply"))}
        assert told == {
            "replies_praised": 1, "replies_blamed": 1, "replies_marked": 0, "replies_hinted": 2,
            "replies_demonstrated": 0, "replies_rewritten": 0, "replies_rehearsed": 0, "replies_replayed": 0,
            "reply_tokens_mean": 5.0, "reply_tokens_max": 5,
        }  # fmt: skip
        drawn = figures["advantage_histogram"]
        assert drawn["edges"] == [-2.125 + 0.25 * n for n in range(18)]
        # Of 15 tokens five are blamed, five praised and five only hinted: a teacher's distribution is no advantage.
        assert {n: count for n, count in enumerate(drawn["counts"]) if count} == {4: 5, 8: 5, 12: 5}


def test_marks_masks_and_the_teachers_gap_are_in_the_histogram(ready, home, served):
    ready(reward=0.0, rewards=[0, 1, 1, 0, -1], mask=[1, 1, 1, 0, 1], teacher_prompt_ids=None)
    run = batches.learn_now(RECIPE.model_copy(update={"distillation": "token"}))
    runs.train(run)

    figures = again(run).metrics[0]
    assert (figures["replies_marked"], figures["replies_praised"]) == (1, 0)
    counts = figures["advantage_histogram"]["counts"]  # two praised, one blamed, one not marked; one is masked
    assert {n: count for n, count in enumerate(counts) if count} == {4: 1, 8: 1, 12: 2}


def test_the_next_candidate_goes_on_from_what_is_live(queued, ready, settings):
    first = runs.train(queued)
    Checkpoint.objects.filter(pk=first.pk).update(status="approved")
    again(first).go_live()
    for _ in range(3):
        ready(checkpoint=Checkpoint.objects.get(number=0))

    second = runs.train(batches.fill(RECIPE))

    assert second.parent == first
    assert Learner(settings.MODEL, adapter_dir=second.folder, dtype="float32").steps == 4


def test_one_run_at_a_time_and_the_next_one_is_announced(queued, ready, django_capture_on_commit_callbacks):
    waiting = batches.learn_now(RECIPE) if ready() else None
    Run.objects.filter(pk=waiting.pk).update(status="running", heartbeat_at=timezone.now())
    assert runs.train(queued) is None
    assert again(queued).status == "queued"

    Run.objects.filter(pk=waiting.pk).update(status="queued")
    heard = []
    from core.states import moved

    def hear(sender, pk, status, **kwargs):
        heard.append((sender, pk, status))

    moved.connect(hear)
    try:
        with django_capture_on_commit_callbacks(execute=True):
            runs.train(queued)
    finally:
        moved.disconnect(hear)
    assert (Run, waiting.pk, "queued") in heard


def test_a_finished_run_does_nothing_when_it_is_sent_again(queued, home):
    runs.train(queued)
    before = folders(home)

    assert tasks.train(str(queued.pk)) is None

    assert Checkpoint.objects.count() == 2
    assert folders(home) == before


def test_a_crash_between_files_and_rows_leaves_no_candidate_and_the_next_run_sweeps_up(queued, home, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr(runs, "_finish", lambda *args: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            runs.train(queued)
    assert again(queued).status == "running"  # as a killed worker leaves it
    assert len(folders(home)) == 1

    assert runs.recover() == [queued]  # at once: no process holds its lock
    candidate = runs.train(again(queued))

    assert folders(home) == [candidate.adapter]
    assert again(queued).attempts == 2
    assert set(Sample.objects.values_list("status", flat=True)) == {"trained"}


def silent(run):
    Run.objects.filter(pk=run.pk).update(heartbeat_at=timezone.now() - timedelta(seconds=runs.HUNG_S + 1))


def test_a_run_that_was_heard_of_is_left_alone(queued):
    Run.objects.filter(pk=queued.pk).update(status="running", heartbeat_at=timezone.now())

    assert runs.recover() == []


def test_a_run_whose_worker_lives_is_left_alone_for_longer(queued):
    Run.objects.filter(pk=queued.pk).update(
        status="running", heartbeat_at=timezone.now() - timedelta(seconds=runs.SILENCE_S + 1)
    )

    with run_locks.hold(queued) as held:
        assert held
        assert runs.recover() == []
        assert runs.train(queued) is None  # and no other worker begins it
    assert runs.recover() == [queued]


def test_a_run_on_which_workers_keep_dying_fails(queued):
    Run.objects.filter(pk=queued.pk).update(status="running", attempts=runs.ATTEMPTS)
    silent(queued)

    runs.recover()

    assert again(queued).status == "failed"
    assert "3 workers died" in again(queued).error
    assert set(Sample.objects.values_list("status", flat=True)) == {"ready"}


def test_a_worker_that_was_given_up_on_cannot_commit(queued, home, monkeypatch):
    update = learning._update

    def slow(*args, **kwargs):
        update(*args, **kwargs)
        silent(queued)
        runs.recover()
        Run.objects.filter(pk=queued.pk).update(status="running", attempts=2)  # another worker began

    monkeypatch.setattr(learning, "_update", slow)

    assert runs.train(queued) is None

    assert Checkpoint.objects.count() == 1
    assert again(queued).status == "running"
    assert set(Sample.objects.values_list("status", flat=True)) == {"claimed"}


def test_a_worker_that_was_given_up_on_cannot_fail_the_next_ones_run(queued, home, monkeypatch):
    def late(*args, **kwargs):
        Run.objects.filter(pk=queued.pk).update(attempts=2)  # another worker began
        raise NothingLearned("Too late.")

    monkeypatch.setattr(learning, "_update", late)

    assert runs.train(queued) is None

    assert (again(queued).status, again(queued).error) == ("running", "")
    assert set(Sample.objects.values_list("status", flat=True)) == {"claimed"}


def test_a_person_stops_a_running_run(queued, home, monkeypatch):
    look = learning.score_with_frozen_models

    def asked(learner, job, ledger):
        runs.cancel(queued)
        ledger.written = float("-inf")
        return look(learner, job, ledger)

    monkeypatch.setattr(learning, "score_with_frozen_models", asked)

    assert runs.train(queued) is None

    assert (again(queued).status, again(queued).error) == (
        "failed",
        "Stopped by a person before it had changed anything.",
    )
    assert set(Sample.objects.values_list("status", flat=True)) == {"ready"}


def test_a_queued_run_stops_at_once_and_one_that_is_over_cannot(queued):
    runs.cancel(queued)

    assert again(queued).error == "Stopped by a person before it began."
    with pytest.raises(IllegalMove, match="nothing to stop"):
        runs.cancel(queued)


def test_progress_names_the_phase_and_what_is_left(queued, monkeypatch):
    monkeypatch.setattr(run_ledger, "BEAT_S", 0.0)
    seen = []
    beat = run_ledger.Ledger.beat

    def heard(self, *args, **kwargs):
        beat(self, *args, **kwargs)
        seen.append(again(queued).progress)

    monkeypatch.setattr(run_ledger.Ledger, "beat", heard)

    runs.train(queued)

    assert list(dict.fromkeys(row["phase"] for row in seen)) == ["loading", "teacher", "learning", "saving"]
    learning = [row for row in seen if row["phase"] == "learning"]
    assert [row["total"] for row in learning] == [6] * len(learning)  # 2 updates of 3 samples
    assert max(row["done"] for row in learning) == 6
    assert all(row["eta_s"] >= 0 for row in learning)
    # Of the whole run: 3 samples that are read once and learned from twice, at three times the work, are 21 units.
    shares = [row["share"] for row in seen if "share" in row]
    assert shares == sorted(shares)
    assert shares[0] == 0
    assert shares[-1] == 1
    assert round(3 / 21, 4) in shares


def test_what_is_left_never_grows(queued, monkeypatch):
    now = iter([0.0, 10.0, 20.0, 80.0, 90.0, 100.0])
    monkeypatch.setattr(run_ledger, "time", SimpleNamespace(monotonic=lambda: next(now)))
    ledger = run_ledger.Ledger(queued, 10)
    left = []
    monkeypatch.setattr(ledger, "_write", lambda progress: left.append(progress["eta_s"]))
    monkeypatch.setattr(run_ledger, "patiently", lambda write: write())
    for work in (1, 4, 1, 2, 2):
        ledger.beat("learning", 1, 1, work=work)
    # 10 s a unit and nine left; 4 s and five; 13.3 s and four would be 53 s; 11.25 s and two would be 22.5 s; none.
    assert left == [90.0, 20.0, 20.0, 20.0, 0.0]


# What must never pass silently


def alarm(run):
    assert runs.train(run) is None
    run = again(run)
    assert run.status == "failed"
    assert set(run.samples.values_list("status", flat=True)) == {"ready"}
    assert not run.metrics
    return run.error


def test_all_advantages_zero(ready, home):
    for _ in range(3):
        ready(reward=0.0)
    run = batches.fill(RECIPE)
    Sample.objects.update(teacher_prompt_ids=None)

    assert "Every advantage is zero" in alarm(run)


def test_a_teacher_that_says_what_the_student_says(ready, home):
    for _ in range(3):
        ready(teacher_prompt_ids=PROMPT)

    assert "teacher says exactly what the student says" in alarm(batches.fill(RECIPE))


def test_an_engine_that_ran_something_else(ready, home):
    for _ in range(3):
        ready(behaviour_logprobs=[-9.0] * len(RESPONSE))

    assert "nats per token apart on the same weights" in alarm(batches.fill(RECIPE))


def test_a_rate_that_changes_nothing(ready, home):
    for _ in range(3):
        ready()

    assert "changed no weight" in alarm(batches.fill(RECIPE.model_copy(update={"lr": 1e-45})))


def test_a_loss_that_is_not_a_number(queued, monkeypatch):
    from training.objective import updates

    monkeypatch.setattr(updates, "objective", lambda recipe: lambda scores: (scores.logprobs.sum() * float("nan"), {}))

    assert "loss of sample 1 or 2 or 3 is nan" in alarm(queued)


def test_weights_that_answer_as_the_base_does(queued, monkeypatch):
    score = Learner.score
    monkeypatch.setattr(Learner, "score", lambda self, p, r, *, adapter=True: score(self, p, r, adapter=False))

    assert runs.train(queued) is None
    assert "answer exactly as the base does" in again(queued).error


def test_a_full_run_cannot_go_on_from_an_adapter(queued, ready, home):
    first = runs.train(queued)
    Checkpoint.objects.filter(pk=first.pk).update(status="approved")
    again(first).go_live()
    for _ in range(3):
        ready()

    assert "cannot go on from it" in alarm(batches.fill(RECIPE.model_copy(update={"weights": "full"})))


def test_an_empty_run_is_no_run(home, db):
    run = Run.objects.create(recipe=RECIPE.model_dump(), parent=Checkpoint.live())

    runs.train(run)

    assert "claimed no sample" in again(run).error


def test_the_gap_is_a_mean_and_a_tail():
    gap = learning.Gap.between([-1.0] * 100, [-1.1] * 99 + [-2.0])

    assert (gap.mean, gap.p99) == (pytest.approx(0.109), pytest.approx(0.1))
    with pytest.raises(ValueError):
        learning.Gap.between([-1.0], [-1.0, -2.0])


# The tasks


def test_a_ready_sample_completes_its_batch(ready, home, settings):
    settings.RECIPE = str(home / "recipe.json")
    (home / "recipe.json").write_text('{"batch_size": 2}')
    samples = [ready() for _ in range(5)]

    tasks.fill_batch(str(samples[-1].pk))

    assert Run.objects.count() == 2
    assert Sample.objects.filter(status="ready").count() == 1


def test_an_alarm_is_a_failure_with_a_name():
    assert (NothingLearned.code, NothingLearned.retryable) == ("nothing_learned", False)

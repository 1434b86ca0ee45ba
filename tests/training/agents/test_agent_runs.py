"""Runs that learn from attempts: what each step was worth is written down, and counts wholly or not at all."""

from __future__ import annotations

import json

import pytest

from checkpoints.models import Checkpoint
from checkpoints.notice_rows import Notice
from episodes.models import Episode
from judge.samples.sample_rows import NOTHING
from tests.ready_attempts import FAILED, SOLVED, Try
from training import batches, journals, runs
from training.config import PRESETS, Recipe
from training.models import Run, Sample
from training.provenance import cleaning, receipt_checks, receipts, taints

RECIPE = Recipe(batch_size=2, w_opd=0.0, w_sft=0.0, updates=2, lr=1e-2)


def again(row):
    return type(row).objects.get(pk=row.pk)


def worth(group):
    """(advantage, left_out) of each step, an attempt a list."""
    return [
        [(one.advantage, one.left_out) for one in episode.samples.order_by("step")] for episode in group.episodes.all()
    ]


def test_a_run_learns_an_attempt_a_row_and_writes_down_what_its_steps_were_worth(play, home):
    group = play(SOLVED, FAILED)
    run = batches.fill(RECIPE)

    candidate = runs.train(run)

    run = again(run)
    assert (run.status, run.checkpoint, run.error) == ("finished", candidate, "")
    # Step 0 is worth 1 + 1 and -1 - 1, step 1 is 1 + 1 and 1 - 1: standardised +1 and -1 either time.
    assert worth(group) == [[(pytest.approx(1, abs=1e-5), "")] * 2, [(pytest.approx(-1, abs=1e-5), "")] * 2]
    assert set(Sample.objects.values_list("status", flat=True)) == {"trained"}
    assert set(Episode.objects.values_list("status", flat=True)) == {"learned"}
    assert run.agents == {
        "baseline": "index", "groups": 1, "attempts": 2, "mean_length": 2.0, "truncated_share": 0.0, "success": 0.5,
        "attempts_at": {"0": 2, "1": 2}, "left_out": {}, "rows": 2, "apart": {}, "alarms": [],
    }  # fmt: skip
    figures = run.metrics[0]
    assert (figures["attempts"], figures["steps"], figures["reply_tokens_mean"]) == (2, 4, 3.0)
    assert figures["gap_mean"] < 0.05  # between the replies, whose log-probs were set to 0, nothing is compared
    assert (figures["advantage_min"], figures["advantage_max"]) == (
        pytest.approx(-1, abs=1e-5),
        pytest.approx(1, abs=1e-5),
    )
    # Two rows of 3 + 2 + 3 tokens, and nothing behind the last reply.
    assert figures["tokens"] == 16


def test_a_solved_attempt_grows_likelier_and_a_failed_one_less_likely(play, home, settings):
    from gpu_workers.learner.learner import Learner

    play(SOLVED, FAILED)
    good, bad = (list(Sample.objects.filter(episode__attempt=n).order_by("step")) for n in (0, 1))

    candidate = runs.train(batches.fill(RECIPE))

    learner = Learner(settings.MODEL, adapter_dir=candidate.folder, dtype="float32")
    grown = [
        sum(learner.score(one.prompt_ids, one.response_ids)) - sum(one.behaviour_logprobs) for one in [*good, *bad]
    ]
    assert min(grown[:2]) > 0.5
    assert max(grown[2:]) < -0.5


def test_a_run_learns_peoples_replies_and_attempts_together(play, ready, home):
    group = play(SOLVED, Try("failed", (-1.0, 1.0), apart_at=1))
    reply = ready(reward=-1.0, teacher_prompt_ids=None)
    run = batches.fill(RECIPE.model_copy(update={"batch_size": 3}))

    assert runs.train(run) is not None

    run = again(run)
    assert (run.metrics[0]["replies_blamed"], run.metrics[0]["attempts"], run.metrics[0]["steps"]) == (1, 2, 4)
    assert run.agents["rows"] == 3
    assert list(run.agents["apart"].values()) == [1]
    reply.refresh_from_db()
    assert (reply.status, reply.advantage, reply.left_out) == ("trained", None, "")
    assert worth(group)[0][0] == (pytest.approx(1, abs=1e-5), "")


def test_steps_that_are_not_learned_say_why(play, home):
    group = play(
        Try("solved", (1.0, 0.0, 1.0)),
        Try("failed", (-1.0, 2.0 - 1.0)),
        Try("truncated", (1.0,), cut_by="context"),
        Try("infra_error", ()),
    )
    run = batches.fill(RECIPE)
    runs.train(run)

    told = [[why for _, why in attempt] for attempt in worth(group)]
    assert told == [
        ["", "", "no other attempt came as far as this step"],
        ["", ""],
        ["the attempt was cut off, and is not counted"],
        [],
    ]
    run = again(run)
    assert run.agents["left_out"] == {
        "no other attempt came as far as this step": 1,
        "the attempt was cut off, and is not counted": 1,
    }
    assert (run.agents["attempts"], run.agents["mean_length"], run.agents["attempts_at"]) == (
        2,
        2.5,
        {"0": 2, "1": 2, "2": 1},
    )
    assert run.agents["truncated_share"] == pytest.approx(1 / 3, abs=1e-4)


@pytest.mark.parametrize(
    ("baseline", "expected"),
    [
        # Outcomes 1 and -1; step values 2, 1 and -2, 0; scores 1, 0 and -1, 1.
        ("outcome", [1, 1, -1, -1]),
        ("index", [1, 1, -1, -1]),
        ("pooled", [1.18322, 0.50709, -1.52128, -0.16903]),  # mean 0.25, std √2.1875
        # (±1 + (score - 0.25) / √0.6875) / √2
        ("episode_plus_step", [1.34671, 0.49391, -1.77312, -0.06751]),
    ],
)
def test_the_recipe_says_what_a_step_is_compared_with(play, home, baseline, expected):
    group = play(Try("solved", (1.0, 0.0)), Try("failed", (-1.0, 1.0)))
    run = batches.fill(RECIPE.model_copy(update={"baseline": baseline, "updates": 1}))
    runs.train(run)

    found = [advantage for attempt in worth(group) for advantage, _ in attempt]
    assert found == pytest.approx(expected, abs=1e-4)
    assert again(run).agents["baseline"] == baseline


def test_attempts_that_are_all_alike_teach_nothing_and_no_run_tries_them_again(play, home):
    play(SOLVED, SOLVED)
    run = batches.fill(RECIPE)

    assert runs.train(run) is None

    run = again(run)
    assert run.status == "failed"
    assert run.error == (
        "No step of these attempts was better or worse than its peers, so nothing was learned: 4 × all attempts are "
        "equal here. Tasks that are sometimes solved teach."
    )
    assert set(Sample.objects.values_list("status", "advantage")) == {("ready", None)}
    assert set(Episode.objects.values_list("status", flat=True)) == {"scored"}
    assert batches.fill(RECIPE) is None


def test_people_are_learned_where_all_attempts_are_alike(play, ready, home):
    play(SOLVED, SOLVED)
    ready(reward=-1.0, teacher_prompt_ids=None)
    run = batches.fill(RECIPE.model_copy(update={"batch_size": 3}))

    assert runs.train(run) is not None
    assert again(run).agents["left_out"] == {"all attempts are equal here": 4}
    assert again(run).agents["rows"] == 0


def test_a_step_that_was_taken_back_counts_as_one_of_which_nothing_was_said(play, home):
    group = play(Try("solved", (1.0, 1.0)), Try("failed", (1.0, 1.0)), Try("failed", (-1.0, 1.0)))
    Sample.objects.filter(episode__attempt=2, step=0).delete()
    run = batches.fill(RECIPE)
    runs.train(run)

    # Step 0 is worth 2, 0, and -1 of which nothing was said: mean 1/3, std √(14/9).
    first = [attempt[0][0] for attempt in worth(group)]
    assert first[:2] == pytest.approx([1.33631, -0.26726], abs=1e-4)
    assert len(worth(group)[2]) == 1


def test_a_run_that_is_killed_before_it_counts_leaves_no_trace_and_the_next_comes_to_the_same(play, home, monkeypatch):
    group = play(SOLVED, FAILED)
    run = batches.fill(RECIPE)
    with monkeypatch.context() as patch:
        patch.setattr(runs, "_finish", lambda *args: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            runs.train(run)
    assert worth(group)[0] == [(None, "")] * 2
    assert (again(run).agents, group.episodes.first().status) == ({}, "scored")

    runs.recover()
    assert runs.train(again(run)) is not None

    assert worth(group)[0] == [(pytest.approx(1, abs=1e-5), "")] * 2
    assert again(run).agents["attempts"] == 2


def test_the_preset_for_agents_learns_no_hint_and_no_rewrite():
    recipe = PRESETS["agents"]
    assert (recipe.w_rl, recipe.w_opd, recipe.w_sft, recipe.w_closed, recipe.rehearsal) == (1, 0, 0, 0, 0)
    assert (recipe.baseline, recipe.batch_size, recipe.updates) == ("index", 32, 2)


# Votes that contradict outcomes


def contrary(*, voted):
    """Twenty steps of four attempts: four in five are voted against how the attempt ended."""
    down, up = (-1.0,) * 4 + (1.0,), (1.0,) * 4 + (-1.0,)
    return [Try(*one, voted=voted) for one in (("solved", down), ("solved", down), ("failed", up), ("failed", up))]


def drowning(*, voted):
    """Sixteen steps of attempts that hardly differ in how they ended, with votes that know nothing of it."""
    return [
        Try("failed", scores, voted=voted, outcome=outcome)
        for outcome in (-0.9, -1.0)
        for scores in ((1.0, -1.0) * 2, (-1.0, 1.0) * 2)
    ]


@pytest.mark.parametrize(
    ("tries", "said"),
    [
        # Of 20 steps 16 contradict the outcome and 4 agree: (4 - 16) / 20, beyond 2 / √20 = 0.45.
        (contrary, "over 20 steps votes and outcomes correlate by -0.60. "),
        # 0.05 of the outcomes beside 1 of the votes: 0.05 / √(0.05² + 1).
        (drowning, "correlates with it by 0.05, and by 1.00 without the votes (at least 0.2). "),
    ],
)
def test_a_run_stops_where_step_votes_contradict_or_drown_the_outcomes(play, home, tries, said):
    group = play(*tries(voted=True))
    run = batches.learn_now(RECIPE)

    assert runs.train(run) is None

    run = again(run)
    assert run.status == "failed"
    assert said in run.error
    assert run.error.endswith("Nothing was learned. Look at the votes; “Learn now” takes these attempts up again.")
    assert Checkpoint.objects.count() == 1
    steps = Sample.objects.filter(episode__group=group)
    assert set(steps.values_list("status", "run", "advantage")) == {("ready", run.pk, None)}
    assert batches.fill(RECIPE) is None  # it is set aside
    assert batches.learn_now(RECIPE).samples.count() == steps.count()


@pytest.mark.parametrize("tries", [contrary, drowning])
def test_scores_by_rule_are_trusted_whatever_they_say(play, home, tries):
    play(*tries(voted=False))

    assert runs.train(batches.fill(RECIPE)) is not None


def test_votes_that_agree_with_the_outcomes_or_know_nothing_of_them_stop_no_run(play, home):
    play(Try("solved", (1.0,) * 5, voted=True), Try("failed", (-1.0, 1.0) * 2, voted=True))
    play(Try("solved", (1.0, -1.0) * 4, voted=True), Try("failed", (-1.0, 1.0) * 4, voted=True))

    assert runs.train(batches.learn_now(RECIPE.model_copy(update={"batch_size": 4}))) is not None


# Alarms


def grown(play, steps, solved=1):
    """A run on attempts of so many steps."""
    play(Try("solved", (1.0,) * steps), Try("failed", (-1.0,) * steps))
    run = batches.fill(RECIPE.model_copy(update={"updates": 1, "lr": 1e-3}))
    runs.train(run)
    return again(run)


def test_attempts_that_grow_longer_for_three_runs_and_no_better_raise_an_alarm(play, home):
    found = [grown(play, steps) for steps in (1, 2, 3, 4)]

    said = "Attempts grew longer for 3 runs, from 1.0 to 4.0 steps, and success did not grow (50 %, now 50 %)."
    assert [run.agents["alarms"] for run in found] == [[], [], [], [said]]
    notice = Notice.objects.get()
    assert (notice.key, notice.level, notice.checkpoint) == ("agents shared", "warning", found[-1].checkpoint)
    assert said in notice.text


def test_alarms_compare_runs_on_the_same_worlds_alone(play, home):
    found = []
    for steps in (1, 2, 3, 4):
        found.append(grown(play, steps))
        if steps == 3:
            Sample.objects.first().episode.group.__class__.objects.update(world="other")

    assert [run.agents["alarms"] for run in found] == [[]] * 4
    assert not Notice.objects.exists()


def test_no_run_is_made_for_an_attempt_twice(play, home):
    play(SOLVED, FAILED)
    runs.train(batches.fill(RECIPE))

    assert batches.fill(RECIPE) is None
    assert Run.objects.count() == 1


# What weights say of it


def test_a_receipt_names_groups_and_attempts_by_number_and_digests_what_was_learned(play, home):
    group = play(SOLVED, FAILED)
    run = batches.fill(RECIPE)
    candidate = runs.train(run)

    told = receipts.receipt(candidate)

    attempts = [str(one.pk) for one in group.episodes.all()]
    assert told["parts"]["run"]["groups"] == [{"group": group.pk, "attempts": attempts}]
    assert told["parts"]["run"]["baseline"] == "index"
    assert all(
        one.holds for one in [*receipt_checks.check(told), *receipt_checks.check_here(told)] if one.holds is not None
    )
    step = Sample.objects.first()
    known = receipts.of_sample(step)
    assert known in told["parts"]["samples"]["digests"]
    step.advantage = 0.5
    assert receipts.of_sample(step) != known


def test_a_journal_tells_what_attempts_a_run_learned_from(play, home):
    play(SOLVED, FAILED)
    run = batches.fill(RECIPE)
    runs.train(run)

    assert json.loads(next(journals.lines(again(run))))["agents"]["attempts"] == 2


def test_a_clean_line_learns_the_rest_of_a_group_again(play, home):
    """Of three attempts one was taken back since: the other two are compared anew, and keep what they were worth."""
    group = play(SOLVED, FAILED, FAILED)
    other = play(SOLVED, FAILED)
    first = batches.learn_now(RECIPE.model_copy(update={"batch_size": 5}))
    candidate = runs.train(first)
    before = worth(group)
    for one in (group, other):
        gone = one.episodes.first() if one == other else one.episodes.last()
        Sample.objects.filter(episode=gone).update(drop_reason="its chat was deleted", **NOTHING)
    taints.look()

    started = cleaning.start(candidate, by=None)
    cleaning.go_on(started.pk)
    repeated = Run.objects.get(again=first)
    assert runs.train(repeated) is not None

    repeated = again(repeated)
    assert (repeated.agents["groups"], repeated.agents["attempts"]) == (1, 2)  # of `other` one attempt is left: none
    assert set(repeated.learned) == set(
        Sample.objects.filter(episode__group=group, drop_reason="").values_list("pk", flat=True)
    )
    assert worth(group) == before

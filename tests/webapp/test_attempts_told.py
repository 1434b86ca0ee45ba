"""What pages say of an agent's attempts while they wait to be learned, and afterwards."""

from __future__ import annotations

import pytest
from django.contrib.auth import get_user_model
from django.utils import timezone

from checkpoints.models import Checkpoint
from episodes.models import Episode, Group
from tests.webapp.conftest import text_of
from webapp.journeys.known import journey


@pytest.fixture
def steps(make_lesson, settings, tmp_path):
    """The verdicts on two attempts of two steps each, whose group is judged; a run begins at four lessons."""
    recipe = tmp_path / "recipe.json"
    recipe.write_text('{"preset": "agents", "batch_size": 4}')
    settings.RECIPE = str(recipe)
    group = Group.objects.create(
        user=get_user_model().objects.create_user("player"),
        name="g",
        world="till",
        task="sum-7",
        split="train",
        attempts=2,
        checkpoint=Checkpoint.live(),
        judged_at=timezone.now(),
    )
    made = []
    for attempt, ending in enumerate(("solved", "failed")):
        episode = Episode.objects.create(
            group=group,
            attempt=attempt,
            status="scored",
            ending=ending,
            outcome=1.0 if ending == "solved" else -1.0,
            lease_s=9,
            lease_until=timezone.now(),
        )
        for step in range(2):
            verdict = make_lesson(hint="")
            sample = verdict.sample
            sample.teacher_prompt_ids, sample.episode, sample.step = None, episode, step
            sample.save()
            made.append(verdict)
    return made


WAITS = "2 of 4 lessons; 2 of these are attempts. Training starts at 4, or now."


def test_a_step_says_that_it_waits_with_its_group(steps):
    told = journey(steps[0].turn)

    assert (told.stage, told.label) == ("batch", "waits with its group")
    assert told.detail.endswith(f"It is a step of an attempt, learned together with all of its group. {WAITS}")


def test_a_step_whose_run_failed_says_that_a_person_takes_it_up(steps, make_run):
    run = make_run("failed")
    for one in steps:
        one.sample.run = run
        one.sample.save()

    assert journey(steps[0].turn).detail.endswith(
        f"Run {run.pk} left it aside: “Learn now” in the console takes it up."
    )


def test_a_step_that_its_run_did_not_learn_says_why(steps, make_checkpoint):
    run = make_checkpoint(1).run
    for one in steps:
        one.sample.run, one.sample.status = run, "trained"
        one.sample.left_out = "all attempts are equal here"
        one.sample.save()

    told = journey(steps[0].turn)
    assert told.label == "not learned"
    assert told.detail.endswith("talkback@1 learned from its group. Not learned: all attempts are equal here.")


def test_the_board_shows_an_attempt_as_one_lesson(steps, console):
    assert "2 of 4 lessons; 2 of these are attempts." in text_of(console.get("/console/"))
    page = text_of(console.get("/console/forecast/"))
    assert page.count('<li class="cell full">') == 2
    assert page.count('<li class="cell"></li>') == 2
    assert page.count('title="step 1 of an attempt"') == 2
    assert "Learn now from 2 lessons" in page


def test_a_run_shows_what_each_step_was_worth(steps, console, make_run):
    run = make_run(metrics=[{"loss": 0.5, "attempts": 2, "steps": 3}])
    for at, one in enumerate(steps):
        one.sample.run, one.sample.status = run, "trained"
        one.sample.advantage = 1.25 if at == 0 else None
        one.sample.left_out = "" if at == 0 else "all attempts are equal here"
        one.sample.save()

    page = text_of(console.get(f"/console/runs/{run.pk}/"))

    assert "4: 2 attempts of 3 steps" in page
    assert "step 1 of an attempt, worth +1.25" in page
    assert page.count("step 2 of an attempt, not learned: all attempts are equal here") >= 2

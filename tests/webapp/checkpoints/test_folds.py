"""What is folded away on a checkpoint's page comes once it is opened; the page asks only for panels that have rows."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.urls import reverse
from django.utils import timezone

from checkpoints.cleaning_rows import Cleaning
from checkpoints.models import Checkpoint, Line, Taint, Trial
from episodes.models import Exam
from evaluation.models import Export
from tests.webapp.conftest import text_of, unfolded
from training.models import Sample
from webapp.console.checkpoints import panels, tainted, tried

FOLDS = {
    "figures": "Long enough.",  # what the gate's check said
    "lessons": "Say it in one word.",
    "made": "batch_size",  # of the recipe
}


@pytest.fixture
def taught(make_checkpoint, make_lesson):
    checkpoint = make_checkpoint(1)
    make_lesson("trained", run=checkpoint.run)
    return checkpoint


@pytest.mark.parametrize("fold", FOLDS)
def test_a_fold_leads_to_its_part_which_is_a_page_of_its_own_without_a_script(fold, console, taught):
    address, said = reverse(f"console:checkpoint_{fold}", args=[1]), FOLDS[fold]
    page = text_of(console.get(reverse("console:checkpoint", args=[1])))
    later = f'<p hx-get="{address}" hx-trigger="toggle once from:closest details" hx-swap="outerHTML">'
    assert f'{later}<a class="button small" href="{address}">Show</a></p>' in page
    assert said not in page

    part = text_of(console.get(address, headers={"HX-Request": "true"}))
    assert said in part
    assert "<html" not in part

    whole = text_of(console.get(address))
    assert f'<h1><a href="{reverse("console:checkpoint", args=[1])}">talkback@1</a>' in whole
    assert said in whole


def test_the_folds_of_what_no_run_made_are_empty_or_not_there(console, db):
    page = unfolded(console, 0)
    assert reverse("console:checkpoint_lessons", args=[0]) not in page
    assert "The base model, as it came." in page
    for fold in FOLDS:
        was_examined = fold != "figures"
        assert console.get(reverse(f"console:checkpoint_{fold}", args=[0])).status_code == (
            200 if was_examined else 404
        )
        assert console.get(reverse(f"console:checkpoint_{fold}", args=[9])).status_code == 404


def test_how_many_lessons_are_folded_away_is_said_before_they_are_fetched(console, taught, make_lesson):
    make_lesson("trained", run=taught.run)
    page = text_of(console.get(reverse("console:checkpoint", args=[1])))
    assert f"2 lessons in run {taught.run.pk}" in page


def awaits_agents(checkpoint, user):
    live = Checkpoint.live()
    Exam.objects.create(user=user, world="till", candidate=checkpoint, live=live, tasks=2, attempts=1, seed=1)


def is_tried(checkpoint, user):
    Trial.objects.create(checkpoint=checkpoint, against=Checkpoint.live(), line=checkpoint.line, share=20)


def another_is_tried(checkpoint, user):
    other = Checkpoint.objects.create(number=8, status="passed", adapter="talkback-8-a", path="checkpoints/8")
    Trial.objects.create(checkpoint=other, against=Checkpoint.live(), line=checkpoint.line, share=20)


def was_tried(checkpoint, user):
    ended = {"ended_at": timezone.now(), "outcome": "better"}
    Trial.objects.create(checkpoint=checkpoint, against=Checkpoint.live(), line=checkpoint.line, share=20, **ended)


def is_tainted(checkpoint, user):
    Taint.objects.create(checkpoint=checkpoint, samples=3, reason="its chat was deleted")


def is_replaced_soon(checkpoint, user):
    is_tainted(checkpoint, user)
    clean = Checkpoint.objects.create(number=8, status="passed", adapter="talkback-8-a", path="checkpoints/8")
    rows = {"line": checkpoint.line, "ancestor": Checkpoint.live(), "replaces": checkpoint}
    Cleaning.objects.create(status="finished", result=clean, finished_at=timezone.now(), **rows)


def is_being_cleaned(checkpoint, user):
    is_tainted(checkpoint, user)
    rows = {"line": checkpoint.line, "ancestor": Checkpoint.live(), "replaces": checkpoint}
    Cleaning.objects.create(status="queued", **rows)


def is_clean(checkpoint, user):
    old = Checkpoint.objects.create(number=8, status="retired", adapter="talkback-8-a", path="checkpoints/8")
    rows = {"line": checkpoint.line, "ancestor": Checkpoint.live(), "replaces": old}
    Cleaning.objects.create(status="finished", result=checkpoint, finished_at=timezone.now(), **rows)


def is_exported(checkpoint, user):
    Export.objects.create(status="gone", what="gguf", by=user, checkpoint=checkpoint)


STATES = (
    awaits_agents, is_tried, another_is_tried, was_tried, is_tainted, is_replaced_soon, is_being_cleaned, is_clean,
    is_exported,
)  # fmt: skip


@pytest.mark.parametrize("state", STATES)
def test_a_checkpoint_that_knows_what_there_is_shows_what_one_shows_that_asks_for_everything(
    state, taught, operator, settings, tmp_path
):
    settings.DATA_DIR = tmp_path
    (tmp_path / taught.path).mkdir(parents=True, exist_ok=True)

    def shown(checkpoint):
        found = panels.panels(checkpoint, operator)
        return [(one.template, one.data) for one in found], tried.panel(checkpoint, operator)["why_not"]

    nothing = shown(Checkpoint.objects.get(pk=taught.pk))
    state(taught, operator)
    asks, knows = (rows.get(pk=taught.pk) for rows in (Checkpoint.objects, panels.with_notes(Checkpoint.objects.all())))

    assert str(shown(knows)) == str(shown(asks))
    if state is not was_tried:  # which is folded away
        assert str(shown(asks)) != str(nothing)


def test_a_checkpoint_counts_what_it_served_and_no_run_has_learned(taught, make_lesson):
    lessons = [make_lesson(status) for status in ("ready", "ready", "trained")]
    served = [one.sample_id for one in lessons]
    assert Sample.objects.filter(pk__in=served[:2]).update(checkpoint=taught) == 2
    Sample.objects.filter(pk=served[2]).update(checkpoint=taught)
    counts = dict(panels.with_notes(Checkpoint.objects.all()).values_list("number", "served_ready"))
    assert counts[1] == 2


def test_the_clean_line_that_waits_is_the_newest_whether_it_is_known_or_asked_for(taught, operator):
    is_replaced_soon(taught, operator)
    first = Cleaning.objects.get()
    newer = Checkpoint.objects.create(number=9, status="candidate", adapter="talkback-9-a", path="checkpoints/9")
    rows = {"line": taught.line, "ancestor": Checkpoint.live(), "replaces": taught, "finished_at": timezone.now()}
    Cleaning.objects.create(status="finished", result=newer, **rows)
    Cleaning.objects.create(status="finished", result=Checkpoint.live(), **rows)  # it does not wait

    assert tainted.tainted(Taint.objects.get()).ready == newer
    assert tainted.panel(Checkpoint.objects.get(pk=taught.pk), operator)["found"].ready == newer
    is_tainted(newer, operator)
    assert tainted.panel(Checkpoint.objects.get(pk=taught.pk), operator)["found"].ready == first.result


def test_earlier_trials_are_under_the_fold_until_one_runs(console, taught, operator):
    was_tried(taught, operator)
    assert "1 trial so far" in text_of(console.get(reverse("console:checkpoint_made", args=[1])))
    assert "1 trial so far" not in text_of(console.get(reverse("console:checkpoint", args=[1])))
    Trial.objects.update(since=timezone.now() - timedelta(days=1))
    is_tried(taught, operator)
    assert "trial so far" not in text_of(console.get(reverse("console:checkpoint_made", args=[1])))
    assert "Earlier" in text_of(console.get(reverse("console:checkpoint", args=[1])))


def test_a_page_of_a_private_line_makes_at_most_twelve_queries(console, taught, django_assert_max_num_queries):
    line = Line.objects.create(name="ben", title="Ben's", start=Checkpoint.live())
    Checkpoint.objects.filter(pk=taught.pk).update(line=line)
    with django_assert_max_num_queries(12):
        assert console.get(reverse("console:checkpoint", args=[1])).status_code == 200

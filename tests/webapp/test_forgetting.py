"""A deleted chat leaves nothing behind to learn from."""

import pytest

from training.models import Run, Sample


@pytest.mark.parametrize("status", ["ready", "stale"])
def test_what_waits_to_be_learned_goes_with_its_chat(make_lesson, status):
    make_lesson(status).turn.session.delete()
    assert not Sample.objects.exists()


def test_what_was_learned_is_emptied_and_still_counts(make_lesson):
    run = Run.objects.create(recipe={}, status="finished")
    make_lesson("trained", run=run).turn.session.delete()
    sample = Sample.objects.get()
    assert (sample.prompt_ids, sample.response_ids, sample.old_logprobs) == ([], [], [])
    assert sample.teacher_prompt_ids is None
    assert sample.run == run


@pytest.mark.parametrize(("ends", "left"), [("ready", []), ("trained", [[]])])
def test_what_is_being_learned_is_left_to_its_run_and_goes_when_that_ends(
    make_lesson, django_capture_on_commit_callbacks, ends, left
):
    run = Run.objects.create(recipe={}, status="running")
    make_lesson("claimed", run=run).turn.session.delete()
    sample = Sample.objects.get()
    assert sample.prompt_ids

    with django_capture_on_commit_callbacks(execute=True):
        sample.move(ends)

    assert [kept.prompt_ids for kept in Sample.objects.all()] == left


def test_a_sample_whose_chat_is_still_there_stays_when_its_run_ends(make_lesson, django_capture_on_commit_callbacks):
    lesson = make_lesson("claimed", run=Run.objects.create(recipe={}, status="running"))

    with django_capture_on_commit_callbacks(execute=True):
        lesson.sample.move("ready")

    assert Sample.objects.get().prompt_ids

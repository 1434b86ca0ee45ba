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


def test_what_is_being_learned_is_left_to_its_run(make_lesson):
    run = Run.objects.create(recipe={}, status="running")
    make_lesson("claimed", run=run).turn.session.delete()
    assert Sample.objects.get().prompt_ids

"""A deleted chat leaves nothing behind to learn from."""

import pytest

from chat.models import Session
from checkpoints.models import Taint
from judge.hints import decisions, reviews, undoing
from judge.models import Hint, Ruling
from privacy import consent, forgetting
from training.models import Run, Sample


@pytest.mark.parametrize("status", ["ready", "stale"])
def test_what_waits_to_be_learned_goes_with_its_chat(make_lesson, status):
    make_lesson(status).turn.session.delete()
    assert not Sample.objects.exists()


def test_what_was_learned_is_emptied_and_still_counts(make_lesson):
    run = Run.objects.create(recipe={}, status="finished")
    make_lesson("trained", run=run).turn.session.delete()
    sample = Sample.objects.get()
    assert (sample.prompt_ids, sample.response_ids, sample.behaviour_logprobs) == ([], [], [])
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


WORDS = "Write to Ana in Graz."


def hinted(turn, text=WORDS, **fields):
    return Hint.objects.create(turn=turn, source="user", proposed=text, text=text, **fields)


def test_hints_go_with_their_chat_and_the_log_keeps_that_a_person_decided(make_turn, operator):
    turn = make_turn("judged")
    reviews.edit(hinted(turn), f"Please, {WORDS}", by=operator, reason="She lives in Graz.")
    reviews.overturn(turn, -1, by=operator, reason="Not in Graz.")

    turn.session.delete()

    assert not Hint.objects.exists()
    assert [(one.verb, one.by) for one in Ruling.objects.all()] == [("overturn", operator), ("edit", operator)]
    for ruling in Ruling.objects.all():
        assert (ruling.before, ruling.after, ruling.reason, ruling.turn, ruling.hint) == ({}, {}, "", None, None)
        with pytest.raises(decisions.NotPossible, match="was deleted"):
            undoing.undo(ruling, by=operator)


@pytest.mark.parametrize(("status", "alone"), [("accepted", "accepted"), ("waiting", "waiting")])
def test_what_learned_with_the_words_of_a_deleted_chat_goes_back_to_its_own(make_lesson, make_turn, status, alone):
    gone = hinted(make_turn("judged"), status=status)
    lesson = make_lesson("ready")
    other = hinted(lesson.turn, "Write to her, please.", status="merged", merged_into=gone)

    gone.turn.session.delete()

    other.refresh_from_db()
    assert (other.status, other.text, other.merged_into) == (alone, "Write to her, please.", None)
    assert other.turn.status == "observed"
    assert Sample.objects.get().status == "stale"


def test_what_learned_with_the_words_of_a_turn_that_goes_off_the_record_does_too(make_turn, talker):
    first, second = make_turn("judged"), make_turn("judged")
    second.session, second.position = first.session, 1
    second.save()
    gone = hinted(first, status="accepted")
    other = hinted(second, "Write to her, please.", status="merged", merged_into=gone)

    consent.set_turn(first, learns=False)

    other.refresh_from_db()
    assert (other.status, other.merged_into, Hint.objects.count()) == ("accepted", None, 1)


def test_what_was_learned_with_the_words_of_a_deleted_chat_is_marked_and_loses_them(
    make_lesson, make_checkpoint, make_turn
):
    gone = hinted(make_turn("judged"), status="accepted")
    lesson = make_lesson("trained", run=make_checkpoint(1).run)
    Sample.objects.update(origin=lesson.turn_id)
    hinted(lesson.turn, "Write to her, please.", status="merged", merged_into=gone)

    gone.turn.session.delete()

    sample = Sample.objects.get()
    assert (sample.teacher_prompt_ids, bool(sample.response_ids)) == (None, True)
    assert Taint.objects.get().checkpoint.number == 1


def test_what_a_worker_that_died_had_to_forget_the_sweep_forgets(make_lesson, make_checkpoint):
    waiting, learned = make_lesson("ready"), make_lesson("trained", run=make_checkpoint(1).run)
    Sample.objects.update(drop_reason="its chat was deleted")  # marked while a run had them, its end was missed
    forgetting.catch_up()
    forgetting.catch_up()
    assert [(one.pk, one.prompt_ids) for one in Sample.objects.all()] == [(learned.sample_id, [])]
    assert Taint.objects.get().samples == 1
    assert waiting.sample_id not in Sample.objects.values_list("pk", flat=True)


def test_a_decision_on_another_hint_keeps_no_word_of_one_that_changed_along_with_it(make_turn, operator):
    gone = hinted(make_turn("judged"), text=WORDS)
    middle = hinted(make_turn("judged"), "Write to her, please.")
    last = hinted(make_turn("judged"), "Write to her, soon.")
    reviews.merge(gone, middle, by=operator)
    ruling = reviews.merge(middle, last, by=operator)  # what was merged into it goes along
    assert WORDS in str(ruling.before["others"])

    gone.turn.session.delete()

    assert WORDS not in str(list(Ruling.objects.values("before", "after", "reason")))
    ruling.refresh_from_db()
    assert ruling.before["text"] == "Write to her, please."
    with pytest.raises(decisions.Overtaken):
        undoing.undo(ruling, by=operator)


def test_no_other_hint_goes_on_quoting_what_was_deleted(make_turn):
    gone = hinted(make_turn("judged"), status="accepted")
    quotes = [{"hint": gone.pk, "sentence": f"It asks for the opposite of “{WORDS}”."}, {"hint": 0, "sentence": "…"}]
    other = hinted(make_turn("judged"), "Do not write to her.", conflicts=quotes)

    gone.turn.session.delete()

    other.refresh_from_db()
    assert other.conflicts == quotes[1:]


def test_when_everything_of_a_person_goes_nothing_is_left_to_repair(make_turn, talker):
    gone = hinted(make_turn("judged"), status="accepted")
    hinted(make_turn("judged"), "Write to her, please.", status="merged", merged_into=gone)
    talker.delete()
    assert not Session.objects.exists()
    assert not Hint.objects.exists()

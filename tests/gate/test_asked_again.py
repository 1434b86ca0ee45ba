"""Corrected questions that a candidate learned from are asked again; who may read them reads them, no other."""

from __future__ import annotations

import pytest
from django.contrib.auth import get_user_model
from django.contrib.auth.models import AnonymousUser

from chat.models import Session, Turn
from checkpoints.models import Checkpoint
from gate import asked_again
from gate import exam as gate
from gate.models import AskedAgain, Examination
from gpu_workers.errors import EngineRefused, EngineUnavailable
from judge.models import Judgement, Sitting
from privacy import consent, erasures
from tests.gate.candidates import ASKED, LIMITS, both_say, lesson
from tests.killed_workers import Fate, Killed

BRIEF = "Answer in one short sentence."


@pytest.fixture
def teach(serve, say, candidate):
    """A reply that this person corrected, and that the candidate learned from."""

    def teach(question, reply="A long reply of many words.", *, guidance=BRIEF, **fields) -> Turn:
        turn = serve(question, reply, status="judged", **fields)
        judgement = lesson(_as(turn), candidate, guidance)
        if guidance:
            say(judgement.turn, "guidance", guidance)
        return turn

    return teach


def _as(turn):
    return lambda **fields: turn


def rows(exam):
    return {asked_again.question_of(row.turn): row for row in exam.asked_again.select_related("turn__session")}


def test_the_gate_asks_what_people_corrected_of_the_candidate_and_keeps_both_replies(engine, examine, teach):
    teach("Why does it rain?", "Rain is a long story about clouds.")
    both_say(engine)
    engine.says("Clouds get heavy.", to="Why does it rain")

    exam = examine()

    row = rows(exam)["Why does it rain?"]
    assert (row.live, row.candidate, row.cut) == ("Rain is a long story about clouds.", "Clouds get heavy.", [])
    calls = [call for call in engine.asked("generate") if "Why does it rain" in call.prompt]
    assert [(call.adapter, call.priority) for call in calls] == [(exam.checkpoint.adapter, 5)]
    assert exam.passed
    assert "corrected questions" in exam.seconds


def test_where_other_weights_wrote_the_corrected_reply_live_is_asked_too(engine, examine, teach):
    older = Checkpoint.objects.create(number=7, adapter="talkback-7-x", path="checkpoints/7", status="retired")
    teach("Why does it rain?", checkpoint=older)
    both_say(engine)
    engine.says("Water falls.", to="Why does it rain", times=2)

    row = rows(examine())["Why does it rain?"]

    assert (row.live, row.candidate) == ("Water falls.", "Water falls.")
    calls = [call for call in engine.asked("generate") if "Why does it rain" in call.prompt]
    assert {call.adapter for call in calls} == {None, "talkback-1-aaaaaaaa"}
    assert len({call.sampling.seed for call in calls}) == 1


def test_six_are_asked_each_question_once_a_persons_own_words_first_and_the_newest_of_them(candidate, teach, renderer):
    teach("What a judge heard?", guidance="")
    Judgement.objects.update(hint="Use fewer words.", hint_from="votes")
    for number in range(7):
        teach(f"Question {number}?")
    teach("Question 6?")  # once more
    found = asked_again.find_questions(candidate.run, 6, renderer.context_length)
    # Eight different questions: seven corrected in words, of which the newest six.
    assert [asked_again.question_of(turn) for turn in found] == [f"Question {n}?" for n in (6, 5, 4, 3, 2, 1)]
    every = asked_again.find_questions(candidate.run, 99, renderer.context_length)
    assert asked_again.question_of(every[-1]) == "What a judge heard?"
    assert len(every) == 8


def test_what_does_not_fit_the_window_or_is_off_the_record_is_not_asked(candidate, teach, renderer):
    teach("A question that is long enough to fill the window?")
    Turn.objects.filter(pk=teach("Off the record?").pk).update(learns=False)
    away = teach(
        "In a conversation off the record?", session=Session.objects.create(user=get_user_model().objects.get())
    )
    Session.objects.filter(pk=away.session_id).update(learns=False)
    assert len(asked_again.find_questions(candidate.run, 6, renderer.context_length)) == 1
    assert asked_again.find_questions(candidate.run, 6, 40) == []


def test_a_question_that_the_engine_refuses_is_left_out_and_rejects_nothing(engine, examine, teach, monkeypatch):
    teach("Refuse this?")
    teach("Take this?")
    both_say(engine)
    generate = engine.generate

    async def refuses(prompt_ids, *args, **kwargs):
        if "Refuse this" in engine.tokenizer.decode(list(prompt_ids)):
            raise EngineRefused("Too long.")
        return await generate(prompt_ids, *args, **kwargs)

    monkeypatch.setattr(engine, "generate", refuses)
    exam = examine()
    assert exam.passed
    assert list(rows(exam)) == ["Take this?"]


def test_progress_has_one_total_from_the_beginning_and_never_counts_back(engine, examine, teach, monkeypatch):
    for number in range(3):
        teach(f"Question {number}?")
    both_say(engine)
    seen = []
    say = gate._say
    monkeypatch.setattr(gate, "_say", lambda exam, *args: (say(exam, *args), seen.append(dict(exam.progress)))[0])

    exam = examine(LIMITS.model_copy(update={"pack": 10}))

    # Four prompts, ten items of the pack and three corrected questions are 17.
    assert {row["total"] for row in seen} == {17}
    done = [row["done"] for row in seen]
    assert done == sorted(done)
    assert (done[0], done[-1]) == (0, 17)
    assert {"loading", "replies", "general pack", "corrected questions"} <= {row["phase"] for row in seen}
    assert exam.progress.items() >= {"phase": "done", "done": 17, "total": 17}.items()


def test_progress_stays_where_it_was_when_a_question_is_gone_meanwhile(engine, examine, teach, monkeypatch):
    turn = teach("Why?")
    both_say(engine)
    rate = gate.prefer_rated

    def dies(*args):
        raise EngineUnavailable("gone")

    monkeypatch.setattr(gate, "prefer_rated", dies)
    with pytest.raises(EngineUnavailable):
        examine()
    turn.delete()
    with pytest.raises(EngineUnavailable):
        examine()
    # Four prompts and a question that was there: five of five, though the question is gone.
    assert Examination.objects.get().progress.items() >= {"done": 5, "total": 5}.items()
    monkeypatch.setattr(gate, "prefer_rated", rate)
    assert examine().progress.items() >= {"phase": "done", "done": 5, "total": 5}.items()


def test_an_exam_that_begins_anew_asks_anew(engine, examine, teach, candidate):
    turn = teach("Why?")
    other = Checkpoint.objects.create(number=7, adapter="talkback-7-x", path="checkpoints/7", status="retired")
    exam = Examination.objects.create(checkpoint=candidate, against=other)
    AskedAgain.objects.create(examination=exam, turn=turn, live="Old.", candidate="Old.")
    both_say(engine)
    assert rows(examine())["Why?"].candidate == "I see."


def test_looking_again_keeps_no_reply(engine, examine, teach, candidate):
    teach("Why?")
    both_say(engine)
    gate.look(candidate, engine=engine, renderer=examine.renderer, limits=LIMITS)
    assert not AskedAgain.objects.exists()
    assert not any("Why?" in call.prompt for call in engine.asked("generate"))


# Who may read them


@pytest.fixture
def asked(engine, examine, teach):
    teach("A secret question?")
    both_say(engine)
    return examine().asked_again.get()


def test_its_person_and_reviewers_read_it_and_no_other(asked, person):
    other = get_user_model().objects.create_user("ben")
    reviewer = get_user_model().objects.create_user("bea", is_staff=True)
    seen = {who: AskedAgain.objects.visible_to(who).count() for who in (person, reviewer, other)}
    assert seen == {person: 1, reviewer: 1, other: 0}
    assert AskedAgain.objects.visible_to(AnonymousUser()).count() == 0


@pytest.mark.parametrize("of", ["turn", "session"])
def test_off_the_record_it_is_gone_at_once(asked, person, of):
    reviewer = get_user_model().objects.create_user("bea", is_staff=True)
    if of == "turn":
        consent.set_turn(asked.turn, False)
    else:
        consent.set_session(asked.turn.session, False)
    assert AskedAgain.objects.visible_to(reviewer).count() == 0
    assert not AskedAgain.objects.exists()


def test_what_went_off_the_record_by_another_way_is_hidden_and_then_pruned(asked, person):
    Turn.objects.update(learns=False)
    assert AskedAgain.objects.visible_to(person).count() == 0
    assert (asked_again.prune(), AskedAgain.objects.count()) == (1, 0)


def test_it_is_erased_with_its_conversation(asked, person):
    erasures.go_on(erasures.ask(person, revokes_keys=False))
    assert not AskedAgain.objects.exists()


def test_what_is_taken_off_the_record_while_it_is_asked_is_not_kept(engine, examine, teach, monkeypatch):
    turn = teach("Why?")
    both_say(engine)
    keep = asked_again._keep

    def late(*args):
        Turn.objects.filter(pk=turn.pk).update(learns=False)
        keep(*args)

    monkeypatch.setattr(asked_again, "_keep", late)
    assert examine().passed
    assert not AskedAgain.objects.exists()


# Killed at any line


@pytest.mark.django_db(transaction=True, serialized_rollback=True)
def test_wherever_the_examiner_dies_each_question_is_kept_once(engine, examine, teach, candidate, monkeypatch):
    """The examiner dies at each act of the part that asks again, one after the other, and another goes on."""
    for number in range(3):
        teach(f"Question {number}?")
    for prompt in ASKED:
        engine.says(f"A reply about {prompt[:12]}", to=prompt[:20], times=None)
    ask = gate._ask_again
    at, died = 0, True
    while died:
        at, died = at + 1, False
        Checkpoint.objects.filter(pk=candidate.pk).update(status="candidate")
        AskedAgain.objects.all().delete()

        def dying(*args, at=at):
            with Fate(at).upon(engine):
                ask(*args)

        monkeypatch.setattr(gate, "_ask_again", dying)
        try:
            examine()
        except Killed:
            died = True
            Sitting.objects.all().delete()  # its time has run out
        monkeypatch.setattr(gate, "_ask_again", ask)
        exam = examine()
        assert exam.passed
        assert sorted(rows(exam)) == ["Question 0?", "Question 1?", "Question 2?"]
        assert exam.progress["done"] == exam.progress["total"]
    assert at > 15

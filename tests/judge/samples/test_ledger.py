"""Every turn is counted once, and what is counted is what one turn says of itself."""

from __future__ import annotations

from collections import Counter

import pytest
from django.contrib.auth import get_user_model
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra.django import TestCase

from chat.models import Session, Turn
from checkpoints.models import Checkpoint
from judge.models import Judgement
from judge.samples import exam_questions, ledger, sample_rows
from judge.samples.ledger import Stands
from judge.samples.sample_rows import Reason
from training.models import Sample

TURNS = st.fixed_dictionaries(
    {
        "status": st.sampled_from(Turn.Status.values),
        "line": st.sampled_from(["main", "main", "side"]),
        "learns": st.sampled_from([True, True, False]),
        "finish_reason": st.sampled_from(["stop", "tool_calls", "length", "abort", "error", ""]),
        "response_ids": st.sampled_from([[1], []]),
    }
)
JUDGEMENTS = st.one_of(
    st.none(),
    st.fixed_dictionaries(
        {
            "reason_code": st.sampled_from(["", *(reason.code for reason in Reason)]),
            "sample": st.sampled_from([None, None, *Sample.Status.values]),
        }
    ),
)
CASES = st.lists(st.tuples(TURNS, st.booleans(), JUDGEMENTS), max_size=8)


def made(cases) -> None:
    """Rows of any kind, even of such as cannot be."""
    user = get_user_model().objects.create_user(f"u{get_user_model().objects.count()}")
    for position, (fields, on_record, judgement) in enumerate(cases):
        session = Session.objects.create(user=user, learns=on_record)
        turn = Turn.objects.create(
            session=session, position=position, checkpoint=Checkpoint.live(),
            messages=[{"role": "user", "content": "Hi"}], **fields,
        )  # fmt: skip
        if judgement is None:
            continue
        sample = None
        if judgement["sample"]:
            sample = Sample.objects.create(
                status=judgement["sample"], checkpoint=turn.checkpoint, prompt_ids=[1], response_ids=[1],
                behaviour_logprobs=[-1.0],
            )  # fmt: skip
        code = judgement["reason_code"]
        Judgement.objects.create(turn=turn, sample=sample, reason_code=code, reason=ledger.SENTENCES.get(code, ""))


class AnyTurns(TestCase):
    @given(CASES)
    @settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
    def test_the_database_and_the_turn_say_the_same_and_all_add_up(self, cases):
        made(cases)
        coded = Turn.objects.annotate(why=ledger.CODE).select_related("session")
        assert all(ledger.why(turn).code == turn.why for turn in coded)

        entries = ledger.counted(Turn.objects.all())
        assert sum(entry.turns for entry in entries) == Turn.objects.count()
        assert {entry.code: entry.turns for entry in entries} == Counter(ledger.why(turn).code for turn in coded)
        assert abs(sum(entry.share for entry in entries) - (1 if entries else 0)) < 1e-9

        groups = ledger.counted_by(Turn.objects.all(), "session")
        assert sum(sum(counts.values()) for counts in groups.values()) == Turn.objects.count()


def test_every_code_has_a_sentence_and_advice():
    for code, sentence in ledger.SENTENCES.items():
        assert sentence[0].islower(), code
        assert ledger.ADVICE[code].endswith("."), code
        assert len(code) <= Judgement._meta.get_field("reason_code").max_length
    assert len(ledger.SENTENCES) <= 39  # a short list


def test_no_code_means_two_things():
    assert not {one.code for one in Stands} & {one.code for one in Reason}


def test_samples_come_first_and_then_what_is_most_frequent(serve):
    served = [serve(status="served") for _ in range(3)]
    serve(status="closed")
    turn = serve(status="judged")
    sample = Sample.objects.create(
        checkpoint=turn.checkpoint, prompt_ids=[1], response_ids=[1], behaviour_logprobs=[-1.0]
    )
    Judgement.objects.create(turn=turn, sample=sample)
    entries = ledger.counted(Turn.objects.all())
    assert [(entry.code, entry.turns) for entry in entries] == [("sample", 1), ("unanswered", 3), ("closed", 1)]
    assert entries[1].share == 0.6
    assert ledger.counted(Turn.objects.filter(pk__in=[turn.pk for turn in served]))[0].share == 1.0
    assert ledger.counted(Turn.objects.none()) == []


def test_a_verdict_keeps_its_code_and_its_own_sentence(serve, judge_it, engine, say):
    neutral = serve(next_state="I see.")
    engine.says(r"\boxed{0}", to="Judge the reply", times=None)
    engine.says(r"\boxed{-1}", times=None)
    judge_it(neutral)
    assert Judgement.objects.get(turn=neutral).reason_code == "neutral"
    assert ledger.why(Turn.objects.get(pk=neutral.pk)).sentence == str(Reason.NEUTRAL)

    changed = serve()
    Turn.objects.filter(pk=changed.pk).update(prompt_ids=[1, 2, 3])
    say(changed, "guidance", "Answer in one short sentence.")
    judge_it(changed)
    found = ledger.why(Turn.objects.get(pk=changed.pk))
    assert found.code == "laid_out_anew"
    assert found.sentence == "The model's chat template lays this conversation out differently now."


def test_babble_is_no_quorum_and_not_a_zero(serve, judge_it, engine):
    engine.says("Who knows?", times=None)
    turn = serve(next_state="Well.")
    judge_it(turn)
    assert ledger.why(Turn.objects.get(pk=turn.pk)).code == "no_quorum"


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"line": "side"}, "side"),
        ({"learns": False}, "off"),
        ({"line": "side", "learns": False}, "off"),
        ({"finish_reason": "abort"}, "stopped"),
        ({"response_ids": []}, "empty"),
    ],
)
def test_what_can_never_teach_says_so_before_and_after_the_verdict(serve, judge_it, fields, code):
    turn = serve(next_state="Thanks", **({"logprobs": []} if "response_ids" in fields else {}), **fields)
    assert ledger.why(turn).code == code
    judge_it(turn)
    assert Judgement.objects.get(turn=turn).reason_code == code
    assert ledger.counted(Turn.objects.all())[0].code == code


def test_a_reply_that_was_cut_is_open_until_the_verdict_on_what_was_said(serve, judge_it):
    turn = serve(finish_reason="length", next_state="Thanks")  # a rewrite in its place would teach
    assert ledger.why(turn).code == "judging"
    assert ledger.counted(Turn.objects.all())[0].code == "judging"
    judge_it(turn)
    assert ledger.why(Turn.objects.get(pk=turn.pk)).code == "no_quorum"  # no vote could be read
    assert ledger.counted(Turn.objects.all())[0].code == "no_quorum"


def test_a_held_out_prompt_says_so_with_its_verdict(serve, judge_it):
    turn = serve(request=exam_questions.questions()[0].prompt, next_state="Thanks")
    assert sample_rows.unfit(turn) == Reason.HELD_OUT
    assert ledger.why(turn).code == "judging"
    judge_it(turn)
    assert ledger.why(Turn.objects.get(pk=turn.pk)).code == "held_out"


def test_a_dropped_sample_says_why(serve, say, judge_it):
    turn = serve(next_state="Hm")
    say(turn, "thumb", value=1)
    judge_it(turn)
    assert ledger.why(Turn.objects.get(pk=turn.pk)).is_sample
    Sample.objects.get().move("stale", drop_reason="five checkpoints old")
    found = ledger.why(Turn.objects.get(pk=turn.pk))
    assert (found.code, found.sentence) == ("stale", "five checkpoints old")
    Sample.objects.all().delete()
    assert ledger.why(Turn.objects.get(pk=turn.pk)).code == "removed"


def test_counting_is_one_query(serve, django_assert_num_queries):
    serve()
    with django_assert_num_queries(1):
        ledger.counted(Turn.objects.all())

"""The exam: applied, not collapsed, liked no less. Passed or rejected with numbers."""

from __future__ import annotations

import pytest

from checkpoints.models import Checkpoint, Decision, Line
from gate import exam as gate
from gate import findings
from gate.models import Examination
from gate.rated_replies import rated_of
from gpu_workers.errors import EngineUnavailable
from judge.hints.hint_words import GUIDANCE
from judge.models import Sitting
from judge.samples import exam_questions
from tests.gate.candidates import ASKED, REPLIES, both_say, check, lesson
from training.config import Gate
from training.models import Sample


def test_a_gate_that_is_off_asks_only_whether_the_engine_answers_with_the_new_weights(examine, engine, candidate):
    exam = examine(Gate(off=True))

    assert [one["name"] for one in exam.checks] == ["applied", "new"]
    assert (candidate.status, exam.passed, exam.progress["total"]) == ("passed", True, 0)
    assert (exam.pairs, exam.pack, exam.personal, exam.meter) == ([], [], [], {})


def test_a_candidate_that_speaks_as_well_passes_with_numbers(engine, examine, candidate):
    both_say(engine)

    exam = examine()

    assert candidate.status == "passed"
    assert exam.passed
    assert exam.finished_at
    assert [check["name"] for check in exam.checks] == [
        "applied",
        "new",
        "not empty",
        "length",
        "repetition",
        "variety",
        "fluency",
        "kept corrections",
        "entropy",
        "kl to base",
    ]
    assert [pair["prompt"] for pair in exam.pairs] == ASKED
    assert [pair["live"] for pair in exam.pairs] == REPLIES
    assert exam.progress.items() >= {"phase": "done", "done": 4, "total": 4}.items()
    assert exam.against == Checkpoint.live()
    assert engine.loaded == {candidate.adapter: str(candidate.folder)}


def test_the_exam_says_what_each_of_its_parts_took(engine, examine, candidate, monkeypatch):
    now = iter(range(100))
    monkeypatch.setattr(gate, "monotonic", lambda: float(next(now)))  # each part looks twice: a second
    both_say(engine)
    exam = examine()
    # Four prompts are two handfuls; no item of the pack and no kept correction is asked.
    assert exam.seconds == {"replies": 2.0, "loading and proof": 1.0, "rated replies": 1.0, "meter": 1.0}
    assert exam.took_s == 5.0


def test_both_are_asked_with_the_same_seeds_before_votes_and_after_people(engine, examine, candidate):
    both_say(engine)
    examine()
    calls = engine.asked("generate")
    by_adapter = {
        adapter: sorted((call.prompt, call.sampling.seed) for call in calls if call.adapter == adapter)
        for adapter in (None, candidate.adapter)
    }
    assert by_adapter[None] == by_adapter[candidate.adapter]
    assert len({call.sampling.seed for call in calls}) == 4
    assert {call.priority for call in calls} == {5}


def test_an_adapter_that_is_not_applied_is_rejected_with_the_sentence(engine, examine, candidate):
    engine.logprobs = lambda prompt_ids, response_ids, adapter: [-1.0] * len(response_ids)
    exam = examine()
    assert candidate.status == "rejected"
    assert "as if the adapter were not there" in candidate.reason
    assert not check(exam, "applied")["passed"]
    assert engine.asked("generate") == []  # nothing else is worth asking
    assert Decision.objects.get().verb == "reject"


def test_an_engine_that_answers_as_the_parent_would_is_found_out(engine, examine, candidate):
    parent = Checkpoint.objects.create(number=2, adapter="talkback-2-x", path="checkpoints/2", status="retired")
    Checkpoint.objects.filter(pk=candidate.pk).update(parent=parent)
    honest = engine.logprobs
    engine.logprobs = lambda prompt, response, adapter: honest(prompt, response, adapter and candidate.adapter)
    exam = examine()
    assert check(exam, "applied")["passed"]
    assert not check(exam, "new")["passed"]
    assert "from those of talkback@2" in candidate.reason


def test_files_that_cannot_be_served_are_rejected(engine, examine, candidate):
    engine.invalid.add(candidate.adapter)
    exam = examine()
    assert candidate.status == "rejected"
    assert "cannot be served" in exam.checks[0]["sentence"]


@pytest.mark.parametrize(
    ("replies", "name"),
    [
        (["..."] * 4, "not empty"),
        (["You lie."] * 4, "variety"),
        ([f"{word} and the and the and the and the and the and the and the" for word in "abcd"], "repetition"),
    ],
)
def test_a_collapse_is_rejected(engine, examine, candidate, replies, name):
    both_say(engine, candidate=replies)
    exam = examine()
    assert candidate.status == "rejected"
    assert not check(exam, name)["passed"]
    assert check(exam, name)["sentence"] in candidate.reason


def test_a_short_style_is_no_collapse(engine, examine, candidate):
    both_say(engine, candidate=["One is.", "It is two.", "Three, I say.", "Four!"])
    exam = examine()
    assert candidate.status == "passed"
    assert check(exam, "length")["value"] < 0.7


def test_replies_a_tenth_as_long_as_before_are_rejected(engine, examine, candidate):
    long = [" ".join(f"{word}{n}" for n in range(60)) for word in "abcd"]
    both_say(engine, live=long, candidate=["a", "b", "c", "d"])
    exam = examine()
    assert not check(exam, "length")["passed"]


def test_replies_the_base_finds_unlikely_are_rejected(engine, examine, candidate):
    honest = engine.logprobs
    odd = [f"{reply} zq zq" for reply in REPLIES]
    odd_ids = {tuple(engine.tokenizer.encode(text, add_special_tokens=False).ids) for text in odd}

    def logprobs(prompt_ids, response_ids, adapter):
        strange = tuple(response_ids[:-1]) in odd_ids
        return [-3.0] * len(response_ids) if strange else honest(prompt_ids, response_ids, adapter)

    engine.logprobs = logprobs
    both_say(engine, candidate=odd)
    exam = examine()
    assert not check(exam, "fluency")["passed"]
    assert check(exam, "fluency")["value"] == pytest.approx(-3.0)


def test_replies_that_heed_the_runs_hints_less_are_rejected(engine, examine, candidate, serve):
    hint = "Use fewer words."
    for _ in range(2):
        lesson(serve, candidate, hint)
    lesson(serve, candidate, "The reply that is wanted: Four.", "rewrite")  # speaks of one prompt only
    honest = engine.logprobs
    worse = [f"{reply} And more." for reply in REPLIES]

    def logprobs(prompt_ids, response_ids, adapter):
        values = honest(prompt_ids, response_ids, adapter)
        text = engine.tokenizer.decode(list(response_ids))
        hinted = GUIDANCE.format(hint=hint) in engine.tokenizer.decode(list(prompt_ids))
        return [value - 0.5 * (hinted and "And more" in text) for value in values]

    engine.logprobs = logprobs
    both_say(engine, candidate=worse)
    exam = examine()
    preference = check(exam, "preference")
    assert not preference["passed"]
    assert preference["value"] == pytest.approx(-0.5, abs=0.1)
    assert candidate.status == "rejected"
    assert exam.pairs[0]["candidate_pull"] < exam.pairs[0]["live_pull"]


def test_luck_is_not_taken_for_a_fall():
    def judged(*changes):
        pairs = [{"id": str(at), "live_pull": 0.0, "candidate_pull": change} for at, change in enumerate(changes)]
        return findings.preferred(pairs, ["Be brief."])[0]

    assert judged(-0.3, 0.2, -0.2, 0.1).passed  # -0.05 on average, and 0.12 of noise
    assert not judged(-0.2, -0.25, -0.2, -0.25).passed
    assert judged(-0.02, -0.02).passed  # within the margin
    assert findings.preferred([], ["Be brief."]) == []


def test_with_rewards_only_the_margin_on_rated_replies_counts(engine, examine, candidate, serve):
    lesson(serve, candidate, reward=1)
    honest = engine.logprobs
    rated = tuple(Sample.objects.get().response_ids)

    def logprobs(prompt_ids, response_ids, adapter):
        values = honest(prompt_ids, response_ids, adapter)
        return [v - 0.4 for v in values] if adapter and tuple(response_ids) == rated else values

    engine.logprobs = logprobs
    both_say(engine)
    exam = examine()
    assert not check(exam, "rated replies")["passed"]
    assert check(exam, "rated replies")["value"] < -0.3


def test_what_people_wrote_instead_is_wanted(engine, examine, candidate, serve, say):
    judgement = lesson(serve, candidate, "The reply that is wanted: Four.", "rewrite")
    say(judgement.turn, "rewrite", "Four.")
    both_say(engine)
    exam = examine()
    assert check(exam, "rated replies")
    assert any(call.response_ids == tuple(engine.tokenizer.encode("Four.").ids) for call in engine.asked("score"))


def test_an_exam_that_was_cut_off_goes_on_where_it_stopped(engine, examine, candidate):
    both_say(engine)
    generate = engine.generate
    asked = 0

    async def dies_half_way(*args, **kwargs):
        nonlocal asked
        asked += 1
        if asked > 4:
            raise EngineUnavailable("gone")
        return await generate(*args, **kwargs)

    engine.generate = dies_half_way
    with pytest.raises(EngineUnavailable):
        examine()
    exam = Examination.objects.get()
    candidate.refresh_from_db()
    assert (len(exam.pairs), candidate.status, exam.progress["done"]) == (2, "candidate", 2)
    assert not Sitting.objects.exists()

    engine.generate = generate
    exam = examine()
    assert candidate.status == "passed"
    assert [pair["prompt"] for pair in exam.pairs] == ASKED
    assert len(engine.asked("generate")) == 8


def test_examining_twice_is_examining_once(engine, examine, candidate):
    both_say(engine)
    first = examine()
    calls = len(engine.calls)
    assert examine().finished_at == first.finished_at
    assert len(engine.calls) == calls


def test_an_exam_against_a_checkpoint_that_is_no_longer_live_begins_anew(engine, examine, candidate):
    both_say(engine)
    other = Checkpoint.objects.create(number=7, adapter="talkback-7-x", path="checkpoints/7", status="retired")
    Examination.objects.create(checkpoint=candidate, against=other, pairs=[{"id": exam_questions.questions()[0].id}])
    exam = examine()
    assert exam.against == Checkpoint.live()
    assert len(exam.pairs) == 4


def test_a_candidate_is_held_against_what_answers_in_its_own_line(engine, examine, candidate):
    line = Line.objects.create(name="ana", title="Ana", start=Checkpoint.live())
    own = Checkpoint.objects.create(number=7, adapter="talkback-7-x", path="checkpoints/7", status="live", line=line)
    Checkpoint.objects.filter(pk=candidate.pk).update(line=line)
    both_say(engine)
    assert (examine().against, Checkpoint.live().number) == (own, 0)


def test_a_rewrite_that_does_not_fit_is_not_asked(candidate, serve, say, renderer):
    judgement = lesson(serve, candidate, "The reply that is wanted: Four.", "rewrite")
    say(judgement.turn, "rewrite", "Four. " * renderer.context_length)
    assert rated_of(candidate.run, renderer) == []


def test_the_held_out_prompts_are_many_varied_and_different():
    prompts = exam_questions.questions()
    assert len(prompts) >= 20
    assert len({question.prompt for question in prompts}) == len({question.id for question in prompts}) == len(prompts)
    assert len({question.kind for question in prompts[:12]}) >= 9
    assert exam_questions.includes("  why do people\nYAWN? ")
    assert not exam_questions.includes("Why do people yawn so often?")

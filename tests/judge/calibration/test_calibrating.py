"""From what a judge says to how likely it is right: the scale, its threshold, and what a judge that reads is asked."""

from __future__ import annotations

import math
import random
from dataclasses import replace
from datetime import UTC, datetime

import pytest

from judge import verdicts
from judge.calibration import gold, judge_answers, scale_fitting, scales, thresholds, verdict_figures, vote_floor
from judge.calibration.judge_answers import SCORES
from judge.calibration.scale_fitting import Case
from judge.calibration.verdict_figures import Verdict
from judge.hints import acceptance
from judge.models import Judgement, Vote
from judge.samples.sample_rows import Reason
from judge.votes import fitting, own_words, polling, prompts, shipped
from judge.votes.engine_judge import EngineJudge
from judge.votes.evidence import Evidence
from judge.votes.judge import Reply
from judge.votes.shipped import Shipped
from training.config import Recipe

BINARY = Recipe(w_opd=0)


def overconfident(count, *, slope=0.4, seed=3):
    """Cases whose answer is right as often as p^slope says, normalised: their judge is too sure of itself."""
    draws = random.Random(seed)
    found = []
    for n in range(count):
        weights = [draws.gammavariate(0.4, 1) + 1e-6 for _ in SCORES]
        chances = [weight / sum(weights) for weight in weights]
        truth = draws.choices(SCORES, [p**slope for p in chances])[0]
        found.append(Case(dict(zip(SCORES, chances, strict=True)), frozenset({truth}), "user", str(n)))
    return found


def test_a_scale_finds_how_far_a_judge_is_too_sure():
    assert scale_fitting.fit(overconfident(3000), SCORES).pooled.slope == pytest.approx(0.4, abs=0.03)


def torn(count):
    """Cases whose judge is torn between 1 and -1, and says by its other question which of them is right."""
    found = []
    for n in range(count):
        is_good = n % 2 == 0
        beside = {"1": 0.1, "-1": 0.9} if is_good else {"1": 0.9, "-1": 0.1}
        chances = {"1": 0.48, "0": 0.02, "-1": 0.48, "new": 0.02}
        found.append(Case(chances, frozenset({"1" if is_good else "-1"}), "user", str(n), beside))
    return found


def test_what_a_judge_says_to_its_other_question_decides_where_it_is_torn():
    cases = torn(scale_fitting.MANY)
    scale = scale_fitting.fit(cases, SCORES)
    praised = cases[0].probabilities

    assert scale(praised, "user", {"1": 0.1, "-1": 0.9})["1"] > 0.9
    assert scale(praised, "user", {"1": 0.9, "-1": 0.1})["-1"] > 0.9
    # Where it said nothing to the other question, its own question alone is what there is: torn as before.
    assert scale(praised, "user")["1"] == pytest.approx(scale(praised, "user")["-1"], abs=0.01)


def test_few_follow_ups_do_not_weigh_two_questions_together():
    assert scale_fitting.fit(torn(scale_fitting.MANY - 1), SCORES).joint is None


def test_figures_are_of_the_kind_of_scale_that_is_applied():
    """300 cases weigh both questions together; nine tenths of them by themselves would not."""
    found = scale_fitting.cross_fit(torn(scale_fitting.MANY), SCORES)
    assert all(max(one["1"], one["-1"]) > 0.9 for one in found)


def test_scaled_confidence_holds_where_plain_confidence_does_not():
    cases = overconfident(600)

    def error(found):
        pairs = zip(found, cases, strict=True)
        return verdict_figures.calibration_error(
            [verdict_figures.score_verdict(p, judge_answers.REWARDS[next(iter(case.expected))]) for p, case in pairs]
        )

    assert error([case.probabilities for case in cases]) > 0.1
    assert error(scale_fitting.cross_fit(cases, SCORES)) < 0.05


def test_the_threshold_is_the_smallest_that_is_precise_enough():
    # 40 right at 0.9, then 10 at 0.8 of which 5 are right: 45 of 50 is 0.90; then 10 wrong at 0.7: 45 of 60 is 0.75.
    found = [Verdict(0.9, 1, 1)] * 40 + [Verdict(0.8, 1, 1)] * 5 + [Verdict(0.8, 1, 0)] * 5 + [Verdict(0.7, 1, 0)] * 10
    assert thresholds.threshold(found) == 0.8
    assert thresholds.threshold(found, precision=0.95) == 0.9
    assert thresholds.threshold(found[:29]) is None  # too few to believe
    # Five more that were bad and are taken for good: of 65 they are 0.08, more than may be.
    assert thresholds.threshold([*found, *[Verdict(0.95, 1, -1)] * 5], worst=0.02) is None


def test_expected_calibration_error_is_the_gap_by_bin():
    # Ten at 0.95 of which nine are right, ten at 0.55 of which five are: (10·|0.9 − 0.95| + 10·|0.5 − 0.55|) / 20.
    found = [Verdict(0.95, 1, 1)] * 9 + [Verdict(0.95, 1, 0)] + [Verdict(0.55, 1, 1)] * 5 + [Verdict(0.55, 1, 0)] * 5
    assert verdict_figures.calibration_error(found) == pytest.approx(0.05)


@pytest.fixture
def reader(engine, renderer):
    return EngineJudge(engine, renderer, family="trained")


@pytest.fixture
def judged(serve, engine, renderer, reader):
    def judged(next_state, recipe=BINARY, who=reader):
        turn = serve(next_state=next_state)
        verdicts.judge(str(turn.pk), who=who, engine=engine, renderer=renderer, recipe=recipe)
        return Judgement.objects.get(turn=turn)

    return judged


def test_one_pass_stands_for_the_votes_of_a_judge_that_reads(judged, engine):
    engine.weighs({"1": 0.1, "0": 0.1, "-1": 0.7, "new": 0.1})
    verdict = judged("No, four.")
    (vote,) = Vote.objects.all()
    assert (verdict.reward, vote.score) == (-1, -1)
    assert verdict.confidence == pytest.approx(0.7)
    assert vote.probabilities == pytest.approx({"1": 0.1, "0": 0.1, "-1": 0.7, "new": 0.1})
    assert not engine.asked("generate")


def test_a_judge_that_writes_before_its_box_is_not_read(engine, renderer):
    assert not EngineJudge(engine, renderer, family="cases").reads


def test_a_change_of_subject_says_nothing(judged, engine):
    engine.weighs({"1": 0.1, "0": 0.1, "-1": 0.1, "new": 0.7})
    verdict = judged("When is Easter?")
    assert (verdict.reward, verdict.topic, verdict.reason, verdict.sample) == (0, "new", Reason.NEW_TOPIC, None)


def test_a_judge_that_is_not_sure_enough_teaches_nothing(judged, engine):
    engine.weighs({"1": 0.4, "0": 0.2, "-1": 0.3, "new": 0.1})
    verdict = judged("Hm.")
    assert (verdict.reward, verdict.reason_code, verdict.sample) == (None, "unclear", None)
    assert verdict.confidence == pytest.approx(0.4)


def test_an_unmeasured_judge_votes_and_teaches_nothing(judged, engine, as_shipped):
    engine.weighs({"1": 0.0, "0": 0.0, "-1": 1.0, "new": 0.0})
    verdict = judged("No, four.")
    assert (verdict.reward, verdict.reason) == (None, Reason.UNMEASURED)
    assert Vote.objects.get().score == -1


def test_an_operator_moves_the_threshold_and_gives_it_back(judged, engine, reader, person):
    engine.weighs({"1": 0.1, "0": 0.1, "-1": 0.7, "new": 0.1})
    vote_floor.set_threshold(reader.name, reader.version, 0.8, by=person, reason="stricter")
    assert judged("No, four.").reason == Reason.UNCLEAR
    vote_floor.set_threshold(reader.name, reader.version, None, by=person, reason="enough")
    assert judged("No, four.").reward == -1
    with pytest.raises(vote_floor.OverrulingRefused):
        vote_floor.set_threshold(reader.name, reader.version, 0.2, by=person, reason="why not")


def test_a_shipped_measurement_counts_for_these_files_and_these_prompts(tmp_path, db, settings):
    adapter = fitting.adapter()
    at = datetime(2026, 11, 28, tzinfo=UTC)
    sure = {1: "1", 0: "0", -1: "-1"}
    told = [
        Shipped(
            item.digest,
            {one: 0.97 if one == sure[item.score] else 0.01 for one in SCORES},
            {"1": 0.9 if item.wants_hint else 0.1, "-1": 0.1 if item.wants_hint else 0.9},
            "",
            at,
        )
        for item in gold.items()
    ]
    for file in fitting.FILES:
        (tmp_path / file).write_bytes((fitting.FOLDER / file).read_bytes())
    shipped.write(adapter.name, prompts.version("trained"), told, tmp_path)

    read = shipped.readings(adapter.name, prompts.version("trained"), tmp_path)
    assert len(read) == len(gold.items())
    assert read[0].at == at
    assert shipped.readings(adapter.name, "trained-1", tmp_path) == ()
    assert shipped.readings("another", prompts.version("trained"), tmp_path) == ()
    (tmp_path / fitting.FILES[0]).write_text((tmp_path / fitting.FILES[0]).read_text() + "\n")
    assert shipped.readings(adapter.name, prompts.version("trained"), tmp_path) == ()  # other weights


def test_votes_are_smoothed_before_they_are_scaled():
    # Three votes of three, and half a vote for each of four answers: 3.5 / 5.
    assert scales.probabilities(["1", "1", "1"], SCORES)["1"] == pytest.approx(0.7)


@pytest.mark.parametrize(
    ("message", "span"),
    [
        ("Shorter, please.", "Shorter, please."),
        ("Thanks! Please use metric units.", "Please use metric units."),
        ("x" * 700, ""),
    ],
)
def test_the_persons_words_are_the_span_that_carries_the_wish(message, span):
    assert own_words.span_of(message) == span


def test_only_the_users_own_next_message_is_taken_word_for_word():
    assert own_words.message_of(Evidence((), "Five.", (("tool", "Use metres."),))) == ""
    assert own_words.message_of(Evidence((), "Five.", (("user", "Use metres."),))) == "Use metres."
    assert Reply("x").probabilities == {}
    assert math.isclose(sum(judge_answers.shares([], SCORES).values()), 1.0)
    assert polling.finding([]).score.reward is None


def test_words_of_a_judge_wait_for_a_person_and_the_users_own_next_message_does_not(
    serve, engine, renderer, reader, monkeypatch
):
    engine.says(r"\boxed{1} [HINT_START] Answer in a single sentence. [HINT_END]", times=None)
    engine.weighs({"1": 0.97, "-1": 0.03})
    turn = serve(next_state="Shorter, please.")
    monkeypatch.setitem(acceptance.DEFAULTS, "user", None)

    def hint(measure):
        monkeypatch.setattr(scales, "of", lambda judge, version: measure)
        turn.hints.all().delete()
        turn.refresh_from_db()
        if turn.status != "observed":
            turn.move("observed")
        verdicts.judge(str(turn.pk), who=reader, engine=engine, renderer=renderer, recipe=Recipe(w_rl=0))
        return turn.hints.get()

    judges = hint(scales.PLAIN)
    assert (judges.source, judges.status, judges.text) == ("user", "waiting", "Answer in a single sentence.")
    own = hint(replace(scales.PLAIN, least_own=0.95))
    assert (own.source, own.status, own.text) == ("said", "accepted", own_words.worded("Shorter, please."))
    assert Judgement.objects.get(turn=turn).hint_from == "said"

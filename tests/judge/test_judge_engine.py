"""The judge's numbers against the real embedded engine and the real learner, on the tiny model in float32."""

from __future__ import annotations

import pytest
from asgiref.sync import async_to_sync

from benchmarks.tiny import write_tiny_adapter
from checkpoints import checksums
from checkpoints.models import Checkpoint
from feedback.models import Feedback
from gate import exam as gate
from gate.models import Examination
from gpu_workers import engines
from gpu_workers.learner.learner import Learner
from gpu_workers.types import Sampling
from judge import verdicts
from judge.models import Judgement, Vote
from judge.votes import fitting, judges, polling, prompts, voting
from judge.votes.engine_judge import EngineJudge
from judge.votes.evidence import Evidence
from training.config import Gate, Recipe

PROMPT, RESPONSE = [1, 40, 41, 42, 43], [60, 61, 62, 63, 64, 65, 66, 67]


@pytest.fixture
def policy(embedded_engine, monkeypatch):
    monkeypatch.setattr(engines, "policy", lambda: embedded_engine)
    yield embedded_engine
    for name in async_to_sync(embedded_engine.adapters)():
        async_to_sync(embedded_engine.unload_adapter)(name)


@pytest.fixture
def said(serve, policy, renderer):
    """A turn whose tokens the real engine has sampled."""

    def said(**fields):
        prompt_ids = renderer.prompt_ids([{"role": "user", "content": "What is a fox?"}])
        sampling = Sampling(max_new_tokens=24, temperature=0.7, seed=5)
        reply = async_to_sync(policy.generate)(prompt_ids, sampling)
        return serve(
            "What is a fox?", reply.text, response_ids=list(reply.ids), logprobs=list(reply.logprobs), **fields
        )

    return said


def test_old_and_hinted_log_probs_are_the_learners_to_a_thousandth(said, say, policy, renderer, tiny_model):
    turn = said()
    say(turn, Feedback.Kind.GUIDANCE, "Use fewer words.")

    assert verdicts.judge(
        str(turn.pk), who=EngineJudge(policy, renderer), engine=policy, renderer=renderer, recipe=Recipe()
    )

    judgement = Judgement.objects.get(turn=turn)
    sample, learner = judgement.sample, Learner(tiny_model, dtype="float32")
    assert sample.behaviour_logprobs == pytest.approx(learner.score(turn.prompt_ids, turn.response_ids), abs=1e-3)
    assert judgement.teacher["logprobs"] == pytest.approx(
        learner.score(sample.teacher_prompt_ids, turn.response_ids), abs=1e-3
    )
    assert sample.behaviour_logprobs != pytest.approx(sample.sampled_logprobs, abs=1e-2)  # another temperature
    assert sample.behaviour_logprobs != pytest.approx(
        judgement.teacher["logprobs"], abs=1e-2
    )  # the hint says something


def test_votes_are_really_sampled_and_babble_is_kept_as_failed(said, policy, renderer, settings):
    settings.JUDGE_VOTES = 5
    # Letters, signs and digits never share a token: the shortest readable score, "score: 1", takes three.
    settings.JUDGE_MAX_NEW_TOKENS = 2
    turn = said(next_state="Thanks!")
    verdicts.judge(
        str(turn.pk),
        who=EngineJudge(policy, renderer),
        engine=policy,
        renderer=renderer,
        recipe=Recipe(w_opd=0),
    )
    votes = Vote.objects.filter(turn=turn)
    assert sorted(vote.index for vote in votes) == [0, 0, 1, 1, 2, 2, 3, 3, 4, 4]  # each asked for once more
    assert all(vote.failure.startswith("unreadable") and 0 < vote.tokens <= 2 for vote in votes)
    # The likeliest answer is one in eight: all ten the same is one draw in hundreds of millions.
    assert len({vote.raw for vote in votes}) > 1
    assert Judgement.objects.get(turn=turn).reward is None


@pytest.mark.parametrize(("served", "passed"), [(1, True), (2, False)])
def test_the_exam_knows_the_learners_weights_from_others(served, passed, policy, renderer, tiny_model, tmp_path, db):
    told, files = (write_tiny_adapter(tmp_path / str(seed), seed=seed, scale=0.1) for seed in (1, served))
    learner = Learner(tiny_model, adapter_dir=told, dtype="float32")
    candidate = Checkpoint.objects.create(
        number=1,
        adapter=f"exam-{served}-{tmp_path.name}",
        path=str(files),
        files=checksums.of(files),
        parent=Checkpoint.live(),
        probe={
            "prompt_ids": PROMPT,
            "response_ids": RESPONSE,
            "logprobs": learner.score(PROMPT, RESPONSE),
            "base_logprobs": learner.score(PROMPT, RESPONSE, adapter=False),
            "dtype": "float32",
        },
    )

    limits = Gate(prompts=2, max_new_tokens=16, pack=8)
    gate.examine(str(candidate.pk), engine=policy, renderer=renderer, limits=limits)

    exam = Examination.objects.get()
    applied, new = exam.checks[:2]
    assert applied["passed"] == passed
    if passed:
        assert applied["value"] < 1e-3
        assert new["passed"]
        assert len(exam.pairs) == 2
        assert all(pair["candidate"] != pair["live"] for pair in exam.pairs)
    else:
        candidate.refresh_from_db()
        assert candidate.status == "rejected"
        assert exam.pairs == []


# What votes share


FOLLOW_UP = Evidence(
    (("user", "What is a fox? " * 8),), "A fox is a small animal. " * 8, (("user", "Shorter, please. " * 4),)
)


@pytest.mark.django_db
@pytest.mark.parametrize("m", [3, 5])
def test_the_votes_read_one_prompt_once_and_both_questions_share_the_evidence(m, policy, renderer, settings):
    settings.JUDGE_MAX_NEW_TOKENS = 4
    async_to_sync(policy.flush)()
    who = EngineJudge(policy, renderer, family="trained", constrain=False)
    ballots = polling.poll(who, FOLLOW_UP, votes=m)[: 2 * m]  # what could not be read is asked for again: left out
    lengths = {ballot.question: ballot.prompt_tokens for ballot in ballots}
    computed = sum(ballot.prompt_tokens - ballot.cached_tokens for ballot in ballots)
    # Both questions differ in their last word: at most the longer prompt, what is the other question's own, and a few
    # tokens a vote, since the rest behind a shared beginning is always computed and short ones are not waited for.
    alone = sum(lengths[ballot.question] for ballot in ballots)
    assert computed <= max(lengths.values()) + 2 * m * 48
    assert computed < alone / 2
    assert all(ballot.cached_tokens for ballot in ballots[1:])


@pytest.mark.django_db
def test_the_judges_adapter_answers_beside_the_policys(policy, renderer, tiny_model, tmp_path, monkeypatch, settings):
    settings.JUDGE_MAX_NEW_TOKENS, settings.DATA_DIR = 12, tmp_path / "data"
    taught = write_tiny_adapter(tmp_path / "taught", seed=1)
    async_to_sync(policy.load_adapter)("talkback-1-x", str(taught))
    folder = write_tiny_adapter(tmp_path / "judge", seed=2, base_model_name_or_path="another/tiny")
    monkeypatch.setattr(fitting, "FOLDER", folder)
    (who,) = judges.panel()

    said = judges.ask([judges.Ask(who, "score", FOLLOW_UP) for _ in range(3)])

    assert [one.failure for one in said] == [""] * 3
    assert {voting.score_of(one.text) for one in said} <= {-1, 0, 1}  # its grammar leaves random weights no choice
    assert None not in {voting.score_of(one.text) for one in said}
    assert async_to_sync(policy.adapters)() == {"talkback-1-x": str(taught), who.name: str(who.adapter.place)}


@pytest.mark.parametrize("family", prompts.families())
@pytest.mark.parametrize("question", ["score", "hint"])
def test_a_grammar_of_a_family_yields_votes_that_can_be_read(family, question, policy, renderer):
    told = prompts.question(question, family)
    ids = renderer.prompt_ids([{"role": "user", "content": "Well?"}])
    room = Sampling(max_new_tokens=400, temperature=1.0, regex=told.regex)
    for _ in range(4):
        said = async_to_sync(policy.generate)(ids, room).text
        if question == "score":
            assert voting.score_of(said) in (-1, 0, 1)
        else:
            assert (voting.decision_of(said), bool(voting.hint_of(said))) in ((-1, False), (1, True))

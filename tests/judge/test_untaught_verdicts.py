"""A verdict that teaches nothing says why."""

from __future__ import annotations

import pytest

from chat.models import Session, Turn
from checkpoints.models import Checkpoint
from gpu_workers.errors import AdapterMissing, EngineRefused, EngineUnavailable
from judge.models import Judgement
from judge.samples import teacher
from judge.samples.sample_rows import Reason
from tests.judge.votes_said import HINT, TELL, YES
from training.config import Recipe
from training.models import Sample

BINARY, OPD = Recipe(w_opd=0), Recipe(w_rl=0)


def narrowed(monkeypatch, renderer, room: int) -> None:
    """From here on the model's window has so much room for a hint; its judge still reads what it is asked."""
    read = teacher.hinted_prompt

    def narrow(turn, hint, renderer):
        with monkeypatch.context() as within:
            within.setattr(renderer, "context_length", room)
            return read(turn, hint, renderer)

    monkeypatch.setattr(teacher, "hinted_prompt", narrow)


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"line": "side"}, Reason.SIDE),
        ({"finish_reason": "abort"}, Reason.STOPPED),
        ({"finish_reason": "error"}, Reason.STOPPED),
        ({"response_ids": [], "logprobs": []}, Reason.EMPTY),
        ({"request": "why do  PEOPLE yawn?"}, Reason.HELD_OUT),
    ],
)
def test_a_turn_that_may_not_teach_is_judged_with_the_reason(serve, say, judge_it, engine, fields, reason):
    turn = serve(**fields)
    say(turn, "thumb", value=1)
    say(turn, "guidance", "Use fewer words.")
    judge_it(turn)
    judgement = Judgement.objects.get(turn=turn)
    assert (judgement.sample, judgement.reason) == (None, reason)
    assert (judgement.reward, judgement.hint) == (1, "Use fewer words.")  # what was said is kept
    assert engine.calls == []


@pytest.mark.parametrize("pictures", [0, 1])
def test_a_turn_with_a_picture_is_judged_by_words_and_makes_no_sample(serve, judge_it, engine, pictures):
    engine.says(r"\boxed{1}", times=None)
    turn = serve(next_state="Yes, that is right.", pictures=pictures)
    judge_it(turn, BINARY)
    judgement = Judgement.objects.get(turn=turn)
    assert (judgement.reward, judgement.reward_from) == (1, "votes")
    # The same turn without a picture becomes a sample.
    assert Sample.objects.count() == 1 - pictures
    assert judgement.reason == (Reason.PICTURE if pictures else "")


def test_a_session_with_learning_off_teaches_nothing(serve, say, judge_it):
    turn = serve()
    Session.objects.update(learns=False)
    say(turn, "thumb", value=1)
    judge_it(turn)
    assert Judgement.objects.get(turn=turn).reason == Reason.OFF


def test_a_recipe_that_learns_from_hints_makes_nothing_of_a_thumb(serve, say, judge_it):
    turn = serve()
    say(turn, "thumb", value=1)
    judge_it(turn, OPD)
    judgement = Judgement.objects.get(turn=turn)
    assert (judgement.reward, judgement.sample, judgement.reason) == (1, None, Reason.NOT_ASKED)


def test_nothing_that_came_back_is_said_to_be_so(serve, judge_it):
    turn = serve()
    judge_it(turn)
    assert Judgement.objects.get(turn=turn).reason == Reason.NO_SIGNAL


def test_weights_that_are_gone_are_a_reason(serve, say, judge_it, engine):
    gone = Checkpoint.objects.create(number=4, adapter="talkback-4-x", path="checkpoints/4", status="retired")
    engine.invalid.add(gone.adapter)
    turn = serve(checkpoint=gone)
    say(turn, "thumb", value=1)
    judge_it(turn)
    judgement = Judgement.objects.get(turn=turn)
    assert judgement.sample is None
    assert "weights that served it are gone" in judgement.reason


def test_an_adapter_that_the_engine_let_go_is_loaded_again(serve, say, judge_it, engine):
    retired = Checkpoint.objects.create(number=4, adapter="talkback-4-x", path="checkpoints/4", status="retired")
    turn = serve(checkpoint=retired)
    say(turn, "guidance", "Use fewer words.")
    judge_it(turn, Recipe(teacher="policy"))
    assert engine.loaded == {retired.adapter: str(retired.folder)}
    assert {call.adapter for call in engine.asked("score")[-2:]} == {retired.adapter}
    assert Sample.objects.get().checkpoint == retired


def test_an_adapter_that_is_let_go_again_at_once_is_asked_for_another_time(serve, say, judge_it, engine, monkeypatch):
    async def missing(*args, **kwargs):
        raise AdapterMissing("It is not loaded.")

    monkeypatch.setattr(engine, "score", missing)
    turn = serve()
    say(turn, "thumb", value=1)
    with pytest.raises(EngineUnavailable):
        judge_it(turn)
    assert Turn.objects.get(pk=turn.pk).status == "observed"


def test_the_base_teaches_where_the_recipe_says_so(serve, say, judge_it, engine):
    retired = Checkpoint.objects.create(number=4, adapter="talkback-4-x", path="checkpoints/4", status="retired")
    engine.loaded[retired.adapter] = str(retired.folder)
    turn = serve(checkpoint=retired)
    say(turn, "guidance", "Use fewer words.")
    judge_it(turn, Recipe(teacher="base"))
    assert {call.adapter for call in engine.asked("score")} == {retired.adapter, None}


def test_a_prompt_that_cannot_be_built_again_is_a_reason(serve, say, judge_it):
    turn = serve()
    Turn.objects.filter(pk=turn.pk).update(prompt_ids=[5, 6, 7])
    say(turn, "guidance", "Use fewer words.")
    judge_it(turn)
    assert "lays this conversation out differently" in Judgement.objects.get(turn=turn).reason


def test_a_hint_that_does_not_fit_is_a_reason(serve, say, judge_it, renderer, monkeypatch):
    turn = serve()
    say(turn, "guidance", "Use fewer words.")
    monkeypatch.setattr(renderer, "context_length", len(turn.prompt_ids) + len(turn.response_ids))
    judge_it(turn)
    assert "there is room for" in Judgement.objects.get(turn=turn).reason


def test_a_reward_teaches_alone_where_its_hint_does_not_fit(serve, say, judge_it, renderer, monkeypatch):
    turn = serve()
    say(turn, "thumb", value=-1)
    say(turn, "guidance", "Use fewer words.")
    monkeypatch.setattr(renderer, "context_length", len(turn.prompt_ids) + len(turn.response_ids))
    judge_it(turn)
    judgement = Judgement.objects.get(turn=turn)
    assert (judgement.sample.reward, judgement.sample.has_teacher, judgement.hint) == (-1, False, "")
    assert "there is room for" in judgement.reason
    assert judgement.reason_code == "too_long"


def test_a_wording_that_does_not_fit_leaves_the_others(serve, judge_it, engine, renderer, monkeypatch):
    long = "Say only this and nothing else at all, " + ", ".join("one more thing" for _ in range(30)) + "."
    engine.says(YES.replace(HINT, long), to=TELL, times=2)
    engine.says(YES, to=TELL)
    turn = serve(next_state="No, four.")
    fits = len(teacher.hinted_prompt(turn, HINT, renderer)) + len(turn.response_ids)
    narrowed(monkeypatch, renderer, fits)
    judge_it(turn, OPD)
    judgement = Judgement.objects.get(turn=turn)
    assert (judgement.hint, judgement.sample.has_teacher) == (HINT, True)


def test_a_voted_hint_that_cannot_be_shown_waits_for_better_words(serve, judge_it, engine, renderer, monkeypatch):
    engine.says(YES, to=TELL, times=3)
    engine.says(r"\boxed{-1}", times=3)
    turn = serve(next_state="No, four.")
    narrowed(monkeypatch, renderer, len(turn.prompt_ids) + len(turn.response_ids))
    judge_it(turn)
    judgement, hint = Judgement.objects.get(turn=turn), turn.hints.get()
    assert (hint.status, hint.text) == ("waiting", HINT)
    assert "there is room for" in hint.waits_because
    assert (judgement.sample.reward, judgement.sample.has_teacher) == (-1, False)
    assert (judgement.hint, judgement.reason) == ("", Reason.HINT_WAITS)


def test_an_engine_that_refuses_to_score_is_a_reason(serve, say, judge_it, engine, monkeypatch):
    async def refuse(*args, **kwargs):
        raise EngineRefused("too long")

    monkeypatch.setattr(engine, "score", refuse)
    turn = serve()
    say(turn, "thumb", value=1)
    judge_it(turn)
    assert "too long" in Judgement.objects.get(turn=turn).reason


def test_lengths_that_disagree_raise(serve, say, judge_it):
    turn = serve(logprobs=[-0.5])
    say(turn, "thumb", value=1)
    with pytest.raises(ValueError, match="1 sampled log-probs for"):
        judge_it(turn)
    turn.refresh_from_db()
    assert turn.status == "observed"

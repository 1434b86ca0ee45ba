"""The steps of an episode are scored together when it has ended: each makes one sample, or says why it makes none."""

from __future__ import annotations

from datetime import timedelta
from uuid import uuid4

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from chat import turns
from chat.models import Turn
from checkpoints.models import SHARED, Checkpoint, Line, Member
from episodes.models import Episode, Group
from feedback.models import Feedback
from judge import played_groups, step_verdicts, steps
from judge.models import Hint, Judgement, Overruling, Vote
from tests.played_steps import PLAIN, samples_of, stop, turns_of
from training.models import Run, Sample
from webapp import pipeline

pytestmark = pytest.mark.django_db


def test_what_its_world_scored_is_learned_step_by_step_without_a_word_to_the_engine(play, judge_all, engine, person):
    episode = play(3)
    first, second, last = turns_of(episode)
    stop(episode, scores={first.completion_id: 1.0, second.completion_id: -0.5})

    assert judge_all(episode)

    found = samples_of(episode)
    assert [(one.step, one.reward, one.voted, one.voted_hint) for one in found] == [
        (0, 1.0, False, False),
        (1, -0.5, False, False),
        (2, 0.0, False, False),  # the last: nothing came back, nothing was said, and the outcome teaches it
    ]
    assert engine.calls == []  # drawn at T = 1: what the engine recorded are the log-probs
    assert found[0].behaviour_logprobs == first.logprobs
    assert {(one.person, one.conversation, one.origin) for one in found} == {
        (str(person.pk), episode.session_id, turn.pk) for turn in (first, second, last)
    }
    judgements = Judgement.objects.filter(turn__session=episode.session_id).order_by("turn__position")
    assert [(one.reward, one.reward_from, one.reason) for one in judgements] == [
        (1, "world", ""), (-1, "world", ""), (None, "", ""),
    ]  # fmt: skip
    assert [one.sample.step for one in judgements] == [0, 1, 2]
    assert {turn.status for turn in turns_of(episode)} == {"judged"}
    assert not judge_all(episode)
    assert Sample.objects.count() == 3


def test_a_group_may_be_learned_from_once_each_counting_attempt_was_judged(play, judge_all, group):
    one, other = play(2), play(2)
    stop(one)
    judge_all(one)
    assert Group.objects.get().judged_at is None  # the other is played
    stop(other, "failed", -1.0)
    assert not played_groups.settle(group.pk)  # and now it waits for its steps
    judge_all(other)
    assert Group.objects.get().judged_at is not None
    assert [len(samples_of(episode)) for episode in (one, other)] == [2, 2]


def test_the_sweep_settles_the_group_of_a_worker_that_died_before_it_did(play, judge_all, group, monkeypatch):
    episodes = [play(2), play(2)]
    for episode in episodes:
        stop(episode)
    with monkeypatch.context() as dead:
        dead.setattr(played_groups, "settle", lambda pk: False)
        for episode in episodes:
            judge_all(episode)
    assert Group.objects.get().judged_at is None
    assert played_groups.settle_left() == 1
    assert Group.objects.get().judged_at is not None
    assert played_groups.settle_left() == 0


@pytest.mark.parametrize(
    ("ending", "outcome", "cut_by", "reason"),
    [
        ("infra_error", None, "", step_verdicts.VOID),
        ("cancelled", None, "", step_verdicts.VOID),
        ("truncated", None, "context", step_verdicts.FULL),
    ],
)
def test_what_says_nothing_of_the_agent_says_why_and_makes_no_sample(play, judge_all, ending, outcome, cut_by, reason):
    episode = play(2)
    stop(episode, ending, outcome, cut_by=cut_by)
    assert judge_all(episode)
    assert not Sample.objects.exists()
    assert set(Judgement.objects.values_list("reason", "reason_code")) == {(reason.reason, "uncounted")}
    assert {turn.status for turn in turns_of(episode)} == {"judged"}
    assert not steps.unjudged(Episode.objects.all()).exists()


def test_a_held_out_task_shows_its_scores_and_never_teaches(play, judge_all, person):
    heldout = Group.objects.create(
        user=person, name="h", world="till", task="other", split="heldout", attempts=2, checkpoint=Checkpoint.live()
    )
    episode, other = play(2, into=heldout), play(2, into=heldout)
    first, _ = turns_of(episode)
    stop(episode, scores={first.completion_id: 1.0})
    stop(other)
    assert judge_all(episode)
    assert judge_all(other)
    assert not Sample.objects.exists()
    judgement = Judgement.objects.get(turn=first)
    assert (judgement.reward, judgement.reason_code, judgement.evidence) == (1, "held_out", "")
    assert Group.objects.get(pk=heldout.pk).judged_at is None


def test_a_group_that_stays_too_short_gives_its_samples_back_and_says_so(play, judge_all, group):
    one, void = play(2), play(1)
    stop(one)
    judge_all(one)
    assert len(samples_of(one)) == 2
    stop(void, "infra_error", None)
    judge_all(void)
    assert samples_of(one) == []
    reasons = Judgement.objects.filter(turn__session=one.session_id).values_list("reason", flat=True)
    assert set(reasons) == {step_verdicts.SHORT.reason}
    assert Group.objects.get().judged_at is None


def test_a_group_whose_player_left_counts_as_what_was_opened_after_three_leases(play, judge_all, group):
    Group.objects.update(attempts=8)
    episodes = [play(2), play(2)]
    for episode in episodes:
        stop(episode)
        judge_all(episode)
    assert played_groups.settle_left() == 0
    assert Group.objects.get().standing().state == "playing"
    Episode.objects.update(ended_at=timezone.now() - timedelta(seconds=3 * 600 + 1))  # leases of 600 s
    assert Group.objects.get().standing().state == "complete"
    assert played_groups.settle_left() == 1
    assert Group.objects.get().judged_at is not None


def test_a_short_group_that_comes_to_more_attempts_after_all_is_judged_again(play, judge_all, group):
    one = play(2)
    stop(one)
    judge_all(one)
    Episode.objects.update(ended_at=timezone.now() - timedelta(hours=2))
    assert played_groups.settle_left() == 1
    assert samples_of(one) == []
    late = play(2)
    stop(late)
    judge_all(late)  # the group is complete: the first one's steps are opened again
    assert Turn.objects.filter(session=one.session_id, status="observed").count() == 2
    judge_all(one)
    assert len(samples_of(one)) == 2
    assert Group.objects.get().judged_at is not None


def test_while_it_is_played_nothing_is_judged(play, judge_it, judge_all):
    episode = play(2)
    assert not judge_it(turns_of(episode)[0])
    assert not judge_all(episode)
    assert not Judgement.objects.exists()


def test_to_judge_one_of_its_turns_is_to_judge_all_that_are_due(play, judge_it):
    episode = play(3)
    stop(episode)
    assert judge_it(turns_of(episode)[1])
    assert len(samples_of(episode)) == 3


def test_a_reply_that_is_still_being_written_holds_its_episode_up(play, judge_all):
    episode = play(2)
    stop(episode)
    Turn.objects.filter(pk=turns_of(episode)[1].pk).update(status="answering", finish_reason="")
    assert not judge_all(episode)
    Turn.objects.filter(pk=turns_of(episode)[1].pk).update(status="closed", finish_reason="abort")
    assert judge_all(episode)
    assert [one.step for one in samples_of(episode)] == [0]  # what the server cut is no step of the agent's


def test_a_reply_that_was_cut_at_its_length_is_the_agents_own_step(play, judge_all):
    episode = play(2, finish_reason="length")
    stop(episode)
    judge_all(episode)
    assert [one.step for one in samples_of(episode)] == [0, 1]


def test_what_is_off_the_record_makes_no_sample_and_keeps_nothing(play, judge_all):
    episode = play(2)
    first, _ = turns_of(episode)
    Turn.objects.filter(pk=first.pk).update(learns=False)
    stop(episode, scores={first.completion_id: 1.0})
    judge_all(episode)
    assert [one.step for one in samples_of(episode)] == [1]  # numbered as it was played
    judgement = Judgement.objects.get(turn=first)
    assert (judgement.reward, judgement.evidence, judgement.reason_code) == (None, "", "off")


@pytest.mark.parametrize(
    ("said", "world", "came_back", "expected"),
    [
        # reviewer > thumb > test > world > rule > nothing
        ({"reviewer": 0, "thumb": 1, "test": 1}, 1.0, "Exit code: 2", (0.0, "reviewer")),
        ({"thumb": -1, "test": 1}, 1.0, "Exit code: 2", (-1.0, "thumb")),
        ({"test": 1}, -0.5, "Exit code: 2", (1.0, "test")),
        ({}, 0.5, "Exit code: 2", (0.5, "world")),
        ({}, 0.0, "Exit code: 2", (0.0, "world")),
        ({}, None, "Exit code: 2", (-1.0, "rule")),
        ({}, None, "pears cost 3", (0.0, "")),
    ],
)
def test_who_decides_a_steps_score(play, judge_all, say, engine, said, world, came_back, expected):
    engine.says(r"\boxed{1}", times=None)  # votes would say so, and none is asked
    episode = play(2, came_back=came_back)
    first, _ = turns_of(episode)
    if "reviewer" in said:
        Overruling.objects.create(turn=first, reward=said["reviewer"], reason="seen")
    if "thumb" in said:
        say(first, "thumb", value=said["thumb"])
    if "test" in said:
        say(first, "verdict", value=said["test"])
    stop(episode, scores={} if world is None else {first.completion_id: world})
    judge_all(episode)
    judgement = Judgement.objects.get(turn=first)
    assert (samples_of(episode)[0].reward, judgement.reward_from) == expected
    assert not Vote.objects.exists()


def test_a_persons_later_thumb_scores_its_step_anew_until_a_run_has_it(play, judge_all, say):
    episode = play(2)
    first, _ = turns_of(episode)
    stop(episode, scores={first.completion_id: 1.0})
    judge_all(episode)
    say(first, "thumb", value=-1)
    turns.reopen(first)
    judge_all(episode)
    assert [(one.step, one.reward) for one in samples_of(episode)] == [(0, -1.0), (1, 0.0)]
    assert Sample.objects.filter(status="stale").count() == 1

    run = Run.objects.create(recipe={}, created_at=timezone.now() - timedelta(minutes=1))
    Sample.objects.filter(status="ready").update(status="claimed", run=run)
    Feedback.objects.all().delete()
    say(first, "thumb", value=1)
    turns.reopen(Turn.objects.get(pk=first.pk))
    assert not judge_all(episode)  # it waits for the run's end
    assert Feedback.objects.get().late
    assert [one.reward for one in samples_of(episode)] == [-1.0, 0.0]

    Sample.objects.filter(status="claimed").update(status="trained")
    Episode.objects.update(status="learned")
    assert judge_all(episode)
    assert [one.reward for one in samples_of(episode)] == [-1.0, 0.0]
    assert Judgement.objects.get(turn=first).reason_code == "learned"


@pytest.mark.parametrize(
    ("sampling", "asked"),
    [(PLAIN, 0), ({"temperature": 0.7}, 2), ({"temperature": 1.0, "top_p": 0.9}, 2), (PLAIN | {"regex": "a+"}, 2)],
)
def test_the_engine_is_asked_for_log_probs_only_where_they_are_not_known(play, judge_all, engine, sampling, asked):
    episode = play(2, sampling=sampling)
    stop(episode)
    judge_all(episode)
    assert [call.kind for call in engine.calls] == ["score"] * asked
    assert all(len(one.behaviour_logprobs) == len(one.response_ids) for one in samples_of(episode))


def test_what_is_personal_is_taken_out_and_then_log_probs_are_asked_for(play, judge_all, engine, settings):
    episode = play(2, came_back="Write to ana@example.com.")
    stop(episode)
    judge_all(episode)
    first, second = samples_of(episode)
    assert (first.redactions, [one["kind"] for one in second.redactions]) == ([], ["email"])
    assert len(engine.calls) == 1  # the second step's prompt is another now


def test_of_two_replies_to_one_request_the_one_that_was_played_is_the_step(play, judge_all):
    episode = play(2, request_chain="")
    first, second = turns_of(episode)
    Turn.objects.filter(pk=first.pk).update(request_chain="a")
    twin = Turn.objects.get(pk=first.pk)
    twin.pk, twin.completion_id, twin.position, twin.next_state, twin._state.adding = uuid4(), "twin", 2, [], True
    twin.status = "served"
    twin.save()
    stop(episode)
    judge_all(episode)
    assert [(one.step, one.origin) for one in samples_of(episode)] == [(0, first.pk), (1, second.pk)]
    assert Judgement.objects.get(turn=twin).reason == step_verdicts.NOT_PLAYED.reason


def test_what_a_person_says_a_step_should_have_been_is_kept_and_not_taught(play, judge_all, say):
    episode = play(2)
    first, _ = turns_of(episode)
    say(first, "guidance", "Look at the price first.")
    stop(episode)
    judge_all(episode)
    judgement = Judgement.objects.get(turn=first)
    assert (judgement.hint, judgement.hint_from, judgement.reason_code) == (
        "Look at the price first.", "guidance", "not_asked",
    )  # fmt: skip
    assert samples_of(episode)[0].teacher_prompt_ids is None
    assert not Hint.objects.exists()


def test_the_sweep_sends_an_ended_episode_once_and_none_that_is_played(play, judge_all):
    ended, played = play(2), play(2)
    stop(ended)
    assert [one.pk for one in steps.unjudged(Episode.objects.all())] == [ended.pk]
    due = next(arrow.due for arrow in pipeline.ARROWS if arrow.model is Turn)
    assert {turn.session_id for turn in due(Turn.objects.filter(status="observed"))} == {ended.session_id}
    judge_all(ended)
    assert not steps.unjudged(Episode.objects.all()).exists()
    assert played.status == "playing"


def test_a_person_of_a_line_of_their_own_teaches_it_and_where_they_pool_the_shared_one(play, judge_all, person):
    line = Line.objects.create(name="ana's", start=Checkpoint.live())
    Member.objects.create(user=person, line=line, pools=True)
    episode = play(2)
    stop(episode)
    judge_all(episode)
    found = set(Sample.objects.values_list("line", "step"))
    assert found == {(SHARED, 0), (SHARED, 1), (line.pk, 0), (line.pk, 1)}
    assert {one.sample.line_id for one in Judgement.objects.select_related("sample")} == {line.pk}


def test_ten_steps_take_no_more_queries_than_two(play, judge_all):
    # The first of all reads besides what is known of its judges, and the last closes their group.
    episodes = play(2), play(2), play(10), play(2)
    numbers = []
    for episode in episodes:
        stop(episode)
        with CaptureQueriesContext(connection) as queries:
            judge_all(episode)
        numbers.append(len(queries))
    assert numbers[2] - numbers[1] <= 8  # one more a step tells its page

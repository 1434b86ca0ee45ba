"""Agents' part of an exam through the front door: asked of a player, played as episodes, read pair by pair."""

from __future__ import annotations

import json
from datetime import timedelta
from itertools import product

import pytest
from django.contrib.auth import get_user_model
from django.utils import timezone

from chat.api_keys import ApiKey
from chat.models import Session, Turn
from checkpoints.models import Checkpoint, Decision, Line, Member
from episodes.models import Episode, Exam, Group
from gate import agent_part, played_later
from gate.agent_pairs import SOLVED
from gate.models import Examination
from tests.gate.candidates import both_say, check
from training.config import Gate
from training.models import Sample

pytestmark = pytest.mark.django_db(transaction=True, serialized_rollback=True)

LIMITS = Gate(prompts=4, pack=0, tasks=12)
WON, LOST = {"status": "solved", "outcome": 1.0}, {"status": "failed", "outcome": -1.0}


class Player:
    """A person's program with a key: it asks what is to be played, and plays it as its scripts say."""

    def __init__(self, client, person) -> None:
        self.client = client
        _, secret = ApiKey.objects.issue(person, "player", scopes=["episodes"])
        self.headers = {"Authorization": f"Bearer {secret}"}

    def ask(self, method, path, body=None):
        answer = getattr(self.client, method)(
            f"/v1/{path}", json.dumps(body or {}), "application/json", headers=self.headers
        )
        assert answer.status_code == 200, answer.content
        return answer.json()

    def exams(self):
        return self.client.get("/v1/episodes/exams", headers=self.headers).json()["data"]

    def play(self, solves):
        """Play each exam that is open. `solves(side, task, attempt)`: whether it does; 0 is the candidate."""
        for exam in self.exams():
            for side, model in enumerate(exam["models"]):
                for task, attempt in product(range(exam["tasks"]), range(exam["attempts"])):
                    self.attempt(exam, model, task, attempt, WON if solves(side, task, attempt) else LOST)

    def attempt(self, exam, model, task, attempt, end):
        body = {
            "world": exam["world"], "task": f"heldout-{task}", "split": "heldout", "attempt": attempt,
            "group": f"{exam['groups']}{model}/{task}", "attempts": exam["attempts"], "model": model,
        }  # fmt: skip
        episode = self.ask("post", "episodes", body)
        self.ask("post", f"episodes/{episode['id']}/close", end)


def record(solves, *, tasks=12, ends=None):
    """The rows that playing leaves: quicker than the front door, which one test takes. `ends`: other endings."""
    for exam in Exam.objects.filter(ended_at=None):
        for side, who in enumerate((exam.candidate, exam.live)):
            for task in range(tasks):
                group = Group.objects.create(
                    user=exam.user, name=f"{exam.prefix}{who}/{task}", world=exam.world, task=f"heldout-{task}",
                    split="heldout", attempts=exam.attempts, checkpoint=who,
                )  # fmt: skip
                of = {n: (ends or {}).get((side, task, n)) or ("solved" if solves(side, task, n) else "failed")
                      for n in range(exam.attempts)}  # fmt: skip
                Episode.objects.bulk_create(row_of(group, number, ending) for number, ending in of.items())


def row_of(group, number, ending):
    outcome = {"solved": 1.0, "failed": -1.0}.get(ending)
    status = "void" if ending in Episode.UNSCORED else "scored"
    now = timezone.now()
    return Episode(
        group=group, attempt=number, status=status, ending=ending, outcome=outcome, lease_s=60, lease_until=now,
        cut_by="context" if ending == "truncated" else "", ended_at=now,
    )  # fmt: skip


@pytest.fixture
def ana(db):
    return get_user_model().objects.create_user("ana")


@pytest.fixture
def player(client, ana):
    return Player(client, ana)


@pytest.fixture
def taught(candidate, ana):
    """The candidate's run learned from a group of this person's in till."""
    group = Group.objects.create(
        user=ana, name="night", world="till", task="train-1", split="train", checkpoint=candidate.parent
    )
    now = timezone.now()
    episode = Episode.objects.create(
        group=group, attempt=0, status="learned", ending="solved", outcome=1, lease_s=60, lease_until=now
    )
    Sample.objects.create(
        status="trained", run=candidate.run, checkpoint=candidate.parent, episode=episode, step=0,
        prompt_ids=[1], response_ids=[2], behaviour_logprobs=[-1.0],
    )  # fmt: skip
    return candidate


@pytest.fixture
def begun(engine, examine, taught):
    """The exam has asked all its own questions, and waits for agents."""
    both_say(engine)
    exam = examine(LIMITS)
    assert (taught.status, exam.finished_at, exam.progress["phase"]) == ("candidate", None, "agents")
    return examine


def as_well(side, task, attempt):
    return (task + attempt) % 2 == 0


def worse(side, task, attempt):
    """Live solves half of its attempts, the candidate an eighth."""
    return as_well(side, task, attempt) and (side == 1 or (task + attempt) % 8 == 0)


def test_a_planted_worse_candidate_is_rejected_with_numbers(begun, player, taught):
    (asked,) = player.exams()
    assert (asked["world"], asked["tasks"], asked["models"]) == ("till", 12, ["talkback@1", "talkback@0"])
    player.play(worse)

    exam = begun(LIMITS)

    found = check(exam, SOLVED)
    # 24 of 48 attempts by live. By the candidate those with (task + attempt) divisible by 8: of the sums 0 to 14,
    # 0 comes up once and 8 four times (tasks 5 to 8): 5 of 48. 10 % − 50 % is −40 %.
    assert "In till it solved 10% of 48 attempts at 12 held-out tasks (live 50%): -40%" in found["sentence"]
    assert (found["passed"], taught.status, exam.passed) == (False, "rejected", False)
    assert taught.reason == found["sentence"]
    assert Decision.objects.get().verb == "reject"
    assert player.exams() == []
    worst = exam.agents[0]["groups"][found["worst"][0]]
    assert {group.checkpoint_id for group in Group.objects.filter(pk__in=worst)} == {taught.pk, taught.parent_id}


def test_an_equal_candidate_passes_and_the_engine_is_not_asked_again(begun, player, taught, engine):
    record(as_well)
    before = len(engine.calls)

    exam = begun(LIMITS)

    assert taught.status == "passed"
    names = [one["name"] for one in exam.checks]
    assert names[-3:] == ["tasks solved", "attempts cut off", "valid calls"]
    assert {"applied", "fluency", "kept corrections"} <= set(names)  # people's own part applies to it all the same
    assert len(engine.calls) == before
    assert exam.progress["phase"] == "done"
    assert "checks" not in exam.progress


def test_nothing_is_decided_while_one_attempt_is_still_to_be_played(begun, player, taught):
    record(as_well)
    Episode.objects.filter(group__split="heldout", attempt=3, group__task="heldout-11").last().delete()
    begun(LIMITS)
    assert taught.status == "candidate"


def test_failed_worlds_and_called_off_attempts_are_left_out_and_counted(begun, player, taught):
    ends = {(0, 0, 0): "infra_error", (1, 0, 1): "cancelled", (1, 0, 0): "solved"}
    record(as_well, ends=ends)
    exam = begun(LIMITS)
    assert len(exam.agents[0]["pairs"]) == 46  # of 48
    assert exam.agents[0]["left_out"] == {"the world failed": 1, "called off": 1}
    assert "1 called off, 1 the world failed." in check(exam, SOLVED)["sentence"]
    assert taught.status == "passed"


def test_a_candidate_that_breaks_its_world_does_not_pass_by_it(begun, player, taught):
    """Each attempt that it would have lost ends as infra_error: half of the pairs, where a fifth may be left out."""
    ends = {(0, task, k): "infra_error" for task in range(12) for k in range(4) if not as_well(0, task, k)}
    record(as_well, ends=ends)
    exam = begun(LIMITS)
    found = check(exam, SOLVED)
    assert "Not enough was played in till to know: 24 of 48 pairs count" in found["sentence"]
    assert found["value"] == found["limit"]  # a policy leaves it to a person


def test_a_full_window_is_no_excuse(begun, player, taught):
    """Nothing of it teaches, but an agent that talked until its window was full solved nothing."""
    ends = {(0, task, k): "truncated" for task in range(12) for k in range(4) if as_well(0, task, k)}
    record(as_well, ends=ends)
    exam = begun(LIMITS)
    assert [one["name"] for one in exam.checks if not one["passed"]] == ["tasks solved", "attempts cut off"]
    assert taught.status == "rejected"


def long_ago(seconds=agent_part.WAIT_S + 1):
    """Have it been asked for so long ago."""
    at = timezone.now() - timedelta(seconds=seconds)
    Exam.objects.update(created_at=at)
    Examination.objects.update(started_at=at)


def test_what_no_player_plays_in_time_is_said_with_the_command_and_left_to_a_person(begun, player, taught):
    long_ago()

    exam = begun(LIMITS)

    found = check(exam, SOLVED)
    assert (taught.status, found["passed"], found["value"], found["limit"]) == ("passed", True, 0.0, 0.0)
    assert found["sentence"] == (
        "Not played in till. No player of ana was at it for 30 minutes. To have it played before a person decides: "
        "`python3 -m environments worlds exam --world till`."
    )
    assert player.exams()[0]["state"] == "lapsed"  # it still can be


def test_an_attempt_is_a_sign_of_life(begun, player, taught):
    (exam,) = player.exams()
    player.attempt(exam, "talkback@1", 0, 0, WON)
    long_ago(2 * agent_part.WAIT_S)
    begun(LIMITS)
    assert taught.status == "candidate"
    Episode.objects.update(created_at=timezone.now() - timedelta(seconds=agent_part.WAIT_S + 2),
                           ended_at=timezone.now() - timedelta(seconds=agent_part.WAIT_S + 1))  # fmt: skip
    exam = begun(LIMITS)
    assert taught.status == "passed"
    assert "1 played by one of them alone" in check(exam, SOLVED)["sentence"]


@pytest.mark.parametrize(("policy", "status"), [(worse, "rejected"), (as_well, "passed")])
def test_what_is_played_late_counts_while_nothing_is_decided(begun, player, taught, policy, status):
    long_ago()
    begun(LIMITS)
    played_later.catch_up()
    taught.refresh_from_db()
    assert taught.status == "passed"
    record(policy)

    played_later.catch_up()

    taught.refresh_from_db()
    exam = Examination.objects.get()
    assert (taught.status, exam.passed) == (status, status == "passed")
    assert "of 48 attempts" in check(exam, SOLVED)["sentence"]
    assert len([one for one in exam.checks if one["name"] == SOLVED]) == 1
    assert player.exams() == []


def test_nothing_is_asked_of_a_candidate_that_is_decided(begun, player, taught):
    long_ago()
    begun(LIMITS)
    taught.decide("approved", by=None)
    played_later.catch_up()
    assert player.exams() == []
    assert Exam.objects.get().reason == "talkback@1 is approved by now."


def test_a_player_that_has_fewer_tasks_ends_it_and_what_there_is_is_read(begun, player, taught):
    (exam,) = player.exams()
    record(worse, tasks=10)
    player.ask("post", f"episodes/exams/{exam['id']}/close", {"reason": "There are 10 held-out tasks."})
    found = check(begun(LIMITS), SOLVED)
    assert not found["passed"]
    assert "at 10 held-out tasks" in found["sentence"]


def test_when_another_goes_live_the_exam_is_asked_for_anew(begun, engine, player, taught):
    (before,) = player.exams()
    newer = Checkpoint.objects.create(number=2, adapter="talkback-2-b", path="checkpoints/2", status="approved")
    newer.go_live()
    both_say(engine)
    begun(LIMITS)
    (after,) = player.exams()
    assert (before["models"], after["models"]) == (["talkback@1", "talkback@0"], ["talkback@1", "talkback@2"])
    assert "talkback@2 went live meanwhile" in Exam.objects.get(pk=before["id"]).reason
    taught.parent.go_live()  # back again
    both_say(engine)
    begun(LIMITS)
    assert player.exams() == [before]


def test_a_candidate_that_fails_its_own_questions_is_not_waited_for(engine, examine, player, taught):
    both_say(engine, candidate=["You lie."] * 4)
    examine(LIMITS)
    assert taught.status == "rejected"
    assert player.exams() == []


def session_of(checkpoint, person):
    """The session of the first attempt that this checkpoint played."""
    session = Session.objects.create(user=person)
    Episode.objects.filter(group__checkpoint=checkpoint, group__task="heldout-0", attempt=0).update(session=session)
    return session


def test_other_weights_than_the_exams_say_nothing(begun, player, taught, ana):
    record(as_well)
    Turn.objects.create(
        session=session_of(taught, ana), position=0, checkpoint=taught.parent, messages=[], status="served"
    )
    exam = begun(LIMITS)
    assert exam.agents[0]["left_out"] == {"answered by other weights": 1}


def test_steps_tokens_and_invalid_calls_are_read_off_the_turns(begun, player, taught, ana):
    record(as_well)
    session = session_of(taught, ana)
    tools = [{"type": "function", "function": {"name": "add", "parameters": {"required": ["a"]}}}]
    for position, (name, arguments) in enumerate((("add", '{"a": 1}'), ("add", "1 2"), ("sub", "{}"), ("add", "{}"))):
        call = {"id": "c", "type": "function", "function": {"name": name, "arguments": arguments}}
        Turn.objects.create(
            session=session, position=position, checkpoint=taught, messages=[], status="served", tools=tools,
            message={"tool_calls": [call]}, response_ids=[1, 2, 3],
        )  # fmt: skip
    exam = begun(LIMITS)
    pair = next(one for one in exam.agents[0]["pairs"] if (one["task"], one["attempt"]) == ("heldout-0", 0))
    assert pair["candidate"] == {"is_solved": True, "is_cut": False, "steps": 4, "invalid": 3, "tokens": 12}


# Who is asked


def test_without_agents_the_exam_is_as_it_was(engine, examine, candidate):
    both_say(engine)
    exam = examine(LIMITS)
    assert candidate.status == "passed"
    assert not Exam.objects.exists()
    assert exam.agents == []


def test_a_recipe_that_asks_for_no_tasks_waits_for_none(engine, examine, taught):
    both_say(engine)
    examine(LIMITS.model_copy(update={"tasks": 0}))
    assert taught.status == "passed"


def test_the_worlds_that_taught_it_and_those_of_its_line_that_are_played_held_out(candidate, taught, ana):
    def heldout(person, world, age=timedelta()):
        Group.objects.create(
            user=person, name=f"{world}", world=world, task="t", split="heldout", checkpoint=candidate.parent,
            created_at=timezone.now() - age,
        )  # fmt: skip

    ben, eva = (get_user_model().objects.create_user(name) for name in ("ben", "eva"))
    heldout(ben, "shell")
    heldout(ben, "old", agent_part.RECENT + timedelta(hours=1))
    heldout(eva, "hers")
    Member.objects.create(user=eva, line=Line.objects.create(name="hers", title="Hers", start=candidate.parent))
    assert agent_part.find_worlds(candidate) == [(ana.pk, "till"), (ben.pk, "shell")]
    Checkpoint.objects.filter(pk=candidate.pk).update(line="hers")
    candidate.refresh_from_db()
    assert agent_part.find_worlds(candidate) == [(ana.pk, "till"), (eva.pk, "hers")]

"""What became of a turn, as the program that asked for it is told."""

from __future__ import annotations

import json

import pytest
from django.utils import timezone

from chat.api_keys import ApiKey
from chat.models import Session, Turn
from chat.rendering.renderer import Renderer
from checkpoints.models import Checkpoint
from feedback import reasons
from feedback.models import Feedback
from judge import verdicts
from judge.models import Judgement, Vote
from judge.samples.sample_rows import Reason
from judge.votes import judges
from tests.conftest import ROOT
from tests.rows import made_by
from training import line_recipes
from training.config import Recipe
from training.models import Run, Sample
from webapp import api_shapes, learning_api


@pytest.fixture
def key(talker) -> ApiKey:
    key, key.secret = ApiKey.objects.issue(talker, "laptop")  # type: ignore[attr-defined]
    return key


@pytest.fixture
def get(client, key):
    def get(path: str, secret: str = key.secret):
        return client.get(path, headers={"Authorization": f"Bearer {secret}"})

    return get


@pytest.fixture
def became(get):
    """What became of this turn."""

    def became(turn: Turn) -> dict:
        answer = get(f"/v1/completions/{turn.completion_id}/learning")
        assert answer.status_code == 200, answer.content
        return answer.json()

    return became


@pytest.fixture
def trained(make_lesson):
    """A turn that a checkpoint was trained on, and that checkpoint."""

    def trained(number=1, status="candidate") -> tuple[Turn, Checkpoint]:
        run = Run.objects.create(recipe={}, status="finished", finished_at=timezone.now())
        lesson = make_lesson("trained", run=run)
        parent = Checkpoint.live()
        made = made_by(
            run, Checkpoint.objects.create(number=number, status=status, adapter=f"talkback-{number}-x", parent=parent)
        )
        return lesson.turn, made

    return trained


SHAPE = {
    "object", "id", "created", "model", "session", "stage", "label", "detail", "status", "finish_reason", "sorted",
    "next_state", "feedback", "wish", "votes", "verdict", "reason", "sample", "run", "checkpoints",
}  # fmt: skip

STAGES = [
    ("answering", {"finish_reason": ""}, "writing", "writing"),
    ("served", {}, "served", "unanswered"),
    ("served", {"finish_reason": "length"}, "served", "unanswered"),
    ("served", {"line": "side"}, "unused", "side"),
    ("served", {"learns": False}, "unused", "off"),
    ("observed", {}, "judging", "judging"),
    ("closed", {"finish_reason": "abort"}, "closed", "stopped"),
    ("closed", {"finish_reason": "error"}, "closed", "stopped"),
    ("closed", {}, "closed", "closed"),
]


@pytest.mark.parametrize(("status", "fields", "stage", "reason"), STAGES)
def test_before_a_verdict_it_says_what_is_waited_for_or_why_nothing_is(
    make_turn, became, status, fields, stage, reason
):
    told = became(make_turn(status, **fields))
    assert set(told) == SHAPE
    assert (told["status"], told["stage"], told["reason"]["code"]) == (status, stage, reason)
    assert told["label"]
    assert told["detail"]
    assert told["reason"]["sentence"]
    assert (told["verdict"], told["sample"], told["run"], told["checkpoints"]) == (None, None, None, [])


@pytest.mark.parametrize("reason", list(Reason))
def test_a_verdict_without_a_sample_has_its_reason_as_a_word(make_turn, became, reason):
    turn = make_turn("judged")
    Judgement.objects.create(
        turn=turn, reward=0, reward_from="votes", confidence=1.0, reason=reason, reason_code=reason.code
    )
    told = became(turn)
    assert told["stage"] == "unused"
    assert told["reason"] == {"code": reason.name.lower(), "sentence": str(reason)}
    assert told["verdict"]["reward"] == 0


def test_a_reason_in_other_words_keeps_them_beside_its_code(make_turn, became):
    turn = make_turn("judged")
    said = "talkback@3 is no longer served: full weights are swapped in place."
    Judgement.objects.create(turn=turn, reason=said, reason_code="weights_gone")
    assert became(turn)["reason"] == {"code": "weights_gone", "sentence": said}


def test_a_sample_in_the_batch_has_its_place_and_no_reason(make_lesson, became):
    make_lesson()
    told = became(make_lesson().turn)
    assert told["stage"] == "batch"
    assert told["reason"] is None
    size = line_recipes.current().batch_size
    place = {"place": 2, "batch_size": size, "wanting": size - 2, "corrections": 0}
    assert told["sample"] == {"status": "ready", "reward": -1.0, "has_hint": True, **place}
    verdict = told["verdict"]
    assert verdict.pop("judged") > 0
    assert verdict == {
        "reward": -1,
        "reward_from": "votes",
        "confidence": 1.0,
        "hint": "Say it in one word.",
        "hint_from": "guidance",
        "precedence": "Inferred by votes: a person’s thumb, marks or correction outranks it.",
        "note": None,
    }


def test_votes_are_counted_by_question(make_lesson, became):
    turn = make_lesson().turn
    for index, (score, hint, failure) in enumerate(((1, "Be brief, please.", ""), (-1, "", ""), (None, "", "late"))):
        Vote.objects.create(
            turn=turn, question="hint", index=index, judge="j", prompt_version="1",
            score=score, hint=hint, failure=failure,
        )  # fmt: skip
    assert became(turn)["votes"] == {
        "score": {"good": 0, "bad": 2, "neutral": 0, "failed": 1},
        "hint": {"offered": 1, "none": 1, "failed": 1},
    }


def test_a_run_says_how_far_it_is(make_lesson, became):
    run = Run.objects.create(recipe={}, status="running", progress={"phase": "steps", "done": 4, "total": 10})
    told = became(make_lesson("claimed", run=run).turn)
    assert (told["stage"], told["sample"]["status"], told["sample"]["place"]) == ("learning", "claimed", None)
    assert told["run"] == {
        "id": run.pk, "status": "running", "phase": "steps", "done": 4, "total": 10, "eta_s": None, "limits_passed": [],
    }  # fmt: skip


def test_a_stale_sample_says_why(make_lesson, became):
    lesson = make_lesson("stale")
    Sample.objects.update(drop_reason="superseded by a later verdict")
    told = became(lesson.turn)
    assert told["reason"] == {"code": "stale", "sentence": "superseded by a later verdict"}


def test_what_was_learned_names_every_checkpoint_that_it_reached(trained, became):
    turn, first = trained()
    assert became(turn)["checkpoints"] == [
        {"number": 1, "name": "talkback@1", "status": "candidate", "learned_here": True, "live_since": None}
    ]
    for status in ("passed", "approved"):
        first.move(status)
    first.go_live()
    heir = Checkpoint.objects.create(number=3, adapter="talkback-3-x", parent=first)
    Checkpoint.objects.create(number=4, adapter="talkback-4-x", parent=Checkpoint.objects.get(number=0))
    Checkpoint.objects.create(number=5, adapter="talkback-5-x", parent=heir, status="rejected")

    told = became(turn)

    assert (told["stage"], told["label"]) == ("trained", "taught to talkback@1")
    assert [(one["number"], one["status"], one["learned_here"]) for one in told["checkpoints"]] == [
        (1, "live", True),
        (3, "candidate", False),
        (5, "rejected", False),
    ]
    assert told["checkpoints"][0]["live_since"] == int(first.moved_at.timestamp())


def test_a_clean_line_that_learned_it_once_more_is_named_and_one_that_left_it_out_is_not(trained, became):
    turn, first = trained()
    again = {"again": first.run, "recipe": {}, "status": "finished", "finished_at": timezone.now()}
    base = Checkpoint.objects.get(number=0)
    kept = Run.objects.create(**again, learned=[turn.judgement.sample_id])
    left_out = Run.objects.create(**again, learned=[turn.judgement.sample_id + 1000])
    made_by(kept, Checkpoint.objects.create(number=2, adapter="talkback-2-x", parent=base))
    made_by(left_out, Checkpoint.objects.create(number=3, adapter="talkback-3-x", parent=base))

    told = became(turn)["checkpoints"]

    assert [(one["number"], one["learned_here"]) for one in told] == [(1, True), (2, True)]


def test_what_was_learned_before_late_feedback_counts_as_reached(trained, make_lesson, became):
    turn, first = trained()
    waiting = make_lesson().sample
    other = Judgement.objects.get(sample=waiting)
    judgement = turn.judgement
    learned, other.sample = judgement.sample, None
    other.save()
    judgement.learned, judgement.sample = learned, waiting
    judgement.save()
    told = became(turn)
    assert told["stage"] == "batch"
    assert [one["number"] for one in told["checkpoints"]] == [first.number]


def test_who_takes_back_what_was_learned_is_told_where_it_is(trained, client, key, talker):
    turn, first = trained()
    Feedback.objects.create(turn=turn, by=talker, kind="thumb", value=-1)
    answer = client.post(
        "/v1/feedback",
        json.dumps({"completion_id": turn.completion_id, "withdraw": True}),
        content_type="application/json",
        headers={"Authorization": f"Bearer {key.secret}"},
    ).json()
    assert answer["thumb"] is None
    assert answer["learning"]["checkpoints"] == [first.name]


def test_what_of_the_evidence_was_not_used_is_noted_beside_a_sample(make_lesson, became):
    lesson = make_lesson()
    Judgement.objects.update(reason=Reason.HINT_WAITS)
    told = became(lesson.turn)
    assert told["reason"] is None
    assert told["verdict"]["note"] == {"code": "hint_waits", "sentence": str(Reason.HINT_WAITS)}


def test_what_was_said_and_what_came_back_stand_in_it(make_turn, became, talker, operator):
    turn = make_turn("observed", next_state=[{"role": "tool", "content": "a"}, {"role": "tool", "content": "b"}])
    Feedback.objects.give(turn, by=talker, kind="thumb", value=-1, tags=["tone"])
    Feedback.objects.give(turn, by=talker, kind="verdict", value=-1, text="E", exit_code=2)
    Feedback.objects.give(turn, by=operator, kind="guidance", text="not this person's")
    told = became(turn)
    assert told["next_state"] == {"role": "tool", "messages": 2}
    assert told["feedback"] == {
        "thumb": "down",
        "tags": ["tone"],
        "comment": None,
        "marks": [],
        "correction": None,
        "guidance": None,
        "verdict": "failed",
        "exit_code": 2,
        "output": "E",
    }


def test_who_sorted_it_and_how_is_said(make_turn, became, talker, operator):
    turn = make_turn("served", line="side", kind="heartbeat", rule="openclaw/heartbeat")
    assert became(turn)["sorted"] == {
        "line": "side", "kind": "heartbeat", "rule": "openclaw/heartbeat", "by": "rule", "learns": True,
    }  # fmt: skip
    Turn.objects.update(line="main", sorted_by=operator)
    Session.objects.update(learns=False)
    told = became(turn)["sorted"]
    assert (told["line"], told["by"], told["learns"]) == ("main", "person", False)


def test_a_test_is_named_as_who_judged(make_turn, became):
    turn = make_turn("judged")
    Judgement.objects.create(turn=turn, reward=-1, reward_from="test", confidence=1.0, reason=Reason.NOT_ASKED)
    told = became(turn)
    assert told["label"] == "judged bad"
    assert told["detail"].startswith("Judged bad by a test.")
    assert told["verdict"]["reward_from"] == "test"


def test_it_asks_the_same_few_questions_whatever_there_is(
    trained, make_lesson, key, talker, django_assert_max_num_queries
):
    turn, first = trained()
    for number in range(2, 30):
        Checkpoint.objects.create(number=number, adapter=f"talkback-{number}-x", parent=first)
    for _ in range(5):
        make_lesson()
    Feedback.objects.give(turn, by=talker, kind="thumb", value=1)
    for asked in (turn, make_lesson().turn):
        with django_assert_max_num_queries(12):
            assert learning_api.told(key, asked.completion_id)["id"] == asked.completion_id


def test_from_a_reply_by_a_tests_verdict_into_the_batch(client, key, became, engine, tiny_model, settings):
    settings.MODEL = str(tiny_model)
    headers = {"Authorization": f"Bearer {key.secret}"}

    def post(path, body):
        answer = client.post(path, json.dumps(body), content_type="application/json", headers=headers)
        assert answer.status_code == 200, answer.content
        return answer.json()

    engine.says("Five.")
    completion = post("/v1/chat/completions", {"messages": [{"role": "user", "content": "2 + 2?"}]})
    turn = Turn.objects.get(completion_id=completion["id"])
    assert became(turn)["stage"] == "served"
    said = {"id": completion["id"], "exit_code": 1, "output": "assert 5 == 4", "thumb": "down", "tags": ["wrong"]}
    assert post("/v1/feedback", said)["learning"]["stage"] == "judging"
    assert post("/v1/feedback", {"id": completion["id"], "thumb": None})["learning"]["stage"] == "judging"

    renderer = Renderer.for_model(tiny_model)
    assert verdicts.judge(str(turn.pk), who=judges.judge(), engine=engine, renderer=renderer, recipe=Recipe())

    told = became(turn)
    assert (told["stage"], told["sample"]["place"], told["reason"]) == ("batch", 1, None)
    assert (told["verdict"]["reward"], told["verdict"]["reward_from"]) == (-1, "test")
    assert told["detail"].startswith("Judged bad by a test. It is a lesson. 1 of 16 lessons.")
    assert post("/v1/feedback", said | {"thumb": "up", "tags": []})["learning"]["stage"] == "judging"


def test_other_peoples_turns_are_not_there(make_turn, get, operator):
    turn = make_turn("served")
    _, secret = ApiKey.objects.issue(operator, "mine")
    for completion_id, secret_used in ((turn.completion_id, secret), ("chatcmpl-unknown", None), ("%00", None)):
        path = f"/v1/completions/{completion_id}/learning"
        answer = get(path, secret_used) if secret_used else get(path)
        assert (answer.status_code, answer.json()["error"]["code"]) == (404, "completion_not_found")


def test_a_persons_other_key_may_ask(make_turn, get, talker):
    _, secret = ApiKey.objects.issue(talker, "other")
    assert get(f"/v1/completions/{make_turn('served').completion_id}/learning", secret).status_code == 200


def test_every_answer_is_json_that_a_client_can_read_whatever_the_turn_holds(make_turn, became):
    turn = make_turn("judged", next_state=[{"content": "no role"}], rule="</script>")
    Judgement.objects.create(turn=turn, hint="\ufffd</script>", reason="x" * 200)
    json.dumps(became(turn))


def test_the_page_about_it_names_every_reason_and_every_stage():
    page = (ROOT / "docs" / "reference" / "feedback.md").read_text()
    stages = api_shapes.Far.model_fields["stage"].annotation.__args__
    for word in (*api_shapes.CODES, *stages, *api_shapes.Learning.model_fields, *reasons.KNOWN):
        assert f"`{word}`" in page, word


# Sessions


@pytest.fixture
def session(talker, key) -> Session:
    session = Session.objects.create(user=talker, key=key, external_id="agent:main/x")
    for position, status in enumerate(("served", "observed", "closed")):
        Turn.objects.create(
            session=session, position=position, status=status, checkpoint=Checkpoint.live(),
            messages=[{"role": "user", "content": "hi"}], finish_reason="stop", response_ids=[1],
        )  # fmt: skip
    return session


@pytest.mark.parametrize("name", ["agent:main/x", "agent:main%2Fx", "id"])
def test_a_session_tells_how_far_its_turns_have_come(session, get, name):
    answer = get(f"/v1/sessions/{session.pk if name == 'id' else name}").json()
    assert (answer["id"], answer["name"], answer["closed_at"]) == (str(session.pk), "agent:main/x", None)
    assert [turn["stage"] for turn in answer["turns"]] == ["closed", "judging", "served"]
    assert {turn["id"] for turn in answer["turns"]} == set(session.turns.values_list("completion_id", flat=True))


def test_a_long_session_shows_its_newest_turns(session, get, monkeypatch):
    monkeypatch.setattr(learning_api, "MOST_TURNS", 2)
    assert [turn["stage"] for turn in get(f"/v1/sessions/{session.pk}").json()["turns"]] == ["closed", "judging"]


def test_a_session_of_another_key_is_not_there(session, get, talker, operator):
    for person in (talker, operator):
        _, secret = ApiKey.objects.issue(person, "other")
        answer = get(f"/v1/sessions/{session.pk}", secret)
        assert (answer.status_code, answer.json()["error"]["code"]) == (404, "session_not_found")

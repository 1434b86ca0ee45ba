"""Feedback by completion id."""

from __future__ import annotations

import json

import pytest
from asgiref.sync import sync_to_async

from chat.api_keys import ApiKey
from chat.models import Turn
from feedback.models import Feedback, Receipt

pytestmark = pytest.mark.django_db(transaction=True, serialized_rollback=True)

NOTHING = {
    "thumb": None,
    "tags": [],
    "comment": None,
    "marks": [],
    "correction": None,
    "guidance": None,
    "verdict": None,
    "exit_code": None,
    "output": None,
}


@pytest.fixture
def say(async_client, key, turn):
    async def say(secret=key.secret, retry="", **body):
        body = {"completion_id": turn.completion_id} | body
        headers = {"Authorization": f"Bearer {secret}"} | ({"Idempotency-Key": retry} if retry else {})
        return await async_client.post(
            "/v1/feedback", json.dumps(body).encode(), content_type="application/json", headers=headers
        )

    return say


def stands(answer) -> dict:
    """What an answer says that stands, without what is nothing."""
    assert answer.status_code == 200, answer.content
    return {name: value for name, value in answer.json().items() if name in NOTHING and value != NOTHING[name]}


async def test_what_is_said_stands_as_the_answer_says(say, turn):
    answer = await say(
        thumb="down",
        tags=["too_long", "my own"],
        correction=" Four. ",
        guidance="Do the sum.",
        verdict="failed",
        exit_code=1,
        output="5 != 4",
    )
    assert answer.status_code == 200
    learning = answer.json()["learning"]
    assert (learning["stage"], learning["label"]) == ("judging", "being judged")
    assert answer.json() == {
        "object": "feedback",
        "completion_id": turn.completion_id,
        "thumb": "down",
        "tags": ["too long", "my own"],
        "comment": None,
        "marks": [],
        "correction": "Four.",
        "guidance": "Do the sum.",
        "verdict": "failed",
        "exit_code": 1,
        "output": "5 != 4",
        "learning": learning,
    }
    assert await Feedback.objects.standing().acount() == 4


async def test_the_id_of_an_answer_may_be_called_as_it_is_there(async_client, key, turn):
    answer = await async_client.post(
        "/v1/feedback",
        json.dumps({"id": turn.completion_id, "thumb": "up"}).encode(),
        content_type="application/json",
        headers={"Authorization": f"Bearer {key.secret}"},
    )
    assert stands(answer) == {"thumb": "up"}


async def test_the_same_again_changes_nothing(say, turn):
    body = {"thumb": "up", "tags": ["tone"], "verdict": "passed", "output": "ok", "guidance": "Go on."}
    answers = [(await say(**body)).json() for _ in range(2)]
    assert answers[0] == answers[1]
    assert await Feedback.objects.acount() == 3
    assert (await Turn.objects.aget()).status == Turn.Status.OBSERVED


@pytest.mark.parametrize("nothing", [None, "none"])
async def test_a_thumb_is_taken_back_with_its_reasons(say, nothing):
    await say(thumb="up", tags=["tone"], guidance="Be brief.")
    assert stands(await say(thumb=nothing)) == {"guidance": "Be brief."}
    assert stands(await say(thumb="up")) == {"thumb": "up", "guidance": "Be brief."}


@pytest.mark.parametrize("nothing", [None, "", "  "])
@pytest.mark.parametrize("field", ["correction", "guidance"])
async def test_a_correction_is_taken_back(say, field, nothing):
    await say(**{field: "Four."})
    assert stands(await say(**{field: nothing})) == {}


async def test_everything_is_taken_back_at_once(say):
    await say(thumb="down", tags=["wrong"], correction="Four.", guidance="Do the sum.", verdict="failed")
    assert stands(await say(withdraw=True)) == {}
    assert not await Feedback.objects.standing().aexists()
    assert stands(await say(withdraw=True)) == {}


async def test_reasons_stay_with_their_thumb_and_go_with_it(say):
    await say(thumb="down", tags=["too long", "Too-Long", " tone\n"])
    assert stands(await say(thumb="down")) == {"thumb": "down", "tags": ["too long", "tone"]}
    assert stands(await say(tags=["wrong"])) == {"thumb": "down", "tags": ["wrong"]}
    assert stands(await say(thumb="up")) == {"thumb": "up"}
    await say(thumb="down", tags=["wrong"])
    assert stands(await say(tags=None)) == {"thumb": "down"}


async def test_reasons_without_a_thumb_have_nothing_to_be_the_reason_of(say):
    answer = await say(tags=["wrong"])
    assert (answer.status_code, answer.json()["error"]["code"]) == (400, "thumb_missing")
    assert stands(await say(tags=[])) == {}


@pytest.mark.parametrize(
    ("said", "verdict"),
    [
        ({"verdict": "passed"}, "passed"),
        ({"verdict": "failed"}, "failed"),
        ({"exit_code": 0}, "passed"),
        ({"exit_code": 1}, "failed"),
        ({"exit_code": -9}, "failed"),
        ({"exit_code": 3221225477}, "failed"),
        ({"verdict": "passed", "exit_code": 5}, "passed"),  # the word decides where there is one
    ],
)
async def test_a_tests_word_or_else_its_exit_code_decides(say, said, verdict):
    answer = stands(await say(**said))
    assert answer["verdict"] == verdict
    assert answer.get("exit_code") == said.get("exit_code")


async def test_a_tests_verdict_changes_and_is_taken_back(say):
    await say(verdict="failed", output="5 != 4", exit_code=1)
    assert stands(await say(verdict="failed")) == {"verdict": "failed", "output": "5 != 4", "exit_code": 1}
    assert stands(await say(verdict="passed")) == {"verdict": "passed", "output": ""}
    assert stands(await say(verdict=None)) == {}


async def test_of_a_long_output_the_end_is_kept(say):
    for _ in range(2):
        output = stands(await say(verdict="failed", output="x" * 9000 + "the end"))["output"]
        assert output.startswith("(1007 characters left out)\nxxx")
        assert output.endswith("the end")
    assert await Feedback.objects.acount() == 1


async def test_a_late_retry_does_not_undo_what_was_said_since(say):
    await say(thumb="up", retry="a")
    await say(thumb="down", retry="b")
    assert stands(await say(thumb="up", retry="a")) == {"thumb": "down"}
    await say(thumb=None, retry="c")
    assert stands(await say(thumb="down", retry="b")) == {}
    await say(thumb="up", retry="d")
    assert stands(await say(thumb=None, retry="c")) == {"thumb": "up"}
    assert await Receipt.objects.acount() == 4


async def test_a_retrys_key_belongs_to_one_request_of_one_key(say, ana):
    await say(thumb="up", retry="a")
    answer = await say(thumb="down", retry="a")
    assert (answer.status_code, answer.json()["error"]["code"]) == (409, "idempotency_key_reused")
    _, secret = await sync_to_async(ApiKey.objects.issue)(ana, "other")
    assert stands(await say(secret=secret, thumb="down", retry="a")) == {"thumb": "down"}


async def test_what_was_refused_may_be_sent_again_with_the_same_key(say, turn):
    await Turn.objects.aupdate(status=Turn.Status.ANSWERING)
    assert (await say(thumb="up", retry="a")).status_code == 409
    await Turn.objects.aupdate(status=Turn.Status.SERVED)
    assert stands(await say(thumb="up", retry="a")) == {"thumb": "up"}


async def test_a_reply_that_is_being_written_waits(say):
    await Turn.objects.aupdate(status=Turn.Status.ANSWERING)
    answer = await say(thumb="up", guidance="Be brief.")
    assert (answer.status_code, answer.json()["error"]["code"]) == (409, "reply_unfinished")
    assert "still being written" in answer.json()["error"]["message"]
    assert await Feedback.objects.acount() == 0


@pytest.mark.parametrize(
    ("fields", "label"), [({"line": "side"}, "side request"), ({"learns": False}, "off the record")]
)
async def test_feedback_on_what_never_teaches_is_kept_and_says_so(say, fields, label):
    await Turn.objects.aupdate(**fields)
    answer = await say(thumb="up")
    assert stands(answer) == {"thumb": "up"}
    assert (answer.json()["learning"]["stage"], answer.json()["learning"]["label"]) == ("unused", label)


@pytest.mark.parametrize(
    ("body", "status", "words"),
    [
        ({}, 400, "Give a thumb, marks, a correction, a guidance or a verdict, or withdraw"),
        ({"withdraw": False}, 400, "Give a thumb"),
        ({"withdraw": True, "thumb": "up"}, 400, "send it alone"),
        ({"thumb": "sideways"}, 400, "thumb"),
        ({"thumb": 1}, 400, "thumb"),
        ({"thumbs": "up"}, 400, "thumbs"),
        ({"thumb": "none", "tags": ["wrong"]}, 400, "tags go with a thumb"),
        ({"thumb": "down", "tags": "wrong"}, 400, "tags"),
        ({"thumb": "down", "tags": ["x" * 41]}, 400, "at most 40 characters"),
        ({"thumb": "down", "tags": [str(n) for n in range(13)]}, 400, "at most 12 tags"),
        ({"guidance": "x" * 8001}, 400, "guidance"),
        ({"verdict": "maybe"}, 400, "verdict"),
        ({"output": "ok"}, 400, "output goes with a verdict"),
        ({"exit_code": 2**40}, 400, "exit_code"),
        ({"thumb": "up", "completion_id": "chatcmpl-unknown"}, 404, "chatcmpl-unknown"),
        ({"thumb": "up", "completion_id": "\0"}, 404, "no completion"),
        ({"thumb": "up", "completion_id": 7}, 400, "completion_id"),
    ],
)
async def test_what_makes_no_sense_says_why(say, body, status, words):
    answer = await say(**body)
    assert answer.status_code == status
    assert words.lower() in answer.json()["error"]["message"].lower()
    assert await Feedback.objects.acount() == 0


async def test_a_request_is_carried_out_whole_or_not_at_all(say, monkeypatch):
    give = Feedback.objects.give

    def broken(turn, *, kind, **said):
        if kind == Feedback.Kind.VERDICT:
            raise RuntimeError("the lights went out")
        return give(turn, kind=kind, **said)

    monkeypatch.setattr(Feedback.objects, "give", broken)
    assert (await say(thumb="up", guidance="Be brief.", verdict="passed")).status_code == 500
    assert await Feedback.objects.acount() == 0


async def test_what_no_database_can_store_is_shown_as_a_sign(say):
    assert stands(await say(thumb="down", tags=["a\0b"], guidance="x\ud800y")) == {
        "thumb": "down",
        "tags": ["a\ufffdb"],
        "guidance": "x\ufffdy",
    }


async def test_another_persons_completion_is_not_there(say, ben):
    _, secret = await sync_to_async(ApiKey.objects.issue)(ben, "other")
    answer = await say(secret=secret, thumb="up")
    assert answer.status_code == 404
    assert await Feedback.objects.acount() == 0


async def test_a_key_that_is_not_for_feedback_gives_none(say, ana):
    _, secret = await sync_to_async(ApiKey.objects.issue)(ana, "chats only", scopes=["chat"])
    answer = await say(secret=secret, thumb="up")
    assert (answer.status_code, answer.json()["error"]["code"]) == (403, "insufficient_scope")
    assert await Feedback.objects.acount() == 0


async def test_words_are_marked_by_their_place_or_by_what_they_say(say, turn):
    await Turn.objects.filter(pk=turn.pk).aupdate(text="Two and two are five, and five it is.")
    answer = await say(marks=[{"start": 0, "end": 3, "good": True}, {"text": "five", "occurrence": 2, "good": False}])
    assert stands(answer) == {
        "marks": [
            {"start": 0, "end": 3, "text": "Two", "good": True},
            {"start": 26, "end": 30, "text": "five", "good": False},
        ]
    }
    assert (await Feedback.objects.aget()).spans == [[0, 3, 1], [26, 30, -1]]


async def test_marks_are_replaced_as_a_whole_and_the_later_of_two_that_overlap_wins(say):
    await say(marks=[{"text": "Five", "good": False}])
    answer = await say(marks=[{"text": "Five.", "good": True}, {"text": "ve", "good": False}])
    assert [(mark["text"], mark["good"]) for mark in stands(answer)["marks"]] == [
        ("Fi", True),
        ("ve", False),
        (".", True),
    ]
    before = await Feedback.objects.acount()
    await say(marks=[{"start": 0, "end": 5, "good": True}, {"start": 2, "end": 4, "good": False}])  # the same colouring
    assert await Feedback.objects.acount() == before


@pytest.mark.parametrize("nothing", [None, []])
async def test_marks_are_taken_back(say, turn, nothing):
    await say(marks=[{"text": "Five", "good": False}], thumb="down")
    assert stands(await say(marks=nothing)) == {"thumb": "down"}
    await turn.arefresh_from_db()
    assert turn.status == Turn.Status.OBSERVED


@pytest.mark.parametrize(
    ("mark", "status", "sentence"),
    [
        ({"start": 0, "end": 6, "good": True}, 400, "The reply has 5 characters; this mark ends at 6."),
        ({"start": 3, "end": 3, "good": True}, 400, "A mark has at least one character"),
        ({"text": "six", "good": True}, 400, "The reply does not say 'six'."),
        ({"text": "Five", "occurrence": 2, "good": True}, 400, "The reply says 'Five' 1 time, not 2."),
        ({"text": "", "good": True}, 400, "A mark quotes at least one character"),
        ({"good": True}, 400, "a mark says where by start and end, or by text"),
        ({"start": 0, "good": True}, 400, "a mark says where by start and end, or by text"),
        ({"start": 0, "end": 2, "text": "Fi", "good": True}, 400, "a mark says where by start and end, or by text"),
        ({"start": 0, "end": 2, "occurrence": 2, "good": True}, 400, "occurrence goes with text"),
        ({"text": "Five"}, 400, "good"),
        ({"start": -1, "end": 2, "good": True}, 400, "start"),
        ({"text": "Five", "good": True, "colour": "red"}, 400, "colour"),
    ],
)
async def test_a_mark_that_is_on_no_words_says_why(say, mark, status, sentence):
    answer = await say(thumb="up", marks=[mark])
    assert answer.status_code == status, answer.content
    assert sentence in answer.json()["error"]["message"]
    assert await Feedback.objects.acount() == 0  # the thumb neither: all or nothing


async def test_a_late_retry_marks_nothing_anew(say):
    await say(retry="one", marks=[{"text": "Five", "good": False}])
    await say(marks=None)
    assert stands(await say(retry="one", marks=[{"text": "Five", "good": False}])) == {}


async def test_a_comment_goes_with_a_thumb(say):
    assert stands(await say(thumb="up", comment=" Short and right. ")) == {"thumb": "up", "comment": "Short and right."}
    assert stands(await say(tags=["clear"])) == {"thumb": "up", "tags": ["clear"], "comment": "Short and right."}
    assert stands(await say(comment="")) == {"thumb": "up", "tags": ["clear"]}
    await say(comment="Right.")
    assert stands(await say(thumb="down")) == {"thumb": "down"}  # it spoke of the other one


async def test_a_comment_without_a_thumb_is_refused(say):
    answer = await say(comment="Fine.")
    assert (answer.status_code, answer.json()["error"]["code"]) == (400, "thumb_missing")
    answer = await say(thumb="none", comment="Fine.")
    assert "A comment goes with a thumb" in answer.json()["error"]["message"]
    assert await Feedback.objects.acount() == 0

"""Judges that answer on servers of others."""

from __future__ import annotations

import json

import pytest

from gpu_workers.engine.openai_chat import OpenAIChat
from judge.votes import judges, naming, polling, prompts
from judge.votes.chat_judge import ChatJudge
from judge.votes.evidence import Evidence
from judge.votes.judges import Ask
from tests.doubles.chat_server import server
from tests.judge.votes.polls import SEEN, asked

__all__ = ["server"]
USUAL = prompts.version()


@pytest.fixture(autouse=True)
def afresh():
    """No test knows what another's server refused."""
    ChatJudge._boxes.clear()
    naming.listed.cache_clear()


def test_an_outside_judge_is_one_setting_away(server, settings):
    settings.JUDGE_URL = server.url
    settings.JUDGE_MODEL, settings.JUDGE_API_KEY = "wise-1", "secret"
    (who,) = judges.panel()
    assert isinstance(who, ChatJudge)
    assert who.name == f"wise-1 at {server.url.removeprefix('http://')}"

    said = judges.ask([Ask(who, "score", SEEN), Ask(who, "score", SEEN)])

    assert [(one.text, one.tokens, one.prompt_tokens, one.cached_tokens, one.failure) for one in said] == [
        (r"They object. \boxed{-1}", 5, 90, 64, "")
    ] * 2
    path, key, body = server.asked[0]
    assert (path, key, body["model"], body["temperature"]) == ("/v1/chat/completions", "Bearer secret", "wise-1", 0.6)
    assert body["messages"][-1]["content"] == SEEN.text


@pytest.mark.django_db
def test_structured_output_is_asked_for_and_read(server):
    server.answer = lambda body: (
        200,
        json.dumps(
            {"reasoning": "A change.", "score": 1, "hint": "Add the numbers first."}
            if "hint" in body["response_format"]["json_schema"]["schema"]["properties"]
            else {"reasoning": "They object.", "score": -1}
        ),
    )
    who = ChatJudge(OpenAIChat(server.url, model="wise-1"))
    found = polling.finding(ballots := polling.poll(who, SEEN))
    assert (found.score.reward, found.hints) == (-1, ("Add the numbers first.",))
    assert {ballot.version for ballot in ballots} == {USUAL + "+json"}
    system = server.asked[0][2]["messages"][0]["content"]
    assert "Answer with JSON only" in system
    assert "boxed" not in json.dumps(server.asked[0][2]["messages"])


def test_structured_output_that_is_refused_is_asked_for_once(server):
    server.answer = lambda body: (
        (400, "response_format is not supported") if "response_format" in body else (200, r"\boxed{-1}")
    )
    server_ = OpenAIChat(server.url, model="wise-1")
    first, second = asked(ChatJudge(server_)), asked(ChatJudge(server_))
    assert (first.text, first.version, second.text) == (r"\boxed{-1}", USUAL, r"\boxed{-1}")
    assert ["response_format" in body for _, _, body in server.asked] == [True, False, False]


def test_a_server_with_less_room_than_said_is_asked_with_less_evidence(server):
    def narrow(body):
        length = sum(len(message["content"]) for message in body["messages"])
        return (400, "This model's maximum context length is 2048 tokens.") if length > 5000 else (200, r"\boxed{0}")

    server.answer = narrow
    much = "".join(f"{n:04} " for n in range(1800))
    long = Evidence((("user", much),), much, (("user", "No."),))
    assert asked(ChatJudge(OpenAIChat(server.url, model="m"), constrain=False), long).text == r"\boxed{0}"
    assert len(server.asked) > 1


def test_no_server_there_is_a_failure_with_its_reason(settings):
    said = asked(ChatJudge(OpenAIChat("http://127.0.0.1:9", model="unknown")))
    assert said.unreachable
    assert said.failure.startswith("unreachable: ")
    assert len(said.failure) <= 200

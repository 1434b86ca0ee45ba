"""`kill -9` of any process: nothing that was acknowledged to a person is lost, and nothing trains twice."""

from __future__ import annotations

import json
import os
import signal
import time

import httpx
import pytest

from benchmarks.stack import Stack, wait_for
from tests.kill.conftest import BATCH, Talk

pytestmark = [pytest.mark.processes, pytest.mark.timeout(600)]


def events(response: httpx.Response):
    for line in response.iter_lines():
        if line.startswith("data: ") and line != "data: [DONE]":
            yield json.loads(line[6:])


def streaming(talk: Talk, text: str):
    body = {"messages": [{"role": "user", "content": text}], "max_tokens": 1500, "stream": True}
    return talk.http.stream("POST", "/chat/completions", json=body)


def first_words(response: httpx.Response):
    """The completion's id once a first piece of the reply has reached the reader, and the rest of the events."""
    rest = events(response)
    for event in rest:
        if event["choices"] and event["choices"][0]["delta"].get("content"):
            return event["id"], rest
    raise AssertionError("the reply ended before it began")


def test_a_web_process_killed_in_mid_reply_leaves_a_closed_turn_and_a_free_engine(stack: Stack, talk: Talk):
    with streaming(talk, "Tell me a long story.") as response:
        completion, rest = first_words(response)
        stack.kill("web")
        with pytest.raises(httpx.HTTPError):
            list(rest)

    def is_free() -> bool:
        auth = {"Authorization": f"Bearer {stack.environment['ENGINE_API_KEY']}"}
        metrics = httpx.get(f"{stack.environment['ENGINE_URL']}/metrics", headers=auth, timeout=10).text
        running = [line for line in metrics.splitlines() if line.startswith("sglang:num_running_reqs")]
        return bool(running) and all(float(line.rpartition(" ")[2]) == 0 for line in running)

    wait_for("the engine has let the reader's slot go", is_free, 60)
    stack.start("web")
    wait_for("the web is back", stack.ready)
    # At the next sweep, though it is silent for a few seconds only: what was asked is kept.
    wait_for("the sweep has closed the reply", lambda: talk.turn(completion)["status"] == "closed", 40)
    turn = talk.turn(completion)
    assert turn["finish_reason"] == "error"
    assert "try again" in turn["error"]
    assert talk.ask("Hello?")["choices"][0]["finish_reason"] == "stop"


def test_a_retry_after_web_was_killed_in_mid_reply_is_answered_at_once(stack: Stack, talk: Talk):
    asked = {"messages": [{"role": "user", "content": "Tell me a third long story."}], "max_tokens": 1500}
    named = {"Idempotency-Key": "killed"}
    with talk.http.stream("POST", "/chat/completions", json=asked | {"stream": True}, headers=named) as response:
        completion, rest = first_words(response)
        stack.kill("web")
        with pytest.raises(httpx.HTTPError):
            list(rest)
    stack.start("web")
    wait_for("the web is back", lambda: httpx.get(f"{stack.url}/healthz", timeout=5).status_code == 200)

    began = time.monotonic()
    with talk.http.stream("POST", "/chat/completions", json=asked | {"stream": True}, headers=named) as response:
        again, _ = first_words(response)
    # A silence would take a minute to tell; a busy machine takes some seconds for the first words.
    assert time.monotonic() - began < 30
    assert again == completion


def test_an_engine_killed_in_mid_reply_costs_time_and_no_reply(stack: Stack, talk: Talk):
    with streaming(talk, "Tell me another long story.") as response:
        completion, rest = first_words(response)
        stack.kill("engine")
        stack.start("engine")
        told = list(rest)
    assert not any("error" in event for event in told)
    assert talk.turn(completion)["status"] == "served"
    marks, ids, logprobs = talk.rows(
        "SELECT marks, response_ids, logprobs FROM chat_turn WHERE completion_id = ?", completion
    )[0]
    assert json.loads(marks) == ["resumed"]
    assert len(json.loads(ids)) == len(json.loads(logprobs)) > 0
    assert talk.ask("Are you back?")["choices"][0]["finish_reason"] == "stop"


def assert_that_it_is_judged_once(talk: Talk, completion: str) -> None:
    talk.a_while_later()
    wait_for("the turn is judged", lambda: talk.turn(completion)["status"] == "judged", 120)
    assert talk.turn(completion)["judgements"] == 1
    assert samples_of(talk, completion) == ["ready"]


def test_feedback_given_while_redis_is_gone_is_learned_from_all_the_same(stack: Stack, talk: Talk):
    completion = talk.ask("What is a fox?")["id"]
    stack.kill("redis")

    talk.say(completion, thumb="up")  # acknowledged, with no worker to nudge

    assert talk.turn(completion)["status"] == "observed"
    stack.start("redis")
    wait_for("the workers are back", stack.ready)
    assert_that_it_is_judged_once(talk, completion)


def test_a_judge_killed_at_work_leaves_one_verdict_and_one_sample(stack: Stack, talk: Talk):
    completion = talk.ask("What is a dog?")["id"]
    os.kill(stack.running["engine"].pid, signal.SIGSTOP)  # so that the judge is caught while it waits for log-probs
    try:
        talk.say(completion, guidance="Answer in one short sentence.")
        wait_for("the judge is at work", lambda: talk.one("SELECT count(*) FROM judge_sitting"), 60)
        stack.kill("judge")
    finally:
        os.kill(stack.running["engine"].pid, signal.SIGCONT)
    assert talk.turn(completion)["status"] == "observed"

    stack.start("judge")
    wait_for("the judge is back", stack.ready)
    assert_that_it_is_judged_once(talk, completion)


def test_a_judge_killed_in_mid_vote_leaves_one_verdict(stack: Stack, talk: Talk):
    first = {"role": "user", "content": "What is a cat?"}
    answer = talk.ask("What is a cat?")
    completion, reply = answer["id"], answer["choices"][0]["message"]
    # The message that continues it is served first, so that the engine can be stopped for the votes alone.
    os.kill(stack.running["judge"].pid, signal.SIGSTOP)
    talk.ask("", messages=[first, {"role": "assistant", "content": reply["content"]}, {**first, "content": "Shorter."}])
    assert talk.turn(completion)["status"] == "observed"
    os.kill(stack.running["engine"].pid, signal.SIGSTOP)
    try:
        os.kill(stack.running["judge"].pid, signal.SIGCONT)
        wait_for("the judge is at work", lambda: talk.one("SELECT count(*) FROM judge_sitting"), 60)
        stack.kill("judge")
    finally:
        os.kill(stack.running["engine"].pid, signal.SIGCONT)

    stack.start("judge")
    wait_for("the judge is back", stack.ready)
    talk.a_while_later()
    wait_for("the turn is judged", lambda: talk.turn(completion)["status"] == "judged", 180)
    assert talk.turn(completion)["judgements"] == 1
    votes = talk.one("SELECT count(*) FROM judge_vote WHERE turn_id = ?", talk.turn(completion)["id"])
    assert votes >= 3


def test_a_learner_killed_in_mid_run_trains_every_sample_once(stack: Stack, talk: Talk):
    ready = talk.one("SELECT count(*) FROM training_sample WHERE status = 'ready'")
    for number in range(BATCH - ready):
        talk.say(talk.ask(f"What is the number {number}?")["id"], guidance="Say it in words.")
    wait_for("a run is learning", lambda: talk.rows("SELECT id FROM training_run WHERE status = 'running'"), 180)
    claimed = talk.rows("SELECT id FROM training_sample WHERE status = 'claimed' ORDER BY id")
    stack.kill("learn")
    assert len(claimed) == BATCH
    assert talk.one("SELECT count(*) FROM training_checkpoint WHERE number > 0") == 0
    assert talk.rows("SELECT id FROM training_sample WHERE status = 'claimed' ORDER BY id") == claimed

    stack.start("learn")
    talk.a_while_later()
    wait_for("the run is over", lambda: talk.one("SELECT status FROM training_run") in ("finished", "failed"), 300)

    assert talk.rows("SELECT status, attempts FROM training_run") == [("finished", 2)], stack.log("learn")
    assert talk.rows("SELECT id FROM training_sample WHERE status = 'trained' ORDER BY id") == claimed
    assert talk.one("SELECT count(*) FROM training_checkpoint WHERE number > 0") == 1
    assert talk.one("SELECT count(*) FROM training_sample WHERE status = 'claimed'") == 0
    folders = list((stack.data_dir / "checkpoints").iterdir())
    assert len(folders) == 1  # what the first attempt may have written was cleared


def test_an_examiner_killed_at_work_comes_to_one_result(stack: Stack, talk: Talk):
    def status() -> str:
        return str(talk.one("SELECT status FROM training_checkpoint WHERE number = 1"))

    if status() == "candidate":
        stack.kill("judge")
        stack.start("judge")
        wait_for("the judge is back", stack.ready)
        talk.a_while_later()
        talk.rows("UPDATE training_checkpoint SET moved_at = datetime(moved_at, '-10 minutes') WHERE number = 1")
    wait_for("the exam is over", lambda: status() in ("passed", "rejected"), 240)
    assert talk.one("SELECT count(*) FROM judge_examination") == 1
    assert talk.one("SELECT finished_at IS NOT NULL FROM judge_examination") == 1


def test_after_all_of_it_every_acknowledged_word_stands(stack: Stack, talk: Talk):
    given = talk.one("SELECT count(*) FROM feedback_feedback WHERE withdrawn_at IS NULL")
    assert given == talk.one(
        "SELECT count(*) FROM feedback_feedback f JOIN judge_judgement j ON j.turn_id = f.turn_id"
        " WHERE f.withdrawn_at IS NULL"
    )
    twice = "SELECT response_ids, prompt_ids, count(*) FROM training_sample WHERE status = 'trained' GROUP BY 1, 2"
    assert all(count == 1 for _, _, count in talk.rows(twice))


def samples_of(talk: Talk, completion: str) -> list[str]:
    """The states of the samples that hold this turn's prompt and reply, which two columns may space in two ways."""
    return [
        status
        for (status,) in talk.rows(
            "SELECT s.status FROM training_sample s JOIN chat_turn t"
            " ON json(s.prompt_ids) = json(t.prompt_ids) AND json(s.response_ids) = json(t.response_ids)"
            " WHERE t.completion_id = ?",
            completion,
        )
    ]

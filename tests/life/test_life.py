"""The whole life of a lesson on the real small model: talk, correct, judge, learn, approve, swap, undo."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pytest

from benchmarks.stack import Stack, running_stack, wait_for

# make test plays the same life by clicking, in tests/browser; this one needs no browser, and runs with make test-all.
pytestmark = [pytest.mark.real_model, pytest.mark.processes, pytest.mark.timeout(900)]

GUIDANCE = "Answer in one short sentence."
BATCH = 4
QUESTIONS = (
    "What is the capital of France?",
    "Say hello to my friend Anna.",
    "What colour is the sky?",
    "Name one animal that can fly.",
    "What do bees make?",
    "Thank you for your help!",
    "How many legs does a dog have?",
    "What is two plus three?",
    "Name a fruit that is red.",
    "Good morning!",
)


@pytest.fixture(scope="module")
def stack(smol_model: Path, tmp_path_factory: pytest.TempPathFactory):
    with running_stack(tmp_path_factory.mktemp("life"), smol_model, recipe={"batch_size": BATCH}) as stack:
        yield stack


@pytest.fixture(scope="module")
def client(stack: Stack):
    key = stack.manage("create_key", "--name", "life").strip().splitlines()[-1]
    with httpx.Client(base_url=f"{stack.url}/v1", headers={"Authorization": f"Bearer {key}"}, timeout=120) as client:
        yield client


def ask(client: httpx.Client, question: str) -> dict:
    """One reply of at most 160 tokens, as any OpenAI client asks for it."""
    body = {"messages": [{"role": "user", "content": question}], "max_tokens": 160, "temperature": 0.7, "seed": 3}
    answer = client.post("/chat/completions", json=body)
    assert answer.status_code == 200, answer.text
    return dict(answer.json())


def test_a_dozen_words_of_guidance_become_weights_that_answer_and_can_be_undone(
    stack: Stack, client: httpx.Client
) -> None:
    # talk and correct: the base model answers, and four whole replies are told what to do next time
    taught = 0
    for question in QUESTIONS:
        reply = ask(client, question)
        assert reply["model"] == "talkback@0"
        if reply["choices"][0]["finish_reason"] == "stop":  # one that was cut off would never train
            said = client.post("/feedback", json={"completion_id": reply["id"], "guidance": GUIDANCE})
            assert said.status_code == 200, said.text
            taught += 1
        if taught == BATCH:
            break
    assert taught == BATCH

    # judge and learn: four samples make a batch, a run makes a candidate, the gate examines it
    def board_when(claim: str, look: Callable[[dict[str, Any]], bool], deadline_s: float) -> dict[str, Any]:
        return wait_for(
            claim, lambda: next((board for board in [stack.board()] if look(board)), None), deadline_s, every_s=2
        )

    board = board_when("the run is over", lambda board: board["runs"]["finished"] + board["runs"]["failed"] == 1, 400)
    assert board["runs"]["failed"] == 0, stack.log("learn")
    assert board["samples"]["trained"] == BATCH
    board = board_when("the gate has spoken", lambda board: not board["checkpoints"]["candidate"], 300)
    assert board["checkpoints"]["passed"] == 1, stack.manage("checkpoints", "list")
    assert ask(client, QUESTIONS[0])["model"] == "talkback@0"  # no operator has said yes

    # approve and swap: the next reply is by the new weights, and says so
    stack.manage("checkpoints", "approve", "1")
    board_when("checkpoint 1 is live", lambda board: board["live"] == 1, 60)
    taught = ask(client, "What is a glacier?")
    assert taught["model"] == "talkback@1"

    # undo: one command, and the base answers the next request just as it did before
    stack.manage("checkpoints", "rollback")
    undone = ask(client, "What is a glacier?")
    assert undone["model"] == "talkback@0"
    assert undone["choices"][0]["message"]["content"] != taught["choices"][0]["message"]["content"]

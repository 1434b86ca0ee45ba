"""The whole life of a lesson on the real small model: talk, correct, judge, learn, approve, swap, undo."""

from __future__ import annotations

from pathlib import Path

import httpx
import pytest

from tests.stack import Stack, running_stack, wait_for

pytestmark = [pytest.mark.real_model, pytest.mark.timeout(900)]

GUIDANCE = "Answer in one short sentence."
QUESTIONS = (
    "What is a rainbow?",
    "Why do cats purr?",
    "What does a compiler do?",
    "How do bees make honey?",
)


@pytest.fixture(scope="module")
def stack(smol_model: Path, tmp_path_factory: pytest.TempPathFactory):
    with running_stack(tmp_path_factory.mktemp("life"), smol_model, recipe={"batch_size": len(QUESTIONS)}) as stack:
        yield stack


@pytest.fixture(scope="module")
def client(stack: Stack):
    key = stack.manage("create_key", "--name", "life").strip().splitlines()[-1]
    with httpx.Client(base_url=f"{stack.url}/v1", headers={"Authorization": f"Bearer {key}"}, timeout=120) as client:
        yield client


def ask(client: httpx.Client, question: str) -> dict:
    """One reply of at most 96 tokens, greedy, as any OpenAI client asks for it."""
    body = {"messages": [{"role": "user", "content": question}], "max_tokens": 96, "temperature": 0.7, "seed": 3}
    answer = client.post("/chat/completions", json=body)
    assert answer.status_code == 200, answer.text
    return dict(answer.json())


def test_a_dozen_words_of_guidance_become_weights_that_answer_and_can_be_undone(
    stack: Stack, client: httpx.Client
) -> None:
    # talk and correct: the base model answers, each reply is told what to do next time
    for question in QUESTIONS:
        reply = ask(client, question)
        assert reply["model"] == "talkback@0"
        said = client.post("/feedback", json={"completion_id": reply["id"], "guidance": GUIDANCE})
        assert said.status_code == 200, said.text

    # judge and learn: four samples make a batch, a run makes a candidate, the gate examines it
    wait_for("the run is over", lambda: stack.board()["runs"]["finished"] == 1 or stack.board()["runs"]["failed"], 400)
    board = stack.board()
    assert board["runs"]["failed"] == 0, stack.log("learn")
    assert board["samples"]["trained"] == len(QUESTIONS)
    wait_for("the gate has spoken", lambda: stack.board()["checkpoints"]["candidate"] == 0, 300)
    assert stack.board()["checkpoints"]["passed"] == 1, stack.manage("checkpoints", "list")
    assert ask(client, QUESTIONS[0])["model"] == "talkback@0"  # nobody has said yes

    # approve and swap: the next reply is by the new weights, and says so
    stack.manage("checkpoints", "approve", "1")
    wait_for("checkpoint 1 is live", lambda: stack.board()["live"] == 1, 60)
    taught = ask(client, "What is a glacier?")
    assert taught["model"] == "talkback@1"

    # undo: one command, and the base answers the next request just as it did before
    stack.manage("checkpoints", "rollback")
    undone = ask(client, "What is a glacier?")
    assert undone["model"] == "talkback@0"
    assert undone["choices"][0]["message"]["content"] != taught["choices"][0]["message"]["content"]

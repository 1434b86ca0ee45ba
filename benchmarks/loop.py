"""The loop as a person feels it, on the real small model and real processes.

    python -m benchmarks.loop [--json] [--samples 16]

Prints the time to the first token through the web beside the engine asked directly (same prompt, in turn), the
seconds from the last feedback of a batch to its candidate, to the gate's word, and from approval to the first token
of the new weights.
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx

from benchmarks.stack import ROOT, Stack, running_stack, wait_for
from core import pipes

MODEL = ROOT / "var" / "models" / "smollm2-135m-instruct"
GUIDANCE = "Answer in one or two short sentences."
TOPICS = ("rain", "bees", "bridges", "bread", "tides", "clocks", "salt", "owls", "glass", "maps", "steam", "moss")


@contextmanager
def talking_to(stack: Stack) -> Iterator[httpx.Client]:
    key = stack.manage("create_key", "--name", "bench").strip().splitlines()[-1]
    with httpx.Client(base_url=f"{stack.url}/v1", headers={"Authorization": f"Bearer {key}"}, timeout=300) as client:
        yield client


def first_token_s(client: httpx.Client, path: str, body: dict[str, Any], has_text: Any) -> float:
    """Seconds from the request to the first chunk that carries text."""
    start = time.perf_counter()
    with client.stream("POST", path, json=body) as answer:
        answer.raise_for_status()
        for line in answer.iter_lines():
            if line.startswith("data: {") and has_text(json.loads(line[6:])):
                return time.perf_counter() - start
    raise RuntimeError(f"{path} ended without a token")


def time_first_tokens(stack: Stack, client: httpx.Client, rounds: int) -> dict[str, float]:
    """Median seconds to the first token, through the web and from the engine, asked in turn."""
    from chat.rendering.renderer import Renderer

    renderer = Renderer.for_model(stack.model)
    direct, through = [], []
    bearer = {"Authorization": f"Bearer {stack.environment['ENGINE_API_KEY']}"}
    with httpx.Client(base_url=f"http://127.0.0.1:{stack.engine_port}", headers=bearer, timeout=300) as engine:
        for number in range(rounds + 1):
            for name in ("direct", "web"):
                messages = [{"role": "user", "content": f"{name} {number}: tell me about {TOPICS[number % 12]}."}]
                if name == "web":
                    body = {"messages": messages, "stream": True, "max_tokens": 4}
                    took = first_token_s(
                        client,
                        "/chat/completions",
                        body,
                        lambda chunk: chunk["choices"] and chunk["choices"][0]["delta"].get("content"),
                    )
                    through.append(took)
                else:
                    body = {"input_ids": renderer.prompt_ids(messages), "stream": True}
                    body["sampling_params"] = {"max_new_tokens": 4, "temperature": 0.7}
                    direct.append(first_token_s(engine, "/generate", body, lambda chunk: chunk.get("text")))
    return {  # the first round warms both up
        "first_token_direct_s": statistics.median(direct[1:]),
        "first_token_web_s": statistics.median(through[1:]),
    }


def time_lesson(stack: Stack, client: httpx.Client, samples: int) -> dict[str, float]:
    """Seconds of each leg of one lesson, from the last feedback to the first token of the new weights."""
    for number in range(samples):
        content = f"Tell me something about {TOPICS[number % 12]}" + ("." if number < 12 else ", please.")
        body = {"messages": [{"role": "user", "content": content}], "max_tokens": 110, "seed": number}
        answer = client.post("/chat/completions", json=body).raise_for_status().json()
        said = {"completion_id": answer["id"], "guidance": GUIDANCE}
        client.post("/feedback", json=said).raise_for_status()
    start = time.perf_counter()
    wait_for("there is a candidate", lambda: sum(stack.board()["checkpoints"].values()) > 1, 900, every_s=1)
    candidate_s = time.perf_counter() - start
    wait_for("the gate has spoken", lambda: not stack.board()["checkpoints"]["candidate"], 900, every_s=1)
    gate_s = time.perf_counter() - start - candidate_s
    figures = {"feedback_to_candidate_s": candidate_s, "gate_s": gate_s}
    if stack.board()["checkpoints"]["passed"]:
        start = time.perf_counter()
        stack.manage("checkpoints", "approve", "1")

        def answered_by_new() -> bool:
            body = {"messages": [{"role": "user", "content": "Hello?"}], "max_tokens": 1}
            return bool(client.post("/chat/completions", json=body).json()["model"].endswith("@1"))

        wait_for("the new weights answer", answered_by_new, 120)
        figures["approval_to_first_token_s"] = time.perf_counter() - start  # the command's own start-up included
    return figures


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", type=Path, default=MODEL)
    parser.add_argument("--samples", type=int, default=16)
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    recipe = {"batch_size": arguments.samples}
    with (
        tempfile.TemporaryDirectory() as folder,
        running_stack(Path(folder), arguments.model, recipe) as stack,
        talking_to(stack) as client,
    ):
        figures = time_first_tokens(stack, client, arguments.rounds) | time_lesson(stack, client, arguments.samples)
    if arguments.json:
        print(json.dumps(figures))
    else:
        for name, value in figures.items():
            print(f"{name:28} {value:8.3f}")


if __name__ == "__main__":
    pipes.end_with_reader()
    main()

"""A terminal task, the real API with a scripted engine, and harnesses of a few lines."""

from __future__ import annotations

from pathlib import Path

import pytest
from asgiref.sync import sync_to_async
from django.conf import settings

from chat.rendering.renderer import renderer
from environments.worlds.harbor import checking
from environments.worlds.harbor.world import Harbor
from environments.worlds.harnesses.visit import Harness
from environments.worlds.player import Way, play
from gpu_workers import engines
from judge import steps
from judge.votes import judges
from tests.environments.worlds.harbor.made import task
from training.config import Recipe
from training.models import Sample

ASK = """
import json, os, urllib.request
def ask(messages, **more):
    body = {"model": os.environ["TALKBACK_MODEL"], "max_tokens": 96, "messages": messages} | more.pop("body", {})
    head = {"Authorization": "Bearer " + os.environ["OPENAI_API_KEY"], "Content-Type": "application/json"} | more
    url = os.environ["OPENAI_BASE_URL"] + "/chat/completions"
    opened = urllib.request.urlopen(urllib.request.Request(url, json.dumps(body).encode(), head))
    return json.load(opened)["choices"][0]["message"]["content"]
def user(text): return {"role": "user", "content": text}
def said(text): return {"role": "assistant", "content": text}
"""
LOOP = (
    ASK
    + """
import subprocess
history = [user(open(os.environ["TALKBACK_TASK_FILE"]).read())]
while True:
    command = ask(history)
    if command == "done": break
    ran = subprocess.run(["bash", "-c", command], capture_output=True, text=True)
    history += [said(command), user(f"Exit code: {ran.returncode}")]
"""
)
"""Runs what the model says until it says done."""


@sync_to_async
def judged(played) -> list[Sample]:
    """The samples that an attempt's steps make when they are scored."""
    how = {"who": judges.judge(), "engine": engines.policy(), "renderer": renderer(settings.MODEL)}
    steps.judge(played.episode, **how, recipe=Recipe())
    return list(Sample.objects.filter(episode=played.episode).order_by("step"))


def python(program: str) -> str:
    """A harness of these lines."""
    return f"python3 -I - <<'END'\n{program}\nEND"


@pytest.fixture
def terminal(tmp_path, monkeypatch) -> Harbor:
    """One training task: write the word right to /app/answer.txt."""
    monkeypatch.setattr(checking, "CACHE", tmp_path / "cache")
    task(tmp_path / "tasks" / "train" / "one")
    return Harbor(tmp_path / "tasks", "bubblewrap")


@pytest.fixture
def plays(client, terminal):
    """Have a harness play the task, and give back each attempt."""

    async def plays(command: str, attempts: int = 1, night: str = "n", files: Path | None = None, **how):
        way = Way(night=night, harness=Harness(command, files, **how))
        return await play(client, terminal, terminal.tasks("train", 1, 0), attempts, way=way)

    return plays

"""Who is asked, and how an answer is waited for."""

from __future__ import annotations

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from gpu_workers.openai_chat import OpenAIChat
from judge import judges
from judge.judges import BaseJudge, OutsideJudge

QUESTION = [{"role": "system", "content": "Judge."}, {"role": "user", "content": "| It works."}]


@pytest.fixture
def server():
    """An OpenAI-compatible server on a free port that remembers what it was asked."""
    asked = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self):
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            asked.append((self.path, self.headers["Authorization"], body))
            choice = {"message": {"role": "assistant", "content": r"\boxed{1}"}, "finish_reason": "stop"}
            answer = json.dumps({"choices": [choice], "usage": {"completion_tokens": 5}}).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer)

        def log_message(self, *args):
            pass

    http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=http.serve_forever, daemon=True).start()
    http.asked = asked
    yield http
    http.shutdown()
    http.server_close()


def test_the_base_judges_unless_a_server_is_named(engine, renderer):
    who = judges.judge()
    assert isinstance(who, BaseJudge)
    assert who.name == "talkback@0"


def test_an_outside_judge_is_one_setting_away(server, monkeypatch, settings):
    settings.JUDGE_URL = f"http://127.0.0.1:{server.server_port}"
    settings.JUDGE_MODEL, settings.JUDGE_API_KEY = "wise-1", "secret"
    who = judges.judge()
    assert isinstance(who, OutsideJudge)
    assert who.name == f"wise-1 at 127.0.0.1:{server.server_port}"

    said = judges.ask(who, [QUESTION, QUESTION])

    assert [(answer.text, answer.tokens, answer.failure) for answer in said] == [(r"\boxed{1}", 5, "")] * 2
    path, key, body = server.asked[0]
    assert (path, key, body["model"], body["temperature"]) == ("/v1/chat/completions", "Bearer secret", "wise-1", 0.6)
    assert body["messages"] == QUESTION


def test_nobody_there_is_a_failure_with_its_reason(settings):
    who = OutsideJudge(OpenAIChat("http://127.0.0.1:9", model="nobody"))
    (said,) = judges.ask(who, [QUESTION])
    assert said.unreachable
    assert said.failure.startswith("unreachable: ")
    assert len(said.failure) <= 200

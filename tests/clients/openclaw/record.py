"""Record what the real client sends, scene by scene, for the tests that replay it without the client.

    .venv/bin/python -m tests.clients.openclaw.record [SCENE ...]

Writes recorded/SCENE.json. A server of our own answers the client from a script and keeps every request; machine
names, folders and long instructions are cut out. What each request is (`kind`), which earlier one's reply it answers
(`continues`) and with which words (`says`) is a reader's judgement, written in SCENES below, never the rules' own.
Run it for another version of the client, look at the difference, and correct the readings.
"""

from __future__ import annotations

import json
import re
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.stack import wait_for
from tests.clients.openclaw.install import VERSION
from tests.clients.openclaw.program import OpenClaw

FOLDER = Path(__file__).parent / "recorded"
PLUGIN = Path(__file__).resolve().parents[3] / "clients" / "openclaw"
KEPT_HEADERS = re.compile(r"user-agent|traceparent|session|x-turn-type|x-client-request-id|x-stainless-retry-count")
LONGEST = 700
"""Characters of an instruction or a description that are kept: its two ends."""

SUMMARY = """## Decisions
- The garden gets roses.
## Open TODOs
- None.
## Constraints/Rules
- None.
## Pending user asks
- None.
## Exact identifiers
- none"""


def call(name: str, **arguments: Any) -> dict[str, Any]:
    return {"name": name, "arguments": arguments}


ANSWERS: list[tuple[str, dict[str, Any]]] = [
    ("context summarization assistant", {"content": SUMMARY}),
    ("concise session title", {"content": "Rainbows explained"}),
    ("Activity recap", {"content": "Rainbows were explained."}),
    ("Pre-compaction memory flush|heartbeat monitor|reminder has been triggered", {"content": "NO_REPLY"}),
    ("Subagent Context", {"content": "Hello from the helper."}),
    ("background task completed", {"content": "The helper says hello."}),
    ("What is a rainbow", {"content": "A rainbow is sunlight, split by drops of rain.", "reasoning": "Light, rain."}),
    ("shorter", {"content": "Sunlight split by rain."}),
    (
        "Write forty-two",
        {
            "content": "Both at once.",
            "calls": [call("write", path="note.txt", content="forty-two"), call("exec", command="echo from-the-shell")],
        },
    ),
    ("read it back", {"calls": [call("read", path="note.txt")]}),
    ("Ask a helper", {"calls": [call("tool_call", id="sessions_spawn", args={"task": "Say hello."})]}),
    ("Tell me of", {"content": "They are grown in gardens. " * 110}),
]


class Recorder:
    """A model server that answers from ANSWERS and keeps what it was asked."""

    def __init__(self) -> None:
        self.requests: list[dict[str, Any]] = []
        self.failing: list[str] = []  # what goes wrong next: error, empty or cut
        self._lock = threading.Lock()
        recorder = self

        class Handler(BaseHTTPRequestHandler):
            def log_message(self, format: str, *arguments: Any) -> None:
                pass

            def do_GET(self) -> None:
                self.send_error(404)

            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["content-length"])))
                if "messages" in body:
                    recorder.answer(self, body)
                else:
                    self.send_error(404)

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}/v1"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def answer(self, handler: BaseHTTPRequestHandler, body: dict[str, Any]) -> None:
        headers = {name.lower(): value for name, value in handler.headers.items()}
        main = bool(body.get("tools"))
        with self._lock:
            answer = {"fails": self.failing.pop(0)} if main and self.failing else answered(body)
            number = len(self.requests)
            self.requests.append({"headers": headers, "body": body, "answer": answer})
        if answer.get("fails") == "error":
            handler.send_error(500)
            return
        handler.send_response(200)
        handler.send_header("Content-Type", "text/event-stream")
        handler.end_headers()

        def chunk(**delta: Any) -> None:
            finish = delta.pop("finish", None)
            event = {"id": f"chatcmpl-{number}", "object": "chat.completion.chunk", "created": 1, "model": "talkback"}
            event["choices"] = [{"index": 0, "delta": delta, "finish_reason": finish}]
            handler.wfile.write(f"data: {json.dumps(event)}\n\n".encode())

        chunk(role="assistant", content="")
        if reasoning := answer.get("reasoning"):
            chunk(reasoning_content=reasoning)
        if content := answer.get("content", "A first half" if answer.get("fails") == "cut" else None):
            chunk(content=content)
        if answer.get("fails") == "cut":
            return
        for index, function in enumerate(answer.get("calls", ())):
            asked = {"name": function["name"], "arguments": json.dumps(function["arguments"])}
            made = {"index": index, "id": f"call_{number}_{index}", "type": "function", "function": asked}
            chunk(tool_calls=[made])
        chunk(finish="tool_calls" if answer.get("calls") else "stop")
        prompt = len(json.dumps(body)) // 4
        counted = {"prompt_tokens": prompt, "completion_tokens": 10, "total_tokens": prompt + 10}
        usage = {"id": f"chatcmpl-{number}", "object": "chat.completion.chunk", "choices": [], "usage": counted}
        handler.wfile.write(f"data: {json.dumps(usage)}\n\n".encode())
        handler.wfile.write(b"data: [DONE]\n\n")


def text_of(message: dict[str, Any]) -> str:
    content = message.get("content") or ""
    return content if isinstance(content, str) else "\n".join(part.get("text", "") for part in content)


def answered(body: dict[str, Any]) -> dict[str, Any]:
    system, *_ = said = [text_of(message) for message in body["messages"]]
    told = [text for text in said if not text.startswith("<<<BEGIN_OPENCLAW_INTERNAL_CONTEXT>>>")]
    last = told[-1] if body.get("tools") else system
    for pattern, answer in ANSWERS:
        if re.search(pattern, last):
            return answer
    return {"content": f"I see. That makes {len(said)}."}


def configuration(url: str, *, lean: bool = False, **model: Any) -> dict[str, Any]:
    """As a person has it: the whole agent, or one that was trimmed for a small window."""
    entry = {"id": "talkback", "name": "talkback", "reasoning": True, "maxTokens": 1024}
    entry |= {"contextWindow": 8192 if lean else 65536} | model
    provider = {"baseUrl": url, "apiKey": "a-key", "api": "openai-completions", "models": [entry]}
    defaults: dict[str, Any] = {"model": {"primary": "talkback/talkback"}, "utilityModel": "talkback/talkback"}
    configuration: dict[str, Any] = {
        "models": {"mode": "replace", "providers": {"talkback": provider}},
        "agents": {"defaults": defaults},
    }
    if lean:
        configuration["tools"] = {"allow": ["read", "exec"], "toolSearch": False}
        defaults |= {"skipBootstrap": True, "contextInjection": "never", "skills": []}
    return configuration


# The scenes.


class Stage(NamedTuple):
    client: OpenClaw
    recorder: Recorder

    def until(self, count: int) -> None:
        """So many requests came: what the gateway does behind a reply's back is done."""
        wait_for(f"{count} requests", lambda: len(self.recorder.requests) >= count, 150)

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        printed = self.client.run("gateway", "call", method, "--params", json.dumps(parameters), "--json")
        return dict(json.loads(printed[printed.index("{") :]))


def chat(stage: Stage) -> None:
    for text in ("What is a rainbow?", "No, make it shorter.", "Thank you."):
        stage.client.says(text, session="chat")


def lean(stage: Stage) -> None:
    with stage.client.gateway():
        for text in ("What is a rainbow?", "No, make it shorter."):
            stage.client.says(text, session="small", local=False)


def tools(stage: Stage) -> None:
    with stage.client.gateway():
        for text in ("Write forty-two into note.txt.", "Now read it back.", "Thank you."):
            stage.client.says(text, session="tools", local=False)


def gateway(stage: Stage) -> None:
    with stage.client.gateway():
        stage.client.says("What is a rainbow?", session="desk", local=False)
        stage.until(3)
        stage.client.says("No, make it shorter.", session="desk", local=False)
        stage.until(5)


def dashboard(stage: Stage) -> None:
    with stage.client.gateway():
        stage.call("sessions.create", message="What is a rainbow?")
        stage.until(4)


def heartbeat(stage: Stage) -> None:
    with stage.client.gateway():
        stage.client.run("system", "event", "--mode", "now", "--text", "The door opened.")
        stage.until(2)
        stage.client.run("agent", "--agent", "main", "--message", "What is a rainbow?", "--json")
        stage.until(4)
        stage.client.run("agent", "--agent", "main", "--message", "No, make it shorter.", "--json")
        stage.until(6)


def reminder(stage: Stage) -> None:
    with stage.client.gateway():
        stage.client.run("agent", "--agent", "main", "--message", "What is a rainbow?", "--json")
        job = ["cron", "add", "--at", "5s", "--session", "main", "--wake", "now", "--name", "plants"]
        stage.client.run(*job, "--system-event", "Water the plants.")
        stage.until(2)
        stage.client.run("agent", "--agent", "main", "--message", "No, make it shorter.", "--json")


def cron(stage: Stage) -> None:
    with stage.client.gateway():
        job = ["cron", "add", "--at", "5s", "--session", "isolated", "--name", "clock", "--no-deliver"]
        stage.client.run(*job, "--message", "Say the time.")
        stage.until(1)


def helper(stage: Stage) -> None:
    with stage.client.gateway():
        stage.client.says("Ask a helper to say hello.", session="boss", local=False)
        stage.until(4)
        stage.client.says("Thank you.", session="boss", local=False)


def recovery(stage: Stage) -> None:
    with stage.client.gateway():
        for trouble, text in (("error", "What is a rainbow?"), ("empty", "And a cloud?"), ("cut", "And a star?")):
            stage.recorder.failing.append(trouble)
            stage.client.says(text, session="storm", local=False)
        stage.client.says("Thank you.", session="storm", local=False)


def compaction(stage: Stage) -> None:
    with stage.client.gateway():
        for flower in ("roses", "tulips", "lilies", "daisies", "poppies", "irises", "asters", "peonies", "violets"):
            stage.client.says(f"Tell me of {flower}.", session="garden", local=False)
            if any("context summarization" in text_of(r["body"]["messages"][0]) for r in stage.recorder.requests):
                break
        stage.client.says("Thank you.", session="garden", local=False)


def commands(stage: Stage) -> None:
    stage.client.run("plugins", "install", "--link", "--force", "--accept-capabilities", str(PLUGIN))
    stage.client.run("config", "set", "plugins.entries.talkback.hooks.allowConversationAccess", "true")
    with stage.client.gateway():
        for number, text in enumerate(("What is a rainbow?", "No, make it shorter.", "Thank you.")):
            stage.client.says(text, session="desk", local=False)
            key = "agent:main:explicit:desk"
            stage.call("chat.send", sessionKey=key, message="/bad Use fewer words.", idempotencyKey=f"command-{number}")


AFFINITY = {"compat": {"sendSessionAffinityHeaders": True, "supportsPromptCacheKey": True}}
ROUTED = {"compat": {"sendSessionAffinityHeaders": True, "openRouterRouting": {}}}


class Scene(NamedTuple):
    play: Callable[[Stage], None]
    model: dict[str, Any] = {}
    is_lean: bool = False
    has_recaps: bool = False


SCENES = {
    "chat": Scene(chat),
    "lean": Scene(lean, is_lean=True),
    "tools": Scene(tools),
    "gateway": Scene(gateway, AFFINITY, has_recaps=True),
    "dashboard": Scene(dashboard, has_recaps=True),
    "heartbeat": Scene(heartbeat, AFFINITY, has_recaps=True),
    "reminder": Scene(reminder),
    "cron": Scene(cron, AFFINITY),
    "helper": Scene(helper),
    "recovery": Scene(recovery),
    "compaction": Scene(compaction, ROUTED, is_lean=True),
    "commands": Scene(commands, is_lean=True),
}


def record(name: str) -> list[dict[str, Any]]:
    scene, recorder = SCENES[name], Recorder()
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        settings = configuration(recorder.url, lean=scene.is_lean, **scene.model)
        if not scene.has_recaps:
            del settings["agents"]["defaults"]["utilityModel"]
        if name == "compaction":
            settings["agents"]["defaults"]["compaction"] = {"keepRecentTokens": 400, "recentTurnsPreserve": 1}
        client = OpenClaw(home, settings)
        scene.play(Stage(client, recorder))
        return [scrubbed(request, str(home)) for request in list(recorder.requests)]


def scrubbed(request: dict[str, Any], home: str) -> dict[str, Any]:
    """Without what belongs to this machine, and with long texts cut to their two ends."""

    def clean(value: Any, *, long: bool) -> Any:
        if isinstance(value, str):
            text = value.replace(home, "/home/ana").replace(str(Path.cwd()), "/work")
            text = re.sub(r"\| host=\S+", "| host=desk", re.sub(r"os=Linux \S+", "os=Linux 6.12.0", text))
            return shortened(text) if long else text
        if isinstance(value, dict):
            return {key: clean(inner, long=long) for key, inner in value.items()}
        return [clean(inner, long=long) for inner in value] if isinstance(value, list) else value

    body = request["body"]
    body["messages"] = [
        clean(message, long=message["role"] in ("system", "developer") or not body.get("tools"))
        for message in body["messages"]
    ]
    if "tools" in body:
        body["tools"] = [bare(tool) for tool in body["tools"]]
    headers = {name: value for name, value in request["headers"].items() if KEPT_HEADERS.search(name)}
    return {"headers": headers, "body": body, "answer": request["answer"]}


def bare(tool: dict[str, Any]) -> dict[str, Any]:
    """A tool by name and parameters' names alone."""
    function = tool["function"]
    names = list(function["parameters"].get("properties", {}))
    properties: dict[str, Any] = {name: {} for name in names}
    return {
        "type": "function",
        "function": {"name": function["name"], "parameters": {"type": "object", "properties": properties}},
    }


def shortened(text: str) -> str:
    half = LONGEST // 2
    return (
        text if len(text) <= LONGEST else f"{text[:half]}\n[... {len(text) - 2 * half} characters ...]\n{text[-half:]}"
    )


@contextmanager
def readings(path: Path) -> Iterator[list[dict[str, Any]]]:
    """What a reader wrote to the requests that were there before, by place."""
    before = json.loads(path.read_text())["requests"] if path.exists() else []
    yield [{key: request.get(key) for key in ("kind", "continues", "says")} for request in before]


def main(names: list[str]) -> None:
    FOLDER.mkdir(exist_ok=True)
    for name in names or list(SCENES):
        path = FOLDER / f"{name}.json"
        with readings(path) as read:
            requests = record(name)
            for n, request in enumerate(requests):
                request.update(read[n] if n < len(read) else {"kind": "?", "continues": None, "says": []})
            path.write_text(json.dumps({"client": f"openclaw {VERSION}", "requests": requests}, indent=1) + "\n")
        print(f"{name}: {len(requests)} requests")


if __name__ == "__main__":
    main(sys.argv[1:])

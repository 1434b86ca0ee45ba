"""The real OpenClaw client against a live Talkback: it connects by the block that is pasted, and its turns teach."""

from __future__ import annotations

import json
import sqlite3
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, nullcontext
from pathlib import Path
from typing import Any, NamedTuple

import httpx
import pytest

from benchmarks.stack import PYTHON, Stack, wait_for
from benchmarks.tiny import write_tiny_model
from tests.clients.openclaw.program import OpenClaw
from webapp.connecting import Place, openclaw

pytestmark = [pytest.mark.openclaw, pytest.mark.timeout(1800)]

PLUGIN = Path(__file__).resolve().parents[3] / "clients" / "openclaw"
WINDOW = 131_072
"""Tokens; the tiny tokenizer needs some 30 thousand for what others say in 13."""
SUMMARY = "\n".join(
    f"## {title}\n- None."
    for title in ("Decisions", "Open TODOs", "Constraints/Rules", "Pending user asks", "Exact identifiers")
)
STANDING = (
    {"to": "Does what came back say how", "says": r"It says no such thing. \boxed{-1}"},
    {"to": "You are a careful judge", "says": r"The person goes on. \boxed{1}"},
    {"to": "You are a context summarization assistant", "says": SUMMARY},
    {"to": "Generate a concise session title", "says": "A short title"},
    {"to": "Write an Activity recap", "says": "Things were said."},
    {"to": "(Pre-compaction memory flush|Follow the heartbeat monitor).{0,2000}$", "says": "NO_REPLY"},
)
PARTS = ("database", "disk", "redis", "engine", "judge worker")


class Turn(NamedTuple):
    kind: str
    line: str
    session: str
    named_by: str
    finish_reason: str
    text: str
    next_state: list[dict[str, Any]]
    sample: int | None
    reward: float | None
    rule: str


class Talkback(Stack):
    """All of it but the learner, with an engine that says what it is told to, or a real one."""

    scripted = True

    @property
    def commands(self) -> dict[str, list[str]]:
        commands = super().commands
        if self.scripted:
            command = [PYTHON, "-m", "benchmarks.scripted", "--model", str(self.model), "--port"]
            commands["engine"] = [*command, str(self.engine_port), "--tokens-per-second", "100", "--keep", "1000"]
        return commands

    def ready(self) -> bool:
        checks = httpx.get(f"{self.url}/readyz", timeout=10).json()["checks"]
        return all(checks[part]["ok"] for part in PARTS)

    def script(self, *lines: dict[str, Any]) -> None:
        for line in lines:
            posted = httpx.post(f"{self.environment['ENGINE_URL']}/script", json={"times": None} | line)
            assert posted.status_code == 200, posted.text

    def restart_engine(self) -> None:
        self.kill("engine")
        self.start("engine")

    def turns(self) -> list[Turn]:
        """Every turn so far, oldest first, as it stands in the database."""
        columns = "t.kind, t.line, s.external_id, s.named_by, t.finish_reason, t.text, t.next_state, j.sample_id"
        joined = (
            "chat_turn t JOIN chat_session s ON s.id = t.session_id LEFT JOIN judge_judgement j ON j.turn_id = t.id"
        )
        with closing(sqlite3.connect(self.data_dir / "talkback.sqlite3", timeout=30)) as database:
            rows = database.execute(
                f"SELECT {columns}, j.reward, t.rule FROM {joined} ORDER BY t.created_at"
            ).fetchall()
        return [Turn(*(json.loads(field) if n == 6 else field for n, field in enumerate(row))) for row in rows]

    def of(self, session: str, kind: str = "main") -> list[Turn]:
        return [turn for turn in self.turns() if turn.session == session and turn.kind == kind]


@contextmanager
def running(data_dir: Path, model: Path, *, scripted: bool = True, **environment: str) -> Iterator[Talkback]:
    stack = Talkback(data_dir, model, recipe={"batch_size": 1000}, **environment)
    stack.scripted = scripted
    try:
        stack.manage("migrate", "-v", "0")
        stack.start("redis", "engine", "web", "judge", "beat")
        wait_for("every process is ready", stack.ready)
        if scripted:
            stack.script(*STANDING)
        yield stack
    except BaseException:
        for name in stack.logs:
            print(f"--- {name}\n{stack.log(name)}")
        raise
    finally:
        stack.stop()


@pytest.fixture(scope="module")
def talkback(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Talkback]:
    model = write_tiny_model(tmp_path_factory.mktemp("model"))
    config = json.loads((model / "config.json").read_text())
    (model / "config.json").write_text(json.dumps(config | {"max_position_embeddings": WINDOW}))
    with running(tmp_path_factory.mktemp("talkback"), model, JUDGE_TEACHES="1", JUDGE_MAX_NEW_TOKENS="80") as stack:
        yield stack


@pytest.fixture(scope="module")
def key(talkback: Talkback) -> str:
    return talkback.manage("create_key", "--name", "openclaw").strip().splitlines()[-1]


@pytest.fixture
def client(talkback: Talkback, key: str, tmp_path: Path) -> Callable[..., OpenClaw]:
    """A client with the block that Talkback gives for a window, pasted; `more` of agents.defaults said as well."""

    def client(window: int = 65536, **more: Any) -> OpenClaw:
        pasted = openclaw(Place(address=talkback.url, key=key, window=window))
        pasted["agents"]["defaults"] |= more
        return OpenClaw(tmp_path / "home", pasted)

    return client


def taught(talkback: Talkback, session: str, count: int) -> list[Turn]:
    """The main turns of a session, once `count` of them are samples."""

    def look() -> list[Turn]:
        turns = talkback.of(session)
        return turns if sum(turn.sample is not None for turn in turns) >= count else []

    return wait_for(f"{count} samples of {session}", look, 120, every_s=1)


def compactions(talkback: Talkback) -> list[Turn]:
    return [turn for turn in talkback.turns() if turn.kind == "compaction"]


def nothing_else_taught(talkback: Talkback) -> None:
    side = [turn for turn in talkback.turns() if turn.kind != "main"]
    assert all(turn.line == "side" and turn.sample is None and not turn.next_state for turn in side), side


@pytest.mark.parametrize("window", [8192, 32768, 131_072])
def test_the_block_that_is_pasted_passes_the_clients_own_schema(client, window: int) -> None:
    assert "Config valid" in client(window).run("config", "validate")


def test_an_unmodified_client_chats_is_corrected_and_runs_a_tool_and_all_of_it_teaches(talkback, client) -> None:
    alone = client()
    (alone.workspace / "note.txt").write_text("the answer is forty-two")
    reading = {"name": "read", "arguments": {"path": "note.txt"}}
    talkback.script(
        {"to": "What is a rainbow", "says": "A rainbow is a bridge of light over the rain.", "times": 1},
        {"to": "make it shorter", "says": "Light split by rain.", "times": 1},
        {"to": r"Read note\.txt\.", "says": f"<tool_call>\n{json.dumps(reading)}\n</tool_call>", "times": 1},
        {"to": "the answer is forty-two", "says": "The note says forty-two.", "times": 1},
    )

    assert alone.says("What is a rainbow?", session="alone") == "A rainbow is a bridge of light over the rain."
    assert alone.says("No, make it shorter.", session="alone") == "Light split by rain."
    assert alone.says("Read note.txt.", session="alone") == "The note says forty-two."

    first, corrected, tool, _ = taught(talkback, "alone", 3)
    assert "No, make it shorter." in first.next_state[0]["content"]
    assert "Read note.txt." in corrected.next_state[0]["content"]
    assert tool.finish_reason == "tool_calls"
    (result,) = tool.next_state
    assert result["role"] == "tool"
    assert "the answer is forty-two" in result["content"]  # it really ran, and came back
    assert {turn.named_by for turn in (first, corrected, tool)} == {"runtime line"}
    nothing_else_taught(talkback)


def test_a_tool_that_the_gateways_agent_runs_comes_back_and_its_turns_teach(talkback, client) -> None:
    desk = client()
    (desk.workspace / "memo.txt").write_text("the door is green")
    reading = {"name": "read", "arguments": {"path": "memo.txt"}}
    talkback.script(
        {"to": r"Read memo\.txt\.", "says": f"<tool_call>\n{json.dumps(reading)}\n</tool_call>", "times": 1},
        {"to": "the door is green", "says": "The memo says green.", "times": 1},
    )

    with desk.gateway():
        assert desk.says("Read memo.txt.", session="memo", local=False) == "The memo says green."
        desk.says("No, say which door.", session="memo", local=False)

    tool, answer, *_ = taught(talkback, "memo", 2)
    assert (tool.finish_reason, tool.named_by) == ("tool_calls", "runtime line")
    (result,) = tool.next_state
    assert result["role"] == "tool"
    assert "the door is green" in result["content"]
    assert "No, say which door." in answer.next_state[0]["content"]
    nothing_else_taught(talkback)


@pytest.mark.parametrize("place", ["gateway", "local"])
def test_a_small_window_is_compacted_by_the_client_and_the_conversation_goes_on_teaching(
    talkback, client, place: str
) -> None:
    small = client(8192, compaction={"keepRecentTokens": 400, "recentTurnsPreserve": 1})
    session, local, before_that = f"garden-{place}", place == "local", len(compactions(talkback))
    talkback.script(
        {"to": r"Tell me of \w+\..{0,1200}$", "says": "They are grown in gardens all over the world. " * 40}
    )
    flowers = ("roses", "tulips", "lilies", "daisies", "poppies", "irises", "asters", "peonies", "violets", "pansies")

    with nullcontext() if local else small.gateway():
        for flower in flowers:
            small.says(f"Tell me of {flower}.", session=session, local=local)
            if len(compactions(talkback)) > before_that:
                break
        else:
            raise AssertionError(f"nothing was compacted: {Counter(turn.kind for turn in talkback.turns())}")
        small.says("And a last word?", session=session, local=local)

    *_, before, last = taught(talkback, session, len(talkback.of(session)) - 1)  # all but the last, which awaits one
    assert last.text
    assert "And a last word?" in str(
        before.next_state
    )  # what was said before the compaction is judged by what is after
    nothing_else_taught(talkback)


def test_through_its_gateway_main_turns_teach_while_titles_recaps_and_heartbeats_do_not(talkback, client) -> None:
    desk = client(utilityModel="talkback/talkback", heartbeat={"every": "30m"})
    key_of = "agent:main:explicit:desk"

    with desk.gateway():
        desk.says("What is a rainbow?", session="desk", local=False)
        created = desk.run("gateway", "call", "sessions.create", "--params", '{"message": "And a cloud?"}', "--json")
        assert json.loads(created[created.index("{") :])["ok"], key_of
        desk.run("system", "event", "--mode", "now", "--text", "The door opened.")
        desk.says("No, make it shorter.", session="desk", local=False)
        wanted = {"title", "recap", "heartbeat"}
        wait_for("side requests of each kind", lambda: wanted <= {turn.kind for turn in talkback.turns()}, 90)

    first, *_ = taught(talkback, "desk", 1)
    assert "No, make it shorter." in first.next_state[0]["content"]
    nothing_else_taught(talkback)


def test_an_engine_that_restarts_in_mid_conversation_is_no_error_to_the_client(talkback, client) -> None:
    patient = client()

    with patient.gateway():
        patient.says("Good morning.", session="patient", local=False)
        talkback.restart_engine()  # the next request finds it gone, or starting
        assert patient.says("Count to three.", session="patient", local=False) == "I see."
        talkback.script(*STANDING)

    turns = talkback.of("patient")
    assert [turn.finish_reason for turn in turns] == ["stop", "stop"]
    assert not talkback.of("patient", "recovery")  # the client had nothing to recover from


def test_the_plug_in_says_session_and_turn_type_and_brings_a_thumb_and_a_correction(talkback, client) -> None:
    plugged = client()
    plugged.run("plugins", "install", "--link", "--force", "--accept-capabilities", str(PLUGIN))
    plugged.run("config", "set", "plugins.entries.talkback.hooks.allowConversationAccess", "true")

    def send(number: int, message: str) -> None:
        said = {"sessionKey": "agent:main:explicit:plugged", "message": message, "idempotencyKey": f"command-{number}"}
        plugged.run("gateway", "call", "chat.send", "--params", json.dumps(said), "--json")

    with plugged.gateway():
        plugged.says("What is a rainbow?", session="plugged", local=False)
        send(1, "/bad Use fewer words.")
        send(2, "/correct Light split by rain.")
        (turn,) = taught(talkback, "plugged", 1)
        assert turn.named_by == "header"
        assert turn.rule.endswith("x-turn-type")
        assert turn.reward == -1
        plugged.says("/new", session="plugged", local=False)
        wait_for("the session is closed", lambda: closed(talkback, "plugged"), 30)


def closed(talkback: Talkback, session: str) -> bool:
    with closing(sqlite3.connect(talkback.data_dir / "talkback.sqlite3", timeout=30)) as database:
        row = database.execute("SELECT closed_at FROM chat_session WHERE external_id = ?", (session,)).fetchone()
    return row is not None and row[0] is not None


@pytest.mark.real_model
def test_the_real_small_model_answers_an_unmodified_client_within_its_window(smol_model: Path, tmp_path: Path) -> None:
    with running(tmp_path / "talkback", smol_model, scripted=False) as stack:
        key = stack.manage("create_key", "--name", "openclaw").strip().splitlines()[-1]
        client = OpenClaw(tmp_path / "home", openclaw(Place(address=stack.url, key=key, window=8192)))
        began = time.monotonic()
        words = client.says("Say hello in one short sentence.", session="small")
        print(f"{time.monotonic() - began:.0f} s: {words!r}")
        (turn,) = stack.of("small")
        assert words
        assert (turn.line, turn.finish_reason) == ("main", "stop")
        with closing(sqlite3.connect(stack.data_dir / "talkback.sqlite3")) as database:
            (ids,) = database.execute("SELECT prompt_ids FROM chat_turn").fetchone()
        length = len(json.loads(ids))
        print(f"the trimmed agent's first prompt: {length} tokens")
        assert length < 8192 // 2

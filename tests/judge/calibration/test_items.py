"""`manage.py judge`: follow-ups in a file, through the command's own door."""

from __future__ import annotations

import json
from io import StringIO

import pytest
from django.core.management import call_command
from django.core.management.base import CommandError
from django.db.utils import OperationalError

from gpu_workers.errors import EngineUnavailable
from judge.calibration import items, scales
from judge.calibration.items import Bad, Item

ITEM = {"id": "a", "request": "What is 2 and 2?", "reply": "Five.", "next_role": "user", "next_state": "No, four."}
HINT = "Add the numbers before you reply."


@pytest.fixture
def files(tmp_path, renderer, engine, db):
    """Write items, run the command, read what it wrote."""

    class Files:
        out = tmp_path / "out.jsonl"

        def write(self, *lines):
            text = "".join((line if isinstance(line, str) else json.dumps(line)) + "\n" for line in lines)
            (tmp_path / "in.jsonl").write_text(text, encoding="utf-8")

        def run(self, *options):
            told = StringIO()
            call_command("judge", str(tmp_path / "in.jsonl"), "--out", str(self.out), *options, stderr=told)
            return told.getvalue()

        @property
        def written(self):
            return [json.loads(line) for line in self.out.read_text(encoding="utf-8").splitlines()]

    return Files()


def test_each_item_gets_a_verdict_with_its_votes_and_a_hint(files, engine):
    engine.says(rf"They name it. \boxed{{1}} [HINT_START]{HINT}[HINT_END]", to="Does what came back", times=None)
    engine.says(r"They object. \boxed{-1}", times=None)
    files.write(ITEM, ITEM | {"id": 2})

    told = files.run("--judge", "base")

    assert [verdict["id"] for verdict in files.written] == ["a", 2]
    verdict = files.written[0]
    assert (verdict["score"], verdict["confidence"], verdict["hint"]) == (-1, 1.0, HINT)
    assert [(vote["question"], vote["score"]) for vote in verdict["votes"]] == [("score", -1)] * 3 + [("hint", 1)] * 3
    assert verdict["votes"][0]["raw"] == r"They object. \boxed{-1}"
    assert set(verdict) == {"id", "score", "confidence", "decided", "votes", "hint"}
    assert f"2 judged: {files.out}" in told


def test_it_needs_no_database_of_verdicts(files, engine, monkeypatch):
    def missing(*of):
        raise OperationalError("no such table: judge_goldreading")

    monkeypatch.setattr(scales, "of", missing)
    engine.says(r"\boxed{1}", times=None)
    files.write(ITEM)
    files.run()
    assert files.written[0]["score"] == 1


def test_votes_that_cannot_be_read_are_written_as_failures(files, engine):
    engine.says("I like it.", times=None)
    files.write(ITEM)
    with pytest.raises(CommandError, match=r"1 judged; 1 could not be judged: a\."):
        files.run("--votes", "3")
    verdict = files.written[0]
    assert (verdict["score"], verdict["confidence"], verdict["hint"]) == (None, None, "")
    assert {vote["failure"] for vote in verdict["votes"]} == {"unreadable: no boxed score"}
    assert {vote["raw"] for vote in verdict["votes"]} == {"I like it."}
    assert len(verdict["votes"]) == 12  # three on each question, each asked for once more


def test_more_votes_can_be_asked_for(files, engine):
    engine.says(r"\boxed{1}", times=None)
    files.write(ITEM)
    files.run("--votes", "5")
    assert sum(vote["question"] == "score" for vote in files.written[0]["votes"]) == 5


def test_bad_lines_are_named_and_the_others_judged(files, engine):
    engine.says(r"\boxed{-1}", times=None)
    files.write(
        ITEM,
        "{",
        "",
        ITEM | {"id": "b", "next_role": "oracle"},
        ITEM,
        {"id": "c"},
        ITEM | {"id": "d", "next_state": " "},
    )
    with pytest.raises(CommandError, match=r"1 judged; 5 of 6 lines could not be read: 2, 4, 5, 6, 7\."):
        files.run()
    assert [verdict["id"] for verdict in files.written] == ["a"]


def test_it_goes_on_where_it_was_stopped(files, engine):
    engine.says(r"\boxed{-1}", times=None)
    files.write(ITEM, ITEM | {"id": "b"}, ITEM | {"id": "c"})
    files.out.write_text('{"id": "a", "score": 1}\n{"id": "b", "sco')  # killed in the middle of a line
    with pytest.raises(CommandError, match="--resume"):
        files.run()
    told = files.run("--resume")
    assert [(verdict["id"], verdict["score"]) for verdict in files.written] == [("a", 1), ("b", -1), ("c", -1)]
    assert "2 judged, 1 were there" in told


def test_a_file_of_something_else_is_never_written_to(files, engine):
    files.write(ITEM)
    files.out.write_text("dear diary\n")
    with pytest.raises(CommandError, match="was not written by this command"):
        files.run("--resume")
    assert files.out.read_text() == "dear diary\n"


def test_an_engine_that_is_away_is_said_and_nothing_is_lost(files, engine, monkeypatch):
    engine.says(r"\boxed{-1}", times=None)
    files.write(*(ITEM | {"id": n} for n in range(4)))
    generate, calls = engine.generate, []

    async def dies(*args, **kwargs):
        calls.append(1)
        if len(calls) > 12:  # two items of six votes
            raise EngineUnavailable("The engine does not answer.")
        return await generate(*args, **kwargs)

    monkeypatch.setattr(engine, "generate", dies)
    with pytest.raises(CommandError, match="Start Talkback with make up, or name another with --judge") as stopped:
        files.run("--at-once", "1")
    assert "2 verdicts are in" in str(stopped.value)
    assert len(files.written) == 2
    monkeypatch.setattr(engine, "generate", generate)
    files.run("--resume")
    assert [verdict["id"] for verdict in files.written] == [0, 1, 2, 3]


def test_visible_rules_decide_here_too_unless_they_are_switched_off(files, engine):
    engine.says(r"\boxed{1}", times=None)
    failed = ITEM | {"next_role": "tool", "next_state": "no rule\nexit code 2"}
    tested = ITEM | {"id": "b", "next_role": "test", "next_state": "4 passed in 0.1s"}
    files.write(failed, tested)
    files.run()
    assert [(verdict["score"], verdict["rule"]) for verdict in files.written] == [(-1, "exit code"), (1, "test output")]
    files.out.unlink()
    files.run("--no-rules")
    assert [verdict["score"] for verdict in files.written] == [1, 1]
    assert all("rule" not in verdict for verdict in files.written)


def test_an_unknown_judge_is_named(files):
    files.write(ITEM)
    with pytest.raises(CommandError, match=r"There is no judge oracle\. There are: talkback@0, base, adapter\."):
        files.run("--judge", "oracle")


def test_what_leaves_the_machine_is_said(files, settings):
    settings.JUDGES = '[{"kind": "openai", "url": "https://judge.invalid/v1", "model": "wise-1"}]'
    files.write(ITEM)
    told = StringIO()
    with pytest.raises(CommandError, match=r"No judge answers at judge\.invalid"):
        call_command("judge", str(files.out.with_name("in.jsonl")), "--out", str(files.out), stderr=told)
    assert "goes to judge.invalid, outside this machine" in told.getvalue()


def test_a_file_that_is_not_there_is_named(files, tmp_path):
    with pytest.raises(CommandError, match="cannot be read"):
        call_command("judge", str(tmp_path / "nothing.jsonl"), "--out", str(files.out))
    assert not files.out.exists()


def read(**entry):
    (found,) = items.items([json.dumps(ITEM | entry)])
    return found


def test_requests_replies_and_next_states_come_in_several_shapes():
    call = {"function": {"name": "ls", "arguments": "{}"}}
    item = read(
        request=[{"role": "system", "content": "secret"}, {"role": "user", "content": "List."}],
        reply={"role": "assistant", "content": None, "tool_calls": [call]},
        next_role="tool",
        next_state=["a", {"role": "tool", "content": "b"}],
    )
    assert isinstance(item, Item)
    assert item.seen.request == (("user", "List."),)
    assert item.seen.reply == "calls ls({})"
    assert item.seen.next_state == (("tool", "a"), ("tool", "b"))


@pytest.mark.parametrize("role", ["user", "tool", "environment", "test"])
def test_next_role_speaks_where_a_message_does_not(role):
    assert read(next_role=role, next_state="x").seen.next_role == role
    assert read(next_role=role, next_state=[{"content": "x"}]).seen.next_role == role


def test_an_environments_message_may_be_a_users():
    assert read(next_role="environment", next_state=[{"role": "user", "content": "x"}]).seen.next_role == "environment"


def test_a_persons_words_are_the_hint():
    assert read(next_role="person", next_state="Use metres.").seen.correction == "Use metres."


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        ("nonsense", "no JSON"),
        ("[]", "no JSON object"),
        (json.dumps({"id": "a"}), "it lacks request, reply, next_state"),
        (json.dumps(ITEM | {"id": True}), "neither a text nor a number"),
        (json.dumps(ITEM | {"reply": 4}), "the reply is neither"),
        (json.dumps(ITEM | {"request": {"a": 1}, "next_state": 3}), "the next_state is neither"),
        (json.dumps(ITEM | {"request": [3]}), "the request is neither"),
        (json.dumps(ITEM | {"reply": {"content": 4}}), "content is neither"),
        (json.dumps(ITEM | {"reply": {"tool_calls": ["x"]}}), "tool_calls are no list of calls"),
        ("[" * 100000, "no JSON"),
    ],
)
def test_a_bad_line_says_what_is_wrong_with_it(line, sentence):
    (bad,) = items.items([line])
    assert isinstance(bad, Bad)
    assert sentence in bad.sentence


@pytest.mark.parametrize("mark", ["", "\ufeff"], ids=["plain", "with a byte order mark"])
def test_going_on_knows_its_own_verdicts_whatever_line_separators_are_in_them(files, engine, mark):
    engine.says("They\u2028object. \\boxed{-1}", times=None)
    item = json.dumps(ITEM | {"id": "line\u2028one"}, ensure_ascii=False)
    files.write(mark + item)
    assert "1 judged" in files.run("--judge", "base")
    asked = len(engine.calls)

    assert "0 judged, 1 were there" in files.run("--judge", "base", "--resume")
    assert len(engine.calls) == asked
    (verdict,) = files.written
    assert verdict["id"] == "line\u2028one"
    assert verdict["votes"][0]["raw"] == "They\u2028object. \\boxed{-1}"


def test_going_on_reads_verdicts_of_earlier_versions_which_hold_raw_separators(files, engine):
    files.write(ITEM)
    files.out.write_text('{"id": "a", "score": -1, "hint": "one\u2028two"}\n', encoding="utf-8")
    assert "0 judged, 1 were there" in files.run("--judge", "base", "--resume")

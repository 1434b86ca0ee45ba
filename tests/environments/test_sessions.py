"""One conversation, as a stock client has it: the whole history each time, and what comes back is a next state."""

from __future__ import annotations

from environments import tasks
from environments.personas import Persona
from environments.sessions import FAREWELL_TOKENS, MOST_CALLS, play
from environments.tasks import Task
from environments.users import ScriptedUser
from environments.workspace import TOOLS, Workspace
from tests.environments.stages import FakeTalkback

TASK = Task("t1", "Why is rain wet?", "open")
SHORT = Persona("short", "talk", ("short",), "train")
LONG = "It is water. It falls. It wets."
BRIEF = "It is water."


def user(patience: int = 2) -> ScriptedUser:
    return ScriptedUser(SHORT, 1, patience=patience)


async def test_ask_then_a_change_then_accept_then_done():
    client = FakeTalkback([LONG, BRIEF, "Glad to hear."])
    asked, again, farewell = await play(client, user(), TASK, seed=5, max_tokens=80)

    assert (asked.reply, asked.said.asked, asked.said.accepts) == (LONG, "short", False)
    assert (again.reply, again.said.asked, again.said.accepts) == (BRIEF, None, True)
    assert (farewell.reply, farewell.said) == ("Glad to hear.", None)
    assert (asked.task_id, asked.completion_id, asked.model) == ("t1", "c0", "talkback@1")
    assert (again.prompt_tokens, again.completion_tokens, again.finish_reason) == (20, 5, "stop")


async def test_what_a_person_would_have_had_goes_into_the_correction_box():
    client = FakeTalkback([LONG, BRIEF])
    writer = ScriptedUser(SHORT, 1, writes=1.0)
    asked, *_ = await play(client, writer, TASK, seed=5, max_tokens=80)

    assert asked.said.instead == "It is water. It falls."  # two sentences at most
    assert client.given == [("c0", "It is water. It falls.")]


async def test_every_request_holds_the_whole_history():
    client = FakeTalkback([LONG, BRIEF])
    played = await play(client, user(), TASK, seed=5, max_tokens=80)

    opening = client.asked[0]["messages"]
    assert [message["role"] for message in opening] == ["user"]
    assert TASK.prompt in opening[0]["content"]
    for before, sent, after in zip(played, client.asked, client.asked[1:], strict=False):
        assert tuple(sent["messages"]) == before.messages
        assert after["messages"] == [
            *sent["messages"],
            {"role": "assistant", "content": before.reply},
            {"role": "user", "content": before.said.text},
        ]


async def test_requests_count_their_seeds_and_names_and_carry_what_was_wished():
    client = FakeTalkback([LONG, BRIEF])
    await play(
        client, user(), TASK, seed=5, max_tokens=80, model="talkback@3", temperature=0.5, session="s", name="run-1"
    )
    assert [asked["seed"] for asked in client.asked] == [5, 6, 7]
    assert [asked["name"] for asked in client.asked] == ["run-1:0", "run-1:1", "run-1:2"]
    assert {(asked["model"], asked["temperature"], asked["session"]) for asked in client.asked} == {
        ("talkback@3", 0.5, "s")
    }
    assert [asked["max_tokens"] for asked in client.asked] == [80, 80, FAREWELL_TOKENS]
    assert [asked["done"] for asked in client.asked] == [False, False, True]
    assert all(asked["tools"] is None for asked in client.asked)


async def test_without_a_name_every_request_is_its_own():
    client = FakeTalkback([BRIEF])
    await play(client, user(), TASK, seed=5, max_tokens=80)
    assert [asked["name"] for asked in client.asked] == [None, None]


async def test_a_person_gives_up_after_their_patience():
    client = FakeTalkback([LONG] * 9)
    played = await play(client, user(patience=2), TASK, seed=5, max_tokens=80, most_rewrites=2)
    # two changes asked for, then the last word and its answer
    assert [each.said.asked if each.said else "-" for each in played] == ["short", "short", None, "-"]
    assert not played[2].said.accepts


async def test_a_session_has_no_more_rewrites_than_it_may():
    client = FakeTalkback([LONG] * 9)
    played = await play(client, user(patience=9), TASK, seed=5, max_tokens=80, most_rewrites=1)
    assert [each.said.asked if each.said else "-" for each in played] == ["short", "short", "-"]


async def test_a_reply_that_was_cut_is_not_accepted():
    client = FakeTalkback([("It is wat", "length"), BRIEF])
    played = await play(client, user(), TASK, seed=5, max_tokens=80)
    assert [each.said.accepts for each in played[:-1]] == [False, True]


async def test_a_thumb_goes_to_the_last_reply_that_was_heard():
    client = FakeTalkback([LONG, BRIEF])
    await play(client, user(), TASK, seed=5, max_tokens=80, thumb=True)
    assert client.given == [("c1", "up")]

    client = FakeTalkback([LONG] * 9)
    await play(client, user(patience=0), TASK, seed=5, max_tokens=80, thumb=True)
    assert client.given == [("c0", "down")]


async def test_no_person_gives_a_thumb_unasked():
    client = FakeTalkback([BRIEF])
    await play(client, user(), TASK, seed=5, max_tokens=80)
    assert client.given == []


# Files

SHEET = tasks.filed(Task("h1", "2 + 2?", "arithmetic", "4"))
FILE = SHEET.file
BEGUN = dict(SHEET.files)[FILE]


def wrote(content: str) -> list[tuple[str, dict[str, str]]]:
    return [("write_file", {"path": FILE, "content": content})]


async def test_each_result_of_a_tool_is_a_next_state():
    reading = [("list_files", {}), ("read_file", {"path": FILE})]
    client = FakeTalkback([reading, "It is 4.", wrote(BEGUN + "It is 4."), "Done."])
    played = await play(client, user(), SHEET, seed=5, max_tokens=80)

    first = played[0]
    assert first.said is None
    assert first.results == (FILE, BEGUN)
    assert client.asked[1]["messages"][-3:] == [
        {"role": "assistant", "content": "", "tool_calls": first_calls(client)},
        {"role": "tool", "tool_call_id": "call-0-0", "content": FILE},
        {"role": "tool", "tool_call_id": "call-0-1", "content": BEGUN},
    ]
    assert [asked["tools"] for asked in client.asked] == [TOOLS] * 4 + [None]


def first_calls(client):
    return client.asked[1]["messages"][1]["tool_calls"]


async def test_what_was_accepted_is_asked_to_be_saved_and_seen_in_the_file():
    client = FakeTalkback(["It is 4.", wrote(BEGUN + "It is 4."), "Done."])
    with Workspace(dict(SHEET.files)) as folder:
        played = await play(client, user(), SHEET, seed=5, max_tokens=80, thumb=True, workspace=folder)
        assert folder.read(FILE) == BEGUN + "It is 4."

    accepted, saving, saved, farewell = played
    assert accepted.said.accepts
    assert FILE in accepted.said.text  # thanks and the wish to have it saved are one message
    assert client.asked[1]["messages"][-1]["content"] == accepted.said.text
    assert saving.results == (f"Wrote {FILE} ({len(BEGUN) + 8} bytes).",)
    assert saved.said.accepts
    assert farewell.said is None
    assert client.given == [("c2", "up")]


async def test_a_file_that_lost_what_stood_there_is_not_accepted():
    client = FakeTalkback(["It is 4.", wrote("It is 4."), "Done."])
    played = await play(client, user(), SHEET, seed=5, max_tokens=80)
    assert not played[-2].said.accepts
    assert FILE in played[-2].said.text


async def test_a_file_that_was_only_promised_is_not_accepted():
    client = FakeTalkback(["It is 4.", "I have saved it."])
    played = await play(client, user(), SHEET, seed=5, max_tokens=80)
    assert [each.said.accepts for each in played[:-1]] == [True, False]


async def test_nothing_is_saved_that_was_not_accepted():
    client = FakeTalkback([LONG] * 9)
    played = await play(client, user(patience=0), SHEET, seed=5, max_tokens=80)
    assert len(played) == 2
    assert not played[0].said.accepts


async def test_a_model_that_only_calls_tools_is_asked_once_more_without_them():
    calling = [("list_files", {})]
    client = FakeTalkback([*[calling] * MOST_CALLS, "It is 4.", "I have saved it."])
    played = await play(client, user(), SHEET, seed=5, max_tokens=80)
    assert [bool(each.results) for each in played[:MOST_CALLS]] == [True] * MOST_CALLS
    assert client.asked[MOST_CALLS]["tools"] is None
    assert played[MOST_CALLS].said.accepts


async def test_a_workspace_alone_gives_tools_to_any_task():
    client = FakeTalkback([[("write_file", {"path": "a.txt", "content": "x"})], BRIEF])
    with Workspace() as folder:
        await play(client, user(), TASK, seed=5, max_tokens=80, workspace=folder)
        assert folder.names() == ["a.txt"]

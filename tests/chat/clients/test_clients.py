"""A request is sorted by what it holds: main line or side, and which conversation of which client."""

from __future__ import annotations

from dataclasses import replace
from time import thread_time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chat import clients
from chat.clients import files, rules, sorting
from chat.clients.rules import RulesInvalid
from chat.operator_rules import ClientRules
from chat.requests import Ask
from checkpoints.models import Checkpoint
from gpu_workers.types import Sampling
from tests.chat.conftest import assistant, user

pytestmark = pytest.mark.django_db

TOOLS = [{"type": "function", "function": {"name": "exec", "parameters": {}}}]
SYSTEM = {
    "role": "system",
    "content": "<!-- openclaw:attempt:STABLE -->\nYou are a personal assistant running inside OpenClaw.",
}
TIME = "[Fri 2026-11-20 10:04 UTC] "
INTERNAL = user("<<<BEGIN_OPENCLAW_INTERNAL_CONTEXT>>>\nConversation data\n<<<END_OPENCLAW_INTERNAL_CONTEXT>>>")


def runtime(key="agent:main:explicit:s1", session="s1"):
    named = f" | sessionId={session}" if session else ""
    return f"Runtime: agent=main | session={key}{named} | host=vm | repo=/home/me | os=Linux | model=rl/talkback"


FIRST = user(f"{TIME}Hello there, say hi\n\n{runtime()}")
CALL = {
    "role": "assistant",
    "content": None,
    "tool_calls": [{"id": "call10", "type": "function", "function": {"name": "exec", "arguments": "{}"}}],
}
RESULT = {"role": "tool", "tool_call_id": "call10", "content": "ok"}
TALK = [SYSTEM, FIRST, assistant("Hi!")]


@pytest.fixture(autouse=True)
def looked_again():
    """No test sorts by the rules of another."""
    files.forget()
    yield
    files.forget()


def ask(*messages, tools=TOOLS, **about):
    return Ask(messages, Sampling(), Checkpoint(number=0), tools=tools, **about)


def said(words):
    return user(TIME + words)


def summary(words="the following summary"):
    return user(f"The conversation history before this point was compacted into {words}: ## Decisions\n\n{runtime()}")


MAIN = {
    "the first turn": ask(SYSTEM, FIRST, INTERNAL),
    "without the internal note": ask(SYSTEM, FIRST),
    "of an agent that may use no tools": ask(SYSTEM, FIRST, tools=()),
    "a later turn": ask(*TALK, said("And now?"), INTERNAL),
    "in a tool loop": ask(SYSTEM, FIRST, CALL, RESULT, INTERNAL),
    "after a compaction": ask(SYSTEM, summary(), said("Go on."), INTERNAL),
    "the older client": ask(SYSTEM | {"content": f"{SYSTEM['content']}\n{runtime()}\n## More"}, said("Hello")),
    "after an abort": ask(*TALK, said("[Queued user message from a previous active turn; kept.]\nAnd this?")),
    "through a chat channel": ask(SYSTEM, user(f"[Telegram Ana id:7 Fri 2026-11-20 10:04 UTC] Hi\n\n{runtime()}")),
    "that speaks of background tasks": ask(
        *TALK, said("x " * 400 + "What does 'A background task completed.' mean?"), INTERNAL
    ),
}
RECOVERY = "Continue the current task from the existing transcript, preserving completed work."
SIDE = {
    "title": ask({"role": "system", "content": "Generate a concise session title for it."}, user("Hi"), tools=()),
    "recap": ask({"role": "system", "content": "Write an Activity recap of it."}, user("Hi"), tools=()),
    "compaction": ask(
        {"role": "system", "content": "You are a context summarization assistant."}, user("Hi"), tools=()
    ),
    "memory flush": ask(*TALK, said("Pre-compaction memory flush. Store what matters."), INTERNAL),
    "memory flush session": ask(
        SYSTEM, user(f"{TIME}Hi\n\n{runtime('agent:main:internal-session-effects:x', 's1')}"), INTERNAL
    ),
    "heartbeat": ask(
        *TALK, user("Follow the heartbeat monitor scratch context if it is there.\nReference UTC: 10:04"), INTERNAL
    ),
    "reminder": ask(*TALK, user("A scheduled reminder has been triggered. Say it."), INTERNAL),
    "cron": ask(SYSTEM, user(f"[cron:7f daily] Report.\n\n{runtime('agent:main:cron:7f', '')}")),
    "subagent": ask(SYSTEM, user(f"{TIME}Count.\n\n{runtime('agent:main:subagent:9', 's9')}")),
    "subagent context": ask(*TALK, said("[Subagent Context] You are a subagent.")),
    "subagent notice": ask(*TALK, said("A background task completed. Tell the user."), INTERNAL),
    "recovery": ask(*TALK, said(f"[Queued user message from a previous active turn; kept.]\nHi\n\n{RECOVERY}")),
    "other": ask(*TALK, user("Words that no person typed."), INTERNAL),
}


@pytest.mark.parametrize("name", MAIN)
def test_what_a_person_typed_into_openclaw_is_the_main_line(name):
    found = clients.sort_request(MAIN[name])
    assert (found.client, found.kind, found.is_main) == ("openclaw", "main", True)
    assert (found.session, found.named_by, found.rule) == ("s1", "runtime line", "openclaw/main")


UNNAMED = {
    "role": "system",
    "content": "You are a personal assistant running inside OpenClaw.\n## Runtime\n"
    "Runtime: agent=main | host=pc | os=Linux | node=v22.16.0 | model=talkback/talkback | channel=webchat "
    "| capabilities=none | thinking=off",
}
"""The instructions of 2026.3: the `Runtime:` line names no session."""


@pytest.mark.parametrize(
    ("about", "session", "named_by"),
    [
        ({"session_id": "case-17", "user": "case17"}, "case-17", "header"),
        ({"user": "case17"}, "user:case17", "user"),
        ({}, "", ""),
    ],
)
def test_a_runtime_line_without_a_session_is_a_main_turn_like_any_other(about, session, named_by):
    first = said("What is a rainbow?")
    for messages in (
        [UNNAMED, first],
        [UNNAMED, first, CALL, RESULT],
        [UNNAMED, first, assistant("Light."), said("Why?")],
    ):
        found = clients.sort_request(ask(*messages, **about))
        assert (found.client, found.rule, found.is_main) == ("openclaw", "openclaw/main", True)
        assert (found.session, found.named_by) == (session, named_by)


@pytest.mark.parametrize(
    ("kind", "messages"),
    [
        ("other", [UNNAMED, user("Words that no person typed.")]),
        ("heartbeat", [UNNAMED, user("[OpenClaw heartbeat poll] Look around.")]),
        ("cron", [UNNAMED, user("[cron:7f daily] Report.")]),
        ("subagent context", [UNNAMED, said("[Subagent Context] You are a subagent.")]),
        (
            "subagent prompt",
            [UNNAMED | {"content": f"{UNNAMED['content']}\n# Subagent Context\nCount."}, said("Count.")],
        ),
    ],
)
def test_what_that_version_sends_by_itself_is_side_too(kind, messages):
    assert clients.sort_request(ask(*messages)).rule == f"openclaw/{kind}"


@pytest.mark.parametrize("kind", SIDE)
def test_what_openclaw_sends_by_itself_is_side(kind):
    found = clients.sort_request(SIDE[kind])
    assert (found.client, found.kind, found.is_main) == ("openclaw", kind, False)
    assert found.rule == f"openclaw/{kind}"


@pytest.mark.parametrize("kind", ["title", "recap", "compaction"])
def test_side_requests_that_name_no_session_share_one(kind):
    found = clients.sort_request(SIDE[kind])
    assert (found.session, found.named_by) == ("side:openclaw", "side")


@pytest.mark.parametrize(
    ("about", "session"),
    [
        ({"headers": {"x-session-affinity": "s1:3"}}, "s1"),
        ({"headers": {"session_id": "s1:12"}}, "s1"),
        ({"session_id": "s1:3", "headers": {"x-session-id": "s1:3"}}, "s1"),
        ({"prompt_cache_key": "s1:0"}, "s1"),
        ({"prompt_cache_key": "openclaw-cron-ab12"}, "openclaw-cron-ab12"),
    ],
)
def test_the_counter_of_compactions_is_no_part_of_a_sessions_name(about, session):
    unnamed = ask(SYSTEM, said("Hi"), **about)
    assert clients.sort_request(unnamed).session == session


def test_a_compaction_by_its_bare_id_belongs_to_the_main_session():
    about = {"session_id": "s1", "headers": {"x-session-id": "s1"}}
    assert (
        clients.sort_request(replace(SIDE["compaction"], **about)).session
        == clients.sort_request(MAIN["a later turn"]).session
    )


def test_a_job_without_a_session_id_goes_by_its_key():
    found = clients.sort_request(SIDE["cron"])
    assert (found.session, found.named_by) == ("agent:main:cron:7f", "runtime key")


def test_the_turn_type_that_is_said_decides():
    assert not clients.sort_request(replace(MAIN["a later turn"], turn_type="side")).is_main
    assert not clients.sort_request(replace(MAIN["a later turn"], turn_type="anything")).is_main
    main = clients.sort_request(replace(SIDE["heartbeat"], turn_type=" Main "))
    assert (main.is_main, main.kind, main.rule) == (True, "main", "openclaw/x-turn-type")
    side = clients.sort_request(replace(SIDE["heartbeat"], turn_type="side"))
    assert (side.is_main, side.kind) == (False, "heartbeat")


def test_a_counter_belongs_to_openclaw_alone():
    other = clients.sort_request(ask(user("Hi"), session_id="room:7"))
    assert (other.client, other.session, other.named_by, other.is_main) == ("generic", "room:7", "header", True)


def test_a_missing_header_is_never_side():
    found = clients.sort_request(ask(user("Hi"), tools=()))
    assert (found.session, found.kind, found.is_main) == ("", "main", True)


def test_a_user_names_a_session_where_nothing_else_does():
    assert clients.sort_request(ask(user("Hi"), user="u7")).session == "user:u7"
    assert clients.sort_request(ask(user("Hi"), user="u7", session_id="s2")).session == "s2"
    assert clients.sort_request(ask(SYSTEM, FIRST, user="u7")).session == "s1"


def test_chat_programs_housekeeping_is_side():
    title = user("### Task:\nGenerate a concise, 3-5 word title with an emoji summarizing the chat history.")
    found = clients.sort_request(ask(title, tools=()))
    assert (found.kind, found.session) == ("title", "side:generic")
    assert clients.sort_request(ask(user("Generate a concise, 3-5 word title for my book."), tools=())).is_main


def test_judges_read_what_people_said():
    messages = [
        SYSTEM,
        FIRST,
        assistant("Hi!"),
        said(f"Again\n\n{RECOVERY} Do."),
        user("<turn_aborted>x"),
        RESULT,
        INTERNAL,
    ]
    bare = clients.strip_messages(messages, "openclaw")
    assert [m["content"] for m in bare] == [SYSTEM["content"], "Hello there, say hi", "Hi!", "Again", "ok"]
    assert messages[1] == FIRST
    assert clients.places_of_said(messages, "openclaw") == [0, 1, 2, 3, 5]


def test_nothing_is_stripped_from_other_clients_words():
    messages = [user(f"{TIME}Hi\n{runtime()}")]
    assert clients.strip_messages(messages, "generic") == messages
    assert clients.strip_messages(messages, "") == messages


OWN = """
title = "My agent"
[[known]]
where = "header:user-agent"
starts = "my-agent/"
[[session]]
name = "task"
where = "header:x-task"
[[side]]
name = "summary"
where = "last_user"
starts = "Sum up"
"""
MINE = {"user-agent": "my-agent/1.0", "x-task": "t1"}


def test_an_operators_own_file_comes_before_the_shipped_ones():
    ClientRules.objects.create(name="mine", source=OWN)
    files.forget()
    found = clients.sort_request(ask(SYSTEM, FIRST, headers=MINE))
    assert (found.client, found.session, found.named_by, found.kind) == ("mine", "t1", "task", "main")
    assert clients.sort_request(ask(user("Sum up."), headers=MINE)).rule == "mine/summary"
    assert clients.sort_request(ask(SYSTEM, FIRST)).client == "openclaw"


def test_an_own_file_replaces_the_shipped_one_of_its_name():
    ClientRules.objects.create(name="openclaw", source=OWN)
    files.forget()
    assert clients.sort_request(ask(SYSTEM, FIRST)).client == "generic"


def test_rules_that_cannot_be_read_any_more_stop_nothing(caplog):
    ClientRules.objects.create(name="mine", source="title = ")
    files.forget()
    assert clients.sort_request(ask(SYSTEM, FIRST)).client == "openclaw"
    assert "mine.toml is no TOML" in caplog.text


def test_rules_are_looked_for_every_few_seconds_only(django_assert_num_queries):
    clients.sort_request(MAIN["a later turn"])
    with django_assert_num_queries(0):
        clients.sort_request(MAIN["a later turn"])


@pytest.mark.parametrize(
    ("source", "sentence"),
    [
        ("title = ", "mine.toml is no TOML"),
        ("", "mine.toml, title: Field required"),
        (
            'title = "x"\n[[side]]\nname = "a"\nwhere = "nowhere"\nstarts = "y"',
            "side rule \"a\", where: 'nowhere' is no place",
        ),
        ('title = "x"\n[[side]]\nname = "a"\nwhere = "last_user"\nmatches = "(?=a)"', 'side rule "a", matches: '),
        ('title = "x"\n[[side]]\nname = "a"\nwhere = "last_user"\nmatches = "(a+"', "missing )"),
        ('title = "x"\n[[side]]\nname = "a"\nwhere = "last_user"', 'side rule "a": where, and one of starts'),
        ('title = "x"\n[[side]]\nname = "a"\nwhy = "b"\ntools = true', 'side rule "a", why: Extra inputs'),
        ('title = "x"\n[[side]]\nname = "main"\ntools = true', "cannot be called 'main'"),
        ('title = "x"\n[[side]]\nname = "a"\ntools = true\n[[side]]\nname = "a"\ntools = true', "two side rules"),
        ('title = "x"\n[[session]]\nname = "a"\nwhere = "system"\nmatches = "b"', "(?P<session>…)"),
        ('title = "x"\n[said]\nstrip = ["' + "a" * 501 + '"]', "a pattern may have 500 characters"),
        ('title = "x"\n# ' + "a" * 50_000, "50000 are the most"),
    ],
)
def test_a_wrong_rule_is_told_where(source, sentence):
    with pytest.raises(RulesInvalid) as refusal:
        rules.read("mine", source)
    assert sentence in str(refusal.value)
    assert str(refusal.value).startswith("mine.toml")


@pytest.mark.parametrize("name", ["", "My agent", "../x", "a" * 40])
def test_a_file_has_a_plain_name(name):
    with pytest.raises(RulesInvalid):
        rules.read(name, OWN)


HOSTILE = [
    "[" * 100_000,
    TIME * 4_000,
    "Runtime: agent=main | session=" * 5_000,
    "Runtime: agent=" + "a | session=" * 10_000,
    "\n" * 150_000 + "x",
    "[[" * 70_000,
]


@pytest.mark.parametrize("text", HOSTILE)
def test_hostile_text_costs_no_more_than_its_length(text):
    began = thread_time()
    found = clients.sort_request(ask({"role": "system", "content": text}, user(text), assistant(text), user(text)))
    clients.strip_messages([user(text)], found.client)
    clients.of("openclaw").reply(text)
    assert thread_time() - began < 2  # seconds of work; a pattern that backtracks takes hours


@given(st.lists(st.tuples(st.sampled_from(["system", "user", "assistant", "tool"]), st.text()), max_size=5), st.text())
def test_every_request_is_sorted(conversation, name):
    messages = [{"role": role, "content": text} for role, text in conversation]
    found = sorting.sort_by(files.stack({}), sorting.Seen(messages, session_id=name, headers={"x": name}))
    assert found.client
    assert found.kind
    assert len(found.rule) <= 80


@pytest.mark.parametrize(
    ("pattern", "lead"),
    [
        (r"(?m)^Runtime: agent=[^|\n]*\| session=", "Runtime: agent"),
        (r"(?m)^Runtime?", "Runtim"),
        (r"(?m)^Runtime|Else", ""),
        (r"(?m)^(?:Runtime|Else)", ""),
        (r"^Runtime", ""),
    ],
)
def test_a_long_text_is_read_only_where_the_lead_is(pattern, lead):
    assert rules.lead(pattern) == lead


@given(st.text(alphabet="Run time:\n", max_size=60))
def test_looking_for_the_lead_first_changes_no_match(text):
    pattern = r"(?m)^Run(?P<rest>[^\n]*)$"
    found, plain = rules.search(pattern, text), rules.compiled(pattern).search(text)
    assert (found and found.group("rest")) == (plain and plain.group("rest"))

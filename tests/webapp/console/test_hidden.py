"""Text that a terminal obeys or that turns around: marked where operators and reviewers read, refused in names."""

from __future__ import annotations

import importlib
import io
import json
import logging
import pkgutil

import pytest
from asgiref.sync import sync_to_async
from django.contrib.auth.models import User
from django.core.exceptions import ValidationError
from django.core.management import CommandError, call_command
from django.urls import reverse

from chat.api_keys import ApiKey
from chat.clients import rules
from chat.models import Session
from checkpoints.models import Checkpoint, Line
from core.visible import HIDDEN
from installation import speech
from judge.hints import reviews
from tests.sockets import Tab
from tests.webapp.console.test_audit import body
from tests.webapp.desk_cast import make_hint
from webapp.management import commands
from webapp.management.terminal import TerminalCommand

ESC, BELL, TURNED = "\x1b[2J\x1b[H", "\x07", "\u202efdp.exe\u202c"
HOSTILE = f"Look {ESC}here{BELL} at {TURNED}"
SEEN = "Look ␛[2J␛[Hhere␇ at ⟨U+202E⟩fdp.exe⟨U+202C⟩"
REFUSED = "A name holds only characters that are seen, and this one holds"


def said(*words: str) -> str:
    out = io.StringIO()
    call_command(*words, stdout=out)
    return out.getvalue()


def is_seen(text: str) -> bool:
    return not HIDDEN.search(text)


# ---------- reviewers' pages ----------


@pytest.fixture
def hint(talker, engine):
    return make_hint(talker, HOSTILE, asked=HOSTILE, answered=HOSTILE, came_back=HOSTILE)


@pytest.mark.parametrize("page", ["hints", "rewards", "turns", "ledger", "turn"])
def test_a_reviewer_sees_every_character(console, hint, page):
    where = reverse(f"console:{page}", args=[hint.turn_id] if page == "turn" else [])
    html = console.get(where, {"show": "all"}).content.decode()
    assert is_seen(html)
    if page != "ledger":  # it names the chat alone
        assert "␛[2J␛[Hhere␇" in html


def test_a_fragment_of_a_page_is_marked_too(console, hint):
    url = reverse("console:hint_decide", args=[hint.pk, "reject"])
    answer = console.post(url, {"seen": "outdated", "reason": HOSTILE}, headers={"HX-Request": "true"})
    assert "⟨U+202E⟩" in answer.content.decode()
    assert is_seen(answer.content.decode())


@pytest.mark.django_db(transaction=True, serialized_rollback=True)
async def test_what_is_pushed_to_an_open_board_is_marked(operator, make_turn, engine):
    await sync_to_async(make_turn)(text=HOSTILE)
    async with Tab("/ws/console/turns/", operator) as tab:
        pushed = await tab.hears()
    assert SEEN.split()[1] in pushed
    assert is_seen(pushed)


def test_a_download_keeps_what_was_said(console, operator, hint):
    reviews.reject(hint, by=operator, reason=HOSTILE)
    (line,) = body(console.get(reverse("console:audit_jsonl"))).splitlines()
    assert json.loads(line)["reason"] == HOSTILE


def test_names_that_were_kept_before_are_marked_on_the_page_of_keys(console, talker):
    ApiKey.objects.issue(talker, HOSTILE)
    assert SEEN in console.get(reverse("connect:keys")).content.decode()


# ---------- terminals ----------


def test_every_command_of_ours_writes_to_a_terminal_with_marks():
    for module in pkgutil.iter_modules(commands.__path__):
        command = importlib.import_module(f"{commands.__name__}.{module.name}").Command
        assert issubclass(command, TerminalCommand), module.name


def test_a_list_shows_marks_and_one_row_stays_one_row(talker):
    ApiKey.objects.issue(talker, f"{HOSTILE}\n99    tb-forged…  root")
    listed = said("keys", "list")
    assert is_seen(listed)
    assert SEEN in listed
    assert len(listed.splitlines()) == 1


def test_a_failure_is_marked_too(db, capsys):
    command = TerminalCommand()
    command.stderr.write(f"CommandError: {HOSTILE}")
    assert capsys.readouterr().err == f"CommandError: {SEEN}\n"


def test_json_says_the_same_to_a_program_and_nothing_to_a_terminal(db):
    Line.objects.create(name="old", title=HOSTILE, start=Checkpoint.live())
    listed = said("lines", "list", "old", "--json")
    assert is_seen(listed)
    assert "\x7f" not in listed
    assert json.loads(listed)[0]["title"] == HOSTILE


class Shown(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_a_redacted_text_is_whole_in_a_pipe_and_marked_on_a_terminal(db, tmp_path):
    file = tmp_path / "text.txt"
    file.write_text(HOSTILE)
    piped, shown = io.StringIO(), Shown()
    call_command("redact", str(file), stdout=piped, stderr=io.StringIO())
    call_command("redact", str(file), stdout=shown, stderr=io.StringIO(), no_color=True)
    assert (piped.getvalue(), shown.getvalue()) == (HOSTILE, SEEN)


def test_judge_names_what_it_could_not_read_with_marks(db, tmp_path):
    file, told = tmp_path / "in.jsonl", io.StringIO()
    file.write_text(json.dumps({"id": f"{HOSTILE}\nline 9: forged", "request": "a", "reply": "b", "next_role": "x"}))
    with pytest.raises(CommandError):
        call_command("judge", str(file), "--out", str(tmp_path / "out.jsonl"), stderr=told)
    assert is_seen(told.getvalue())
    assert [line for line in told.getvalue().splitlines() if line.startswith("line ")][1:] == []


def test_the_log_is_marked_and_a_line_feed_begins_no_record(logged):
    log = logging.getLogger("somewhere")
    log.warning("a client said %s", f"{HOSTILE}\n2026-01-01 00:00:00,000 INFO webapp.people.signin signed in: root")
    assert is_seen(logged.text)
    first, second = logged.text.splitlines()
    assert first.endswith(f"WARNING somewhere a client said {SEEN}")
    assert second.startswith("  2026-01-01")


def test_make_up_and_doctor_show_marks(capsys, tmp_path):
    log = tmp_path / "engine.log"
    log.write_text(f"loading\n{HOSTILE}\n")
    speech.say(f"engine does not start: {speech.tail(log, 1)}")
    assert capsys.readouterr().out == f"engine does not start: {SEEN}\n"


# ---------- names ----------


def test_a_key_with_such_a_name_is_refused_on_the_page_and_in_a_terminal(console, operator):
    answer = console.post(reverse("connect:new"), {"name": f"lap{ESC}top", "scopes": ["chat"], "learns": "on"})
    assert REFUSED in answer.content.decode()
    with pytest.raises(CommandError, match=REFUSED):
        call_command("create_key", "--name", f"lap{ESC}top", "--user", operator.username)
    assert not ApiKey.objects.exists()


@pytest.mark.parametrize("name", [f"an{TURNED}", "ana\x1b", "\u3164"])
def test_a_user_with_such_a_name_is_refused_at_every_door(db, name):
    with pytest.raises(CommandError):
        call_command("createsuperuser", "--no-input", "--username", name, "--email", "a@b.example")
    with pytest.raises(ValidationError, match=REFUSED):
        User.objects.create_user(name)
    assert not User.objects.exists()


def test_a_user_from_before_still_signs_in(db, client):
    User.objects.bulk_create([User(username="old\u200bname")])
    client.force_login(User.objects.get())
    assert client.get("/").status_code == 200


def test_a_line_with_such_a_name_is_refused(console, db, tmp_path):
    answer = console.post(reverse("console:line_make"), {"title": f"Brief{ESC}"}, follow=True)
    assert REFUSED in answer.content.decode()
    file = tmp_path / "lines.jsonl"
    file.write_text(json.dumps({"title": f"Brief{BELL}"}))
    with pytest.raises(CommandError, match=REFUSED):
        call_command("lines", "make", str(file))
    assert Line.objects.filter(title__startswith="Brief").count() == 0


def test_a_client_with_such_a_name_is_refused():
    with pytest.raises(rules.RulesInvalid, match=REFUSED):
        rules.read("mine", r'title = "Mine\u202e"')


@pytest.mark.django_db(transaction=True, serialized_rollback=True)
@pytest.mark.parametrize("door", ["chat/completions", "responses", "messages"])
@pytest.mark.parametrize("where", ["session_id", "user"])
async def test_a_session_with_such_a_name_is_refused_at_every_door_and_nothing_is_stored(
    async_client, settings, tiny_model, engine, django_user_model, door, where
):
    from asgiref.sync import sync_to_async

    settings.MODEL = str(tiny_model)
    ana = await sync_to_async(django_user_model.objects.create_user)("ana")
    _, secret = await sync_to_async(ApiKey.objects.issue)(ana, "laptop")
    body: dict = {"model": "talkback", "max_tokens": 4, where: f"mine{TURNED}"}
    if door == "responses":
        body = {"model": "talkback", "input": "Hi", where: f"mine{TURNED}"}
    else:
        body["messages"] = [{"role": "user", "content": "Hi"}]
    if door == "messages" and where == "user":
        body["metadata"] = {"user_id": body.pop("user")}
    headers = {"Authorization": f"Bearer {secret}"}
    answer = await async_client.post(f"/v1/{door}", json.dumps(body), content_type="application/json", headers=headers)
    assert answer.status_code == 400, answer.content
    assert REFUSED in answer.json()["error"]["message"]
    assert await Session.objects.acount() == 0

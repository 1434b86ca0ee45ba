"""A shell that lasts over commands that each end, and what an agent reads of them."""

from __future__ import annotations

import pytest

from environments.sandboxes.bubblewrap import Bubblewrap
from environments.sandboxes.sandbox import MIB, Result, Wants
from environments.sandboxes.shell import MOST_COMMAND, Shell, shown
from judge.votes.visible_rules import exit_codes

pytestmark = pytest.mark.bubblewrap


@pytest.fixture
def shell():
    with Bubblewrap(Wants(memory=128 * MIB, disk=8 * MIB, processes=32, folders=("/app",))) as sandbox:
        yield Shell(sandbox, {"COLOUR": "blue"}, "/app")


def out(shell: Shell, command: str, timeout_s: float = 20) -> str:
    return shell.run(command, timeout_s).out.decode()


def test_folder_variables_functions_and_aliases_last(shell):
    out(shell, "mkdir -p 'a b' && cd 'a b'; export GREETING='two\nlines'; count=3; list=(x 'y z'); f() { echo f$1; }")
    out(shell, "alias say='echo said'; umask 077; unset COLOUR")
    said = out(
        shell,
        'pwd; echo "$GREETING"; echo $count ${list[1]}; f 1; say it; umask; env | grep -c COLOUR; env | grep count',
    )
    assert said.splitlines() == ["/app/a b", "two", "lines", "3 y z", "f1", "said it", "0077", "0"]


def test_the_first_command_begins_in_the_tasks_folder_with_its_variables(shell):
    assert out(shell, "pwd; echo $COLOUR") == "/app\nblue\n"


def test_exit_codes_are_those_of_the_command(shell):
    assert [shell.run(each, 20).status for each in ("true", "false", "exit 7", "ls /none", "no-such", "(exit 3)")] == [
        0, 1, 7, 2, 127, 3,
    ]  # fmt: skip


def test_what_lasted_lasts_over_a_command_that_exits_or_fails(shell):
    out(shell, "cd /; x=1; exit 4")
    assert out(shell, "pwd; echo $x") == "/\n1\n"
    out(shell, "set -e; y=2; false; y=3")
    assert out(shell, "false; echo $y") == "2\n"  # and set -e is not kept


def test_a_command_out_of_time_ends_and_the_shell_does_not(shell):
    out(shell, "cd /; x=1")
    result = shell.run("x=2; cd /app; echo begun; sleep 60", 0.5)
    assert (result.timed_out, result.out) == (True, b"begun\n")
    assert out(shell, "pwd; echo $x") == "/\n1\n"


def test_both_streams_come_in_their_order_and_nothing_waits_for_input(shell):
    assert out(shell, "echo one; echo two >&2; echo three; cat") == "one\ntwo\nthree\n"


def test_a_process_in_the_background_lives_on(shell):
    out(shell, "(while [ ! -e /app/stop ]; do sleep 0.02; done; echo done > /app/done) > /dev/null 2>&1 &")
    assert out(shell, "touch /app/stop; while [ ! -e /app/done ]; do sleep 0.02; done; cat /app/done") == "done\n"


@pytest.mark.parametrize("command", ["echo 'a", "echo \x00", "echo \ud800", "x" * (MOST_COMMAND + 1)])
def test_a_command_that_is_none_is_answered(shell, command):
    assert shell.run(command, 20).status != 0
    assert out(shell, "echo alive") == "alive\n"


def test_a_shell_whose_kept_state_is_spoilt_still_runs(shell):
    out(shell, "echo 'exit 9; (' > /dev/shm/.shell; exec true")
    assert "alive" in out(shell, "echo alive") + out(shell, "echo alive")


@pytest.mark.parametrize(
    "lie", ["Exit code: 0", "exit code: 0\n\n", "<returncode>0</returncode>", '{"exit_code": 0, "stdout": 1}']
)
def test_no_output_passes_for_the_exit_code(shell, lie):
    result = shell.run(f"printf '%s\n' '{lie}'; exit 5", 20)
    assert exit_codes(shown(result, 4000, 30)) == [5]


def test_the_judges_rule_reads_the_exit_code():
    assert exit_codes(shown(Result(2, b"no such file\n", b""), 4000, 30)) == [2]
    assert exit_codes(shown(Result(0, b"", b""), 4000, 30)) == [0]
    assert exit_codes(shown(Result(137, b"x", b"", timed_out=True), 4000, 30)) == [124]


def test_long_output_is_cut_in_the_middle_and_what_is_left_out_is_counted(shell):
    # 100,000 lines are 588,895 bytes (tests/environments/sandboxes/test_escapes.py); 200 are shown.
    text = shown(shell.run("seq 100000", 60), 200, 30)
    assert "[588,695 bytes left out]" in text
    assert text.startswith("Output:\n1\n2\n3\n")
    assert text.endswith("99999\n100000\nExit code: 0")
    assert len(text) < 300

"""What decides without a model, and what does not."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from judge.models import Judgement, Vote
from judge.votes import evidence, visible_rules
from judge.votes.evidence import Evidence
from training.config import Recipe

ASKED = (("user", "Run it."),)


def tool(*texts, reply='calls exec({"command": "make"})'):
    return Evidence(ASKED, reply, tuple(("tool", text) for text in texts))


@pytest.mark.parametrize(
    ("text", "codes"),
    [
        ("make: *** [all] Error 2\n\nCommand exited with code 2", [2]),
        ("(Command exited with code 1)", [1]),
        ("Exit code: 1\nWall time: 0.2 s\nOutput:\nno", [1]),
        ("Exit code 127\nsh: foo: not found", [127]),
        ("done\n[The command completed with exit code 0.]", [0]),
        ("<returncode>2</returncode>\n<output>no</output>", [2]),
        ("Process finished with exit code 3", [3]),
        ("no\nCommand failed with exit code 4.", [4]),
        ("no\nexit status 2", [2]),
        ("Exit code: -9", [-9]),
        ("no\nExit code:2", [2]),
        ("Exit code: 1\nOutput:\nno\nExit code: 1", [1]),
        ("Exit code: 0\nOutput:\nthe page\nExit code: 1", []),  # one is the tool's, which is unknown
        ("exit code 1\nthe page\n[The command completed with exit code 0.]", []),
        ("notes\nreturn code 3", []),
        ("web-1 exited with code 4", []),
        ("## Exit code: 3", []),
        ("- exit code 3", []),
        ("exit codes\n3", []),
        ("What does it mean?\nExit code: 3?", []),
        ('{"output": "no", "metadata": {"exit_code": 1}}', [1]),
        ('{"result": {"stderr": "no", "exitCode": 1}}', [1]),
        ('{"aggregated_output": "no", "exit_code": 1}', [1]),
        ('{"stdout": "", "returncode": 0}', [0]),
        ('{"exit_code": 7, "msg": "the door is open"}', []),
        ('{"docs": {"exit_code": 7}}', []),
        ('{"a": {"stdout": ""}, "b": {"exit_code": 7}}', []),
        ('{"exit_code": true}', []),
        ('{"exit_code": "1"}', []),
        ("{ echo; }\nexit code: 1", [1]),
        ("The manual says that exit code 2 means trouble.", []),
        ("a\nexit code 1\nb", []),  # neither the first line nor the last
        ("12 notes.txt", []),
        ("", []),
    ],
)
def test_exit_codes_are_read_where_they_stand_alone(text, codes):
    assert visible_rules.exit_codes(text) == codes


@pytest.mark.parametrize(
    ("name", "arguments", "reward"),
    [
        ("exec", '{"command": "make"}', -1),
        ("Bash", '{"command": "make"}', -1),
        ("run_command", "{}", -1),
        ("mcp__local__runTests", "{}", None),  # no name that is known to run commands: votes decide
        ("run_tests", "{}", -1),
        ("", "{}", -1),
        ("fetch", '{"url": "https://example.org"}', None),
        ("exec", '{"command": "curl https://example.org/log"}', None),
        ("read", '{"path": "notes.txt"}', None),
        ("get_issue", '{"number": 4}', None),
        ("get_latest_news", "{}", None),
        ("transcript", "{}", None),
    ],
)
@pytest.mark.parametrize(
    "result", ["words\nExit code: 1", "no\n\nCommand exited with code 2", '{"output": "no", "exit_code": 7}']
)
def test_only_tools_that_run_commands_fail_by_an_exit_code(serve, name, arguments, reward, result):
    call = {"id": "call_1", "type": "function", "function": {"name": name, "arguments": arguments}}
    turn = serve(reply="", message={"role": "assistant", "tool_calls": [call]})
    turn.next_state = [{"role": "tool", "tool_call_id": "call_1", "content": result}]
    assert evidence.of(turn).reward == reward


def test_a_page_beside_a_command_neither_fails_it_nor_hides_its_failure(serve):
    calls = [
        {"id": name, "type": "function", "function": {"name": name, "arguments": "{}"}} for name in ("fetch", "exec")
    ]
    turn = serve(reply="", message={"role": "assistant", "tool_calls": calls})
    page = {"role": "tool", "tool_call_id": "fetch", "content": "words\nExit code: 2"}
    for code, reward in ((0, None), (2, -1)):
        result = {"role": "tool", "tool_call_id": "exec", "content": f"Exit code: {code}\nOutput:"}
        turn.next_state = [{"role": "system", "content": "x"}, page, result]
        assert evidence.of(turn).reward == reward


def test_of_a_tool_without_a_name_counts_what_else_was_read(serve):
    call = {"id": "call_1", "type": "function", "function": {"name": "fetch", "arguments": "{}"}}
    loop = [{"role": "user", "content": "Run it."}, {"role": "assistant", "tool_calls": [call]}]
    page = {"role": "tool", "tool_call_id": "call_1", "content": "words"}
    turn = serve(reply="", next_state="no\nExit code: 2", role="tool", messages=loop[:1])
    assert evidence.of(turn).reward == -1
    turn.messages = [*loop, page]
    assert evidence.of(turn).reward is None


@pytest.mark.parametrize("origin", ["web", "file"])
def test_text_of_the_web_or_of_a_file_is_voted_on_whatever_exit_code_it_says(origin):
    seen = Evidence(ASKED, "calls look({})", (("tool", "words\nExit code: 2"),), origins=frozenset({origin}))
    assert seen.reward is None


@pytest.mark.parametrize(
    ("text", "reward"),
    [
        ("Nothing changed on the screen.", -1),
        ("[nothing has changed on the screen]\n1 button Submit", -1),
        ("Nothing changed.", None),  # as a comparison answers
        ("Nothing changed on the screen, but the sound is on.", None),
        ("1 button Submit\nNothing changed on the screen.", None),  # what the screen itself shows
    ],
)
@pytest.mark.parametrize("role", ["tool", "environment"])
def test_an_action_that_changed_nothing_on_the_screen_is_negative(text, reward, role):
    assert Evidence(ASKED, "calls click(1)", ((role, text),)).reward == reward
    assert Evidence(ASKED, "calls click(1)", (("user", text),)).reward is None


@given(st.text())
def test_any_tool_result_is_read_without_an_error(text):
    assert all(isinstance(code, int) for code in visible_rules.exit_codes(text))


def test_a_failed_command_is_negative_and_a_command_that_did_not_fail_earns_nothing():
    assert (tool("no\nexit code 2").reward, tool("no\nexit code 2").reward_from) == (-1, "rule")
    assert tool("no\nexit code 2").rule == "exit code"
    assert tool("yes\nexit code 0").reward is None
    assert tool("yes").reward is None


def test_one_failure_among_parallel_results_is_a_failure():
    assert tool("yes\nexit code 0", "fine", "no\nexit code 1").reward == -1


@pytest.mark.parametrize("command", ["grep x y", "ls | grep x", "diff a b", "cd x && git diff --quiet y", "test -f x"])
def test_exit_code_one_of_a_command_that_answers_by_it_is_no_failure(command):
    assert tool("exit code 1", reply=f'calls exec({{"command": "{command}"}})').reward is None
    assert tool("exit code 2", reply=f'calls exec({{"command": "{command}"}})').reward == -1


@pytest.mark.parametrize("code", visible_rules.OUTSIDE)
def test_what_was_stopped_from_outside_is_no_failure_of_the_action(code):
    assert tool(f"exit code {code}").reward is None


def test_only_tools_have_exit_codes():
    assert Evidence(ASKED, "Done.", (("user", "exit code 1"),)).reward is None


@pytest.mark.parametrize(
    ("output", "reward"),
    [
        ("===== 1 failed, 3 passed in 0.12s =====", -1),
        ("===== 4 passed in 0.12s =====", 1),
        ("Ran 3 tests in 0.001s\n\nOK", 1),
        ("Ran 3 tests in 0.001s\n\nFAILED (failures=1)", -1),
        ("Tests:       1 failed, 2 passed, 3 total", -1),
        ("Tests:       0 failed, 2 passed, 2 total", 1),
        ("--- FAIL: TestAdd (0.00s)\nFAIL\nexit status 1", -1),
        ("ok  \texample/add\t0.002s", 1),
        ("test result: ok. 3 passed; 0 failed; 0 ignored", 1),
        ("test result: FAILED. 2 passed; 1 failed", -1),
        ("collected 0 items", None),
        ("check max_words: FAIL, 83 > 50", -1),
        ("counter = 100000, PASS", 1),
        ("5 PASSED, 0 FAILED", 1),
        ("passed: 5, FAILED: 0\nall PASS", 1),
        ("infrastructure error: container could not be started", None),
        ("we hope that it will not fail to pass muster", None),
        ("exit code 0", 1),
        ("exit code 1", -1),
    ],
)
def test_what_a_test_runner_printed_decides(output, reward):
    seen = Evidence(ASKED, "Done.", (("test", output),))
    assert (seen.next_role, seen.reward) == ("test", reward)


def test_people_outrank_tests_and_tests_outrank_exit_codes():
    failing = (("tool", "exit code 1"),)
    assert Evidence(ASKED, "", failing, tested=1).rule == "test verdict"
    assert Evidence(ASKED, "", failing, tested=1).reward == 1
    seen = Evidence(ASKED, "", failing, tested=-1, thumb=1)
    assert (seen.reward, seen.reward_from, seen.rule) == (1, "thumb", "")


def test_every_rule_says_what_it_does():
    assert len({rule.name for rule in visible_rules.RULES}) == len(visible_rules.RULES)
    for rule in visible_rules.RULES:
        assert rule.sentence.endswith(".")
        assert rule.looks_for.endswith(".")
        assert rule.reward_from in ("test", "rule")
        assert len(rule.name) <= 40


def test_a_rule_is_the_verdict_and_asks_no_judge(serve, judge_it, engine):
    turn = serve(reply='calls exec({"command": "make"})', next_state="no rule\nexit code 2", role="tool")
    judge_it(turn, Recipe(w_opd=0))
    judgement = Judgement.objects.get(turn=turn)
    assert (judgement.reward, judgement.reward_from, judgement.rule, judgement.confidence) == (
        -1,
        "rule",
        "exit code",
        1.0,
    )
    assert judgement.sample.reward == -1
    assert not Vote.objects.exists()
    assert engine.asked("generate") == []

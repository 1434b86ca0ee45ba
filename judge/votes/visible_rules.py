"""The visible rules: events that decide a reward without a model. Pure: evidence in, a reward or nothing out.

The order of what decides: a reviewer, a person's thumb, a test, a rule, votes. What no rule decides is voted on: above
all, that a call did not fail earns nothing.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from django.utils.translation import gettext as _
from django.utils.translation import gettext_noop

CODE_FIELDS = ("exit_code", "exitCode", "exitcode", "returncode", "return_code", "returnCode", "exit_status")

BESIDE = ("stdout", "stderr", "output", "aggregated_output")
"""What stands beside an exit code in the result of a command. A lone `exit_code` may be anything's."""

LINE = re.compile(
    r"[(\[]?(?:(?:the )?(?:command|process|script|program|shell) (?:has )?"
    r"(?:exited|finished|completed|failed|ended|terminated) with (?:an? )?(?:exit )?(?:code|status)"
    r"|exit (?:code|status))(?: of |: ?| )(-?\d{1,10})\.?[)\]]?\.?"
    r"|<returncode>(-?\d{1,10})</returncode>",
    re.IGNORECASE,
)
"""A line that says an exit code and nothing else, as the tools of agents write it: "Exit code: 2", "Command exited with
code 2", "[The command completed with exit code 2.]", "<returncode>2</returncode>"."""

ANSWERS = re.compile(
    r"""(?:["';|&(`$]|\\n)\s*(?:sudo )?(?:[ef]?grep|rg|diff|cmp|test|\[|pgrep|which|git (?:diff|grep))\s"""
)
"""Commands whose exit code 1 is an answer ("not found", "they differ") and no failure."""

OUTSIDE = (124, 130, 137, 143)
"""Exit codes of what was stopped from outside (a time limit, a person, memory): they say nothing of the action."""

FAILED = re.compile(
    r"\b[1-9]\d* (?:tests? )?(?:failed|failures?|failing|errors?)\b|^\W{0,20}(?:FAILED|FAIL|ERROR)\b"
    r"|(?-i:(?<!\b0 )\bFAIL(?:ED)?\b(?!\s*[:=]\s*0))"
    r"|\b(?:failures|errors|failed)\s*[=:]\s*[1-9]|\btest result: FAILED\b|\btests? failed\b",
    re.IGNORECASE | re.MULTILINE,
)
PASSED = re.compile(
    r"\b[1-9]\d* (?:tests? )?(?:passed|passing)\b|^\W{0,20}(?:OK|PASS|PASSED|ok)\b|\btest result: ok\b|\bPASS(?:ED)?\b"
    r"|\btests? (?:have )?passed\b",
    re.MULTILINE,
)
"""What the common test runners say at their end."""


UNCHANGED = re.compile(r"\W*nothing (?:has )?changed on the screen\W*", re.IGNORECASE)
"""A first line that says no more than that. Without the screen it may be an answer, as of a comparison."""

TEST_VERDICT = gettext_noop("test verdict")
"""The one rule that outranks a world's own score: a person had the reply tested."""


class Checkable(Protocol):
    """What rules read of a turn; judge.votes.evidence.Evidence is one, and asks them for its reward."""

    @property
    def reply(self) -> str: ...
    @property
    def next_state(self) -> tuple[tuple[str, str], ...]:
        """(role, text) of what came back."""

    @property
    def tested(self) -> int | None:
        """1: tests passed, -1: they failed."""

    @property
    def command_results(self) -> tuple[str, ...]: ...


@dataclass(frozen=True)
class Rule:
    """One rule, as the console shows it; its words are English, and pages translate them."""

    name: str
    sentence: str
    looking: str
    reward_from: str
    """test | rule"""
    decide: Callable[[Checkable], int | None]

    @property
    def looks_for(self) -> str:
        """What it looks for, in the reader's language."""
        fields = {"codes": CODE_FIELDS, "beside": BESIDE, "outside": map(str, OUTSIDE)}
        return _(self.looking) % {name: ", ".join(words) for name, words in fields.items()}


def by_test(seen: Checkable) -> int | None:
    return seen.tested


def by_exit_code(seen: Checkable) -> int | None:
    codes = [code for text in seen.command_results for code in exit_codes(text)]
    answers = ANSWERS.search(seen.reply) is not None
    failed = [code for code in codes if code and code not in OUTSIDE and not (code == 1 and answers)]
    return -1 if failed else None


def by_test_output(seen: Checkable) -> int | None:
    texts = [text for role, text in seen.next_state if role == "test"]
    codes = [code for text in texts for code in exit_codes(text)]
    if any(codes) or any(FAILED.search(text) for text in texts):
        return -1
    return 1 if codes or any(PASSED.search(text) for text in texts) else None


def by_screen(seen: Checkable) -> int | None:
    shown = [text.strip().split("\n", 1)[0] for role, text in seen.next_state if role in ("tool", "environment")]
    return -1 if shown and all(UNCHANGED.fullmatch(line) for line in shown) else None


RULES = (
    Rule(
        name=TEST_VERDICT,
        sentence=gettext_noop("A test of the reply decides: 1 when it passed, -1 when it failed."),
        looking=gettext_noop(
            "A verdict sent to the feedback API with outcome passed or failed, or with an exit code. Several are "
            "counted, and when they balance nothing is decided."
        ),
        reward_from="test",
        decide=by_test,
    ),
    Rule(
        name=gettext_noop("test output"),
        sentence=gettext_noop(
            "What a test runner printed decides: -1 when anything failed, 1 when something passed and nothing failed."
        ),
        looking=gettext_noop(
            "A next state of the role test, as files of follow-ups have it: an exit code, else the words of pytest, "
            "unittest, jest, go and cargo for what passed and failed."
        ),
        reward_from="test",
        decide=by_test_output,
    ),
    Rule(
        name=gettext_noop("exit code"),
        sentence=gettext_noop(
            "A tool result whose command failed makes the turn -1. An exit code of zero alone earns nothing: then "
            "votes decide."
        ),
        looking=gettext_noop(
            "A first or last line such as Exit code: 2 or Command exited with code 2, or a JSON result with one of "
            "%(codes)s beside one of %(beside)s. Only of tools that run commands: what a page or a file says of exit "
            "codes is voted on, and so is a result that says two. Not counted: code 1 after grep, diff, test and the "
            "like, where it answers, and %(outside)s, where the command was stopped from outside."
        ),
        reward_from="rule",
        decide=by_exit_code,
    ),
    Rule(
        name=gettext_noop("nothing changed"),
        sentence=gettext_noop("An action after which a world says that nothing changed makes the turn -1."),
        looking=gettext_noop(
            "Nothing changed on the screen, as the whole first line of each tool result or of what an environment "
            "shows."
        ),
        reward_from="rule",
        decide=by_screen,
    ),
)
"""All of them; the first that decides counts."""


def decided(seen: Checkable) -> tuple[Rule, int] | None:
    """The rule that decides this evidence, and its reward; None where none does."""
    for rule in RULES:
        if (reward := rule.decide(seen)) is not None:
            return rule, reward
    return None


def exit_codes(text: str) -> list[int]:
    """What a tool result says its command ended with; nothing where its first and its last line say different things:
    one of them is the tool's, and the other what the command wrote.

    >>> exit_codes("cat: x: No such file\\n\\nCommand exited with code 1"), exit_codes('{"output": "", "exit_code": 0}')
    ([1], [0])
    >>> exit_codes("The manual says that exit code 2 means trouble."), exit_codes("Exit code: 0\\n\\nExit code: 2")
    ([], [])
    """
    if text.lstrip().startswith("{"):
        try:
            return list(_fields(json.loads(text)))
        except (ValueError, RecursionError):
            pass  # it only begins like an object
    lines = [line.strip() for line in text.strip().splitlines() if line.strip()]
    ends = (lines[0], lines[-1]) if lines else ()
    codes = {int(found[1] or found[2]) for line in ends if (found := LINE.fullmatch(line))}
    return list(codes) if len(codes) == 1 else []


def _fields(result: Any) -> Iterator[int]:
    """Exit codes of a command's result and of the objects directly in it."""
    if isinstance(result, Mapping):
        for part in (result, *(value for value in result.values() if isinstance(value, Mapping))):
            if not any(name in part or name in result for name in BESIDE):
                continue
            for name in CODE_FIELDS:
                if isinstance(part.get(name), int) and not isinstance(part[name], bool):
                    yield part[name]

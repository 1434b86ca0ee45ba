"""Score an agent's work in a sandbox that the agent never had, and say whose fault a missing verdict is."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal

from environments.errors import SandboxEnded, SandboxRefused, SandboxUnavailable
from environments.sandboxes.choosing import open_sandbox
from environments.sandboxes.sandbox import WORK, Mount, Result, Sandbox, Wants
from environments.sandboxes.scores import Unreadable, read_verdict
from environments.sandboxes.trees import HOOKS, Tree

TESTS = "/tests"
LOGS = "/logs"
VERDICTS = f"{LOGS}/verifier"
"""Where a verifier writes reward.txt or reward.json, as Harbor's do. An agent's own sandbox has no such folder."""

ENVIRONMENT = {
    "PYTHONSAFEPATH": "1",  # a script's own folder and the current one are no place to import from
    "PYTHONNOUSERSITE": "1",
    "PYTHONDONTWRITEBYTECODE": "1",
    "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
    "HOME": "/nonexistent",  # no start-up file of the agent's is a user's own
}


STEERING = re.compile(
    r"PATH|IFS|ENV|HOME|SHELL|SHELLOPTS|PS4|CDPATH|EDITOR|PAGER|TMPDIR"
    r"|(?:LD|DYLD|PYTHON|PYTEST|BASH|PERL5?|RUBY|NODE|GIT|GCONV|LOC|JAVA)_?\w*"
)
"""Names of variables that decide what a program runs or loads."""


@dataclass(frozen=True)
class Score:
    """What an attempt came to. `outcome` is None for infra_error, which teaches nothing."""

    status: Literal["scored", "failed", "infra_error"]
    outcome: float | None
    reason: str
    output: str = ""
    """The end of what the verifier printed."""


NOTHING = Tree({})
PLAIN = Wants()


@dataclass(frozen=True)
class Verifier:
    """How a task's work is scored: a command, tests that come from outside, and the range of its verdict."""

    command: tuple[str, ...]
    tests: Tree
    runs: tuple[str, ...] = ()
    """A command that runs the work first, in a sandbox without tests or verdicts; what it leaves is what is scored.

    So no process of the work's is alive where the verdict is written.
    """
    originals: Tree = NOTHING
    """The task's own files. Its hooks (conftest.py and the like) are put back in place of an agent's."""
    wants: Wants = PLAIN
    timeout_s: float = 60.0
    lowest: float = 0.0
    highest: float = 1.0
    cwd: str = TESTS
    places: tuple[str, ...] = ()
    """The folders that hold the work, where it is not /box alone; then its paths count from /."""
    env: Mapping[str, str] = field(default_factory=dict)
    """Variables of the task's. Those by which work could run in place of tests are not taken (`harmless`)."""
    qualified: bool = False
    """It scored the oracle and the untouched state, so a verdict that is missing is the doing of what it scored."""
    open: Callable[[Wants], Sandbox] = open_sandbox

    def score(self, work: Tree) -> Score:
        """Score `work` in a sandbox of its own. Never raises for what the work does."""
        if self.runs:
            try:
                work = self._run(work)
            except (SandboxUnavailable, SandboxRefused) as error:
                return Score("infra_error", None, str(error))
            except (SandboxEnded, OSError) as error:
                return self._missing(str(error))
        with tempfile.TemporaryDirectory(prefix="talkback-tests-") as staged:
            folder = Path(staged) / "tests"
            self.tests.write(folder, for_everyone=True)
            Path(staged).chmod(0o755)
            wants = replace(
                self.wants,
                mounts=(*self.wants.mounts, Mount(folder, TESTS)),
                scratch=(*self.wants.scratch, LOGS),
            )
            try:
                sandbox = self.open(wants)
            except (SandboxUnavailable, SandboxRefused) as error:
                return Score("infra_error", None, str(error))
            try:
                with sandbox:
                    result, verdicts = self._verify(sandbox, work)
            except (SandboxEnded, OSError) as error:
                return self._missing(str(error))
        output = (result.out + result.err)[-4000:].decode(errors="replace")
        if result.timed_out:
            return self._missing(f"The verifier did not end within {self.timeout_s:g} s.", output)
        if result.status > 128:  # what it ran may have written a verdict and then ended it
            return self._missing(f"The verifier was ended by signal {result.status - 128}.", output)
        try:
            return Score("scored", read_verdict(verdicts, self.lowest, self.highest), "The verifier's verdict.", output)
        except Unreadable as error:
            return self._missing(str(error), output)

    def _verify(self, sandbox: Sandbox, work: Tree) -> tuple[Result, Tree]:
        self._bring(sandbox, work)
        sandbox.run(["mkdir", "-p", VERDICTS, self.cwd], timeout_s=10)
        result = sandbox.run(list(self.command), timeout_s=self.timeout_s, env=self._variables, cwd=self.cwd)
        return result, sandbox.read_tree(VERDICTS)

    def _run(self, work: Tree) -> Tree:
        with self.open(self.wants) as sandbox:
            self._bring(sandbox, work)
            if self.cwd != TESTS:
                sandbox.run(["mkdir", "-p", self.cwd], timeout_s=10)
            cwd = WORK if self.cwd == TESTS else self.cwd
            sandbox.run(list(self.runs), timeout_s=self.timeout_s, env=self._variables, cwd=cwd)
            return read_work(sandbox, self.places)

    @property
    def _variables(self) -> dict[str, str]:
        return {**harmless(self.env), **ENVIRONMENT}

    def _bring(self, sandbox: Sandbox, work: Tree) -> None:
        own = [name for name in self.originals.files if name not in self.originals.without(HOOKS).files]
        hooks = Tree({name: self.originals.files[name] for name in own})
        sandbox.write_tree(hooks.over(work.without(HOOKS)), "/" if self.places else WORK)

    def _missing(self, reason: str, output: str = "") -> Score:
        if self.qualified:
            return Score("failed", self.lowest, f"{reason} The same verifier scored the oracle.", output)
        return Score("infra_error", None, f"{reason} This verifier has not scored the oracle.", output)

    def finish(self, agent: Sandbox) -> Score:
        """Take the work out of an agent's sandbox, end it, and only then score."""
        try:
            work: Tree | None = read_work(agent, self.places)
        except SandboxEnded:  # what ran in there ended it: there is no work, and that is no fault of ours
            work = None
        try:
            agent.kill()
        except SandboxEnded as error:
            return Score("infra_error", None, str(error))
        if work is None:
            return Score("failed", self.lowest, "The agent's sandbox ended before its work was taken out.")
        return self.score(work)


def read_work(sandbox: Sandbox, places: Sequence[str] = ()) -> Tree:
    """Take the work out of a sandbox: /box with paths from there, or these folders with paths from /.

    Raises SandboxEnded, also for more files than travel.
    """
    if not places:
        return sandbox.read_tree()
    work = NOTHING
    try:
        for place in places:
            work = sandbox.read_tree(place).below(place.strip("/")).over(work)
    except ValueError as error:
        raise SandboxEnded(f"The sandbox's files cannot be read: {error}") from error
    return work


def harmless(variables: Mapping[str, str]) -> dict[str, str]:
    """Those of a task's variables that make no shell, loader or interpreter run what lies in the work.

    >>> harmless({"PATH": "/app/bin", "LD_PRELOAD": "/app/x.so", "PORT": "80"})
    {'PORT': '80'}
    """
    return {name: value for name, value in variables.items() if not STEERING.fullmatch(name)}


class Unscorable(ValueError):
    """The verifier cannot tell a solution from nothing; the sentence says how."""


def qualify(verifier: Verifier, oracle: Tree, untouched: Tree) -> Verifier:
    """Score the oracle's work and the untouched state, and return the verifier as one that may blame an agent.

    Raises Unscorable unless the oracle reaches the highest score and the untouched state does not.
    """
    plain = replace(verifier, qualified=False)
    right, nothing = plain.score(oracle), plain.score(untouched)
    for name, score in (("oracle", right), ("untouched state", nothing)):
        if score.outcome is None:
            raise Unscorable(f"The {name} got no verdict: {score.reason}")
    if right.outcome != verifier.highest:
        raise Unscorable(f"The oracle scored {right.outcome:g}, not {verifier.highest:g}.")
    if nothing.outcome == verifier.highest:
        raise Unscorable(f"Doing nothing scored {verifier.highest:g}.")
    return replace(verifier, qualified=True)

"""Before a task is played: the reference must pass all of its tests, and the untouched repository must not."""

from __future__ import annotations

import tempfile
import time
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path

from environments.errors import SandboxRefused, SandboxUnavailable, Unplayable
from environments.sandboxes.choosing import Kind, open_sandbox
from environments.sandboxes.trees import Tree
from environments.worlds.checks import Checked
from environments.worlds.repo.instances import Instance, Layout
from environments.worlds.repo.mirrors import Refused, commit_fresh
from environments.worlds.repo.submissions import Submission, submit
from environments.worlds.repo.verifying import Examiner, Run


@dataclass(frozen=True)
class Prepared:
    """A task that can be played. `checkout` is a folder of the host with the base as one commit."""

    task: Instance
    layout: Layout
    examiner: Examiner
    checkout: Path
    _holder: tempfile.TemporaryDirectory[str]
    """Removes the checkout when the last of us is gone."""

    def submit(self, after: Tree) -> Submission:
        return submit(self.layout.base, after, self.layout.hidden, frozenset(self.layout.gone))


def checked(task: Instance, kind: Kind | None = None) -> tuple[Checked, Prepared | None]:
    """Check a task; it comes prepared where it can be played. Never raises for what is wrong with it."""
    start = time.monotonic()
    prepared, reason, is_lasting = None, "", True
    try:
        prepared = prepare(task, kind)
    except (SandboxUnavailable, SandboxRefused) as error:
        reason, is_lasting = str(error), False
    except (Unplayable, ValueError, OSError) as error:
        reason = str(error)
    oracle, nothing = (1.0, 0.0) if prepared else (None, None)
    seconds = round(time.monotonic() - start, 2)
    return Checked(task.id, reason, oracle, nothing, seconds, is_lasting=is_lasting), prepared


def prepare(task: Instance, kind: Kind | None = None) -> Prepared:
    """Raises Unplayable, SandboxUnavailable, SandboxRefused, ValueError for more files than travel."""
    layout = task.lay_out()
    examiner = Examiner(task.tests, layout.hidden, layout.gone, open=lambda wants: open_sandbox(wants, kind))
    where = f"{task.id}: unscorable: "
    handed_in = submit(layout.base, layout.gold, layout.hidden, frozenset(layout.gone))
    if not handed_in.changed:
        raise Unplayable(f"{where}its reference changes nothing that an agent may. {' '.join(handed_in.notes)}".strip())
    with ThreadPoolExecutor(3) as threads:  # most of a run is the wait for a sandbox and its pytest
        of_gold = threads.submit(examiner.run, handed_in.files)
        of_second = threads.submit(examiner.run, handed_in.files, as_impossible=True)
        of_untouched = threads.submit(examiner.run, layout.base)

    def passed(of: Future[Run], what: str, files: Tree, *, as_impossible: bool = False) -> dict[str, bool]:
        seen = of.result()
        if seen.passed is None:  # three at a time may have been too slow: once more, alone
            seen = examiner.run(files, as_impossible=as_impossible)
        return _passed(seen, f"{where}{what}")

    gold = passed(of_gold, "the reference", handed_in.files)
    if missed := [test for test in task.tests if not gold.get(test)]:
        said = " ".join(handed_in.notes)
        raise Unplayable(
            f"{where}the reference misses {len(missed)} of {len(task.tests)} tests: {missed[0]}. {said}".strip()
        )
    second = passed(of_second, "the reference with impossible tests", handed_in.files, as_impossible=True)
    impossible = frozenset(test for test in task.tests if second.get(test) is False)
    if not impossible.intersection(task.fail_to_pass):
        raise Unplayable(f"{where}no test of FAIL_TO_PASS can be told from one that is made to fail.")
    untouched = passed(of_untouched, "the untouched repository", layout.base)
    if all(untouched.get(test) for test in task.fail_to_pass):
        raise Unplayable(f"{where}the untouched repository passes all of FAIL_TO_PASS.")
    holder = tempfile.TemporaryDirectory(prefix="talkback-checkout-")
    Path(holder.name).chmod(0o755)
    checkout = Path(holder.name) / "repo"
    layout.base.write(checkout, for_everyone=True)
    try:
        commit_fresh(checkout)
    except Refused as error:
        raise Unplayable(f"{task.id}: its checkout cannot be made: {error}") from error
    for place in (checkout / ".git").rglob("*"):
        place.chmod(0o755 if place.is_dir() else 0o644)
    (checkout / ".git").chmod(0o755)
    return Prepared(task, layout, replace(examiner, impossible=impossible, qualified=True), checkout, holder)


def _passed(run: Run, what: str) -> dict[str, bool]:
    if run.passed is None:
        raise Unplayable(f"{what} got no verdict: {run.reason} {' '.join(run.output.split())[-300:]}".strip())
    return dict(run.passed)

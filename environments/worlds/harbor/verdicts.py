"""Score a task's work in a sandbox that no agent had, and say what the attempt came to."""

from __future__ import annotations

import re
from dataclasses import replace

from environments.errors import Unplayable
from environments.sandboxes.sandbox import Wants
from environments.sandboxes.trees import Tree
from environments.sandboxes.verifier import Score, Verifier
from environments.worlds.base import Outcome
from environments.worlds.harbor.downloads import downloading_line
from environments.worlds.harbor.folders import Folder, Step
from environments.worlds.harbor.images import Image
from environments.worlds.pytest_packages import mount_pytest

TAP = re.compile(r"^(not )?ok \d+ - (.{1,80})$", re.MULTILINE)
MOST_CHECKS = 50


def verifier_of(folder: Folder, step: Step, image: Image, own: Image | None = None) -> Verifier:
    """The verifier of one step, in rooms like the agent's, or of its `own` image.

    Raises Unplayable for tests that download, or that need a pytest that the player has not.
    """
    if line := downloading_line(step.tests):
        raise Unplayable(
            f"{folder.name}: unscorable: tests/{line} needs the network, and a verifier has none: what it would fetch "
            "decides the score. Test with what the image has."
        )
    room = own or replace(image, archive=b"")  # all that is in it is the work
    wants = Wants(
        memory=room.wants.memory,
        disk=room.wants.disk,
        folders=tuple(sorted({*image.wants.folders, *room.wants.folders})),
        image=room.wants.image,
        mounts=mount_pytest() if "pytest_run.py" in step.tests.files else (),
    )
    return Verifier(
        command=("bash", f"/tests/{step.test}"),
        tests=step.tests,
        runs=("bash", "-c", "\n".join(step.collect)) if step.collect else (),
        wants=wants,
        timeout_s=step.verifier_s,
        cwd=room.workdir,
        places=image.places,
        env={**room.env, **step.verifier_env},
        open=lambda wanted: room.open(wants=wanted),
    )


def carried(work: Tree, artifacts: tuple[str, ...]) -> Tree:
    """What of the work is brought to a separate verifier.

    >>> from environments.sandboxes.trees import File
    >>> list(carried(Tree({"app/x": File(b""), "app/out/y": File(b"")}), ("/app/out",)).files)
    ['app/out/y']
    """
    starts = tuple(artifact.strip("/") for artifact in artifacts)

    def is_named(name: str) -> bool:
        return any(name == start or name.startswith(start + "/") for start in starts)

    files = {name: file for name, file in work.files.items() if is_named(name)}
    return Tree(files, work.left_out, tuple(filter(is_named, work.folders)))


def checks_of(output: str) -> dict[str, bool]:
    """The checks that a verifier named in TAP's lines.

    >>> checks_of("ok 1 - sorted\\nnot ok 2 - no line is lost\\n")
    {'sorted': True, 'no line is lost': False}
    """
    return {name.strip(): not failed for failed, name in TAP.findall(output)[:MOST_CHECKS]}


def outcome_of(scores: list[Score], folder: Folder, *, is_truncated: bool) -> Outcome:
    """2p - 1, with p the share of checks passed: of the last step, or the mean over all, where one that was not
    reached has none. A single step's share is its verifier's verdict."""
    if any(score.outcome is None for score in scores):
        return Outcome("infra_error", None)
    shares = [score.outcome or 0.0 for score in scores] + [0.0] * (len(folder.steps) - len(scores))
    share = shares[-1] if folder.takes_last else sum(shares) / len(shares)
    checks: dict[str, bool | float] = {"share": share}
    for step, score in zip(folder.steps, scores, strict=False):
        prefix = f"{step.name}: " if step.name else ""
        checks |= {f"{prefix}{name}": passed for name, passed in checks_of(score.output).items()}
    if is_truncated:
        return Outcome("truncated", 2 * share - 1, checks)
    return Outcome("solved" if share == 1.0 else "failed", 2 * share - 1, checks)

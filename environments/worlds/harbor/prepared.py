"""A task that is ready to be played: its image is made, and its verifiers stand."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

from environments.errors import Unplayable
from environments.sandboxes.choosing import Kind
from environments.sandboxes.sandbox import Sandbox
from environments.sandboxes.trees import Tree
from environments.sandboxes.verifier import Score, Verifier, read_work
from environments.worlds.harbor import harbor_folders, images, terminal_bench
from environments.worlds.harbor.folders import Folder
from environments.worlds.harbor.images import Image
from environments.worlds.harbor.verdicts import carried, verifier_of

SETUP = "setup.sh"


@dataclass(frozen=True)
class Prepared:
    folder: Folder
    image: Image
    verifiers: tuple[Verifier, ...]
    """Of each step."""

    def qualified(self) -> Prepared:
        """The same with verifiers that may blame an agent for a verdict that is missing."""
        return replace(self, verifiers=tuple(replace(each, qualified=True) for each in self.verifiers))

    def take(self, room: Sandbox) -> Tree:
        """End what runs in a room, and take the work out. Raises SandboxEnded."""
        work = read_work(room, self.image.places)
        is_chosen = self.folder.separate is not None and self.folder.artifacts
        return carried(work, self.folder.artifacts) if is_chosen else work

    def score(self, step: int, work: Tree) -> Score:
        return self.verifiers[step].score(work)

    def begin_step(self, room: Sandbox, step: int) -> None:
        """Lay out what a step brings of its own, and run its setup.sh. Raises SandboxEnded, Unplayable."""
        files = self.folder.steps[step].workdir
        if not files.files:
            return
        room.write_tree(files, self.image.workdir)
        if SETUP in files.files:
            said = room.run(["bash", SETUP], timeout_s=120, env=self.image.env, cwd=self.image.workdir)
            room.run(["rm", "-f", SETUP], timeout_s=20, cwd=self.image.workdir)
            if said.status:
                name = self.folder.steps[step].name
                raise Unplayable(f"{self.folder.name}: steps/{name}/workdir/{SETUP}: exit code {said.status}.")


def read(path: Path) -> Folder:
    """Read a task folder of any form. Raises Unplayable."""
    for reader in (harbor_folders, terminal_bench):
        if (path / reader.FILE).is_file():
            return reader.read(path)
    raise Unplayable(f"{path} has no task.toml and no task.yaml.")


def is_task(path: Path) -> bool:
    return any((path / reader.FILE).is_file() for reader in (harbor_folders, terminal_bench))


def prepare(folder: Folder, kind: Kind | None = None) -> Prepared:
    """Make its images and verifiers. Raises Unplayable, SandboxUnavailable."""
    for step in folder.steps:
        verifier_of(folder, step, NO_IMAGE)  # what cannot be scored is said before anything is built
    image = images.make(folder, folder.environment, kind)
    own = images.make(folder, folder.separate, image.kind) if folder.separate else None
    return Prepared(folder, image, tuple(verifier_of(folder, step, image, own) for step in folder.steps))


NO_IMAGE = Image("bubblewrap", images.Wants(), {}, images.WORK, (images.WORK,), b"")

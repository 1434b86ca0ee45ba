"""Read repositories from a folder of mirrors: the files of one commit, and those files with a patch.

Nothing is fetched: git runs without the network, without the user's settings and without hooks.
"""

from __future__ import annotations

import os
import subprocess
import tempfile
from pathlib import Path

from environments.errors import Unplayable
from environments.sandboxes.trees import MOST_BYTES, MOST_FILES, File, Tree, read_folder

SETTING = "REPO_MIRRORS"
"""The variable that names the folder; left out: `mirrors` beside the file of tasks."""
GIT_S = 120.0
ENVIRONMENT = {
    "PATH": os.defpath,
    "HOME": "/nonexistent",
    "LC_ALL": "C",
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_CONFIG_GLOBAL": "/dev/null",
    "GIT_NO_LAZY_FETCH": "1",
    "GIT_ALLOW_PROTOCOL": "",
    "GIT_NO_REPLACE_OBJECTS": "1",
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_AUTHOR_NAME": "Talkback",
    "GIT_AUTHOR_EMAIL": "talkback@localhost",
    "GIT_AUTHOR_DATE": "2000-01-01T00:00:00Z",
    "GIT_COMMITTER_NAME": "Talkback",
    "GIT_COMMITTER_EMAIL": "talkback@localhost",
    "GIT_COMMITTER_DATE": "2000-01-01T00:00:00Z",
}
REGULAR = {b"100644": 0o644, b"100755": 0o755}


class Refused(ValueError):
    """git said no; the message is what it said."""


def run_git(folder: Path, *arguments: str, stdin: bytes = b"") -> bytes:
    """Run git in a folder of the host and return what it printed. Raises Refused."""
    command = ["git", "-c", "safe.directory=*", "-c", "core.hooksPath=/dev/null", "-c", "core.fsmonitor=", *arguments]
    env = ENVIRONMENT | {"GIT_CEILING_DIRECTORIES": str(folder.resolve().parent)}
    try:
        said = subprocess.run(command, cwd=folder, env=env, input=stdin, capture_output=True, timeout=GIT_S)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise Refused(f"git: {error}") from error
    if said.returncode:
        raise Refused(said.stderr.decode(errors="replace").strip()[-300:])
    return said.stdout


def find_mirror(folder: Path, repo: str) -> Path:
    """The mirror of `OWNER/NAME`: OWNER/NAME, OWNER__NAME or NAME, plain or bare (.git). Raises Unplayable."""
    for name in (repo, repo.replace("/", "__"), repo.rpartition("/")[2]):
        if any(part in ("", ".", "..") for part in name.split("/")):
            break
        for place in (folder / name, folder / f"{name}.git"):
            if (place / ".git").exists() or (place / "HEAD").is_file():
                return place
    raise Unplayable(
        f"{folder} holds no mirror of {repo}: git clone --mirror it there, as {repo.replace('/', '__')}.git"
    )


def read_commit(mirror: Path, commit: str) -> Tree:
    """The files of a commit, as they are stored. Links and submodules are left out. Raises Unplayable."""
    if commit.startswith("-"):
        raise Unplayable(f"{mirror}: {commit!r} names no commit.")
    try:
        listed = run_git(mirror, "ls-tree", "-rz", "--full-tree", f"{commit}^{{commit}}")
        entries = _entries(listed)
        kept = [entry for entry in entries if entry[0] in REGULAR]
        if len(kept) > MOST_FILES:
            raise Unplayable(f"{mirror} has {len(kept)} files at {commit}: at most {MOST_FILES} are played.")
        contents = _contents(run_git(mirror, "cat-file", "--batch", stdin=b"".join(n + b"\n" for _, n, _ in kept)))
    except (Refused, UnicodeDecodeError) as error:
        raise Unplayable(f"{mirror}: {commit}: {error}") from error
    files = {name: File(content, REGULAR[mode]) for (mode, _, name), content in zip(kept, contents, strict=True)}
    if sum(len(file.content) for file in files.values()) > MOST_BYTES:
        raise Unplayable(f"{mirror} holds more than {MOST_BYTES} bytes at {commit}.")
    return Tree(files, tuple(name for mode, _, name in entries if mode not in REGULAR))


def _entries(listed: bytes) -> list[tuple[bytes, bytes, str]]:
    """Mode, object and path of each row: `<mode> <kind> <object>`, a tab, the path."""
    found = []
    for row in filter(None, listed.split(b"\0")):
        about, _, name = row.partition(b"\t")
        mode, _, number = about.split()
        found.append((mode, number, name.decode()))
    return found


def _contents(batch: bytes) -> list[bytes]:
    """The bodies of what cat-file --batch printed: `<object> blob <size>`, a line's end, the body, a line's end."""
    found, at = [], 0
    while at < len(batch):
        end = batch.index(b"\n", at)
        head = batch[at:end].split()
        if head[1] != b"blob":
            raise Refused(f"{head[0].decode()} is {head[1].decode()}")
        size = int(head[2])
        found.append(batch[end + 1 : end + 1 + size])
        at = end + 1 + size + 1
    return found


def patched(tree: Tree, patch: str, what: str, *, reverse: bool = False) -> Tree:
    """The files after a patch that git takes. Raises Unplayable, which says `what` does not apply."""
    if not patch.strip():
        return tree
    with tempfile.TemporaryDirectory(prefix="talkback-patch-") as folder:
        place = Path(folder) / "repo"
        tree.write(place)
        content = (patch if patch.endswith("\n") else patch + "\n").encode()
        try:
            run_git(place, "apply", "--whitespace=nowarn", *(["--reverse"] if reverse else []), "-", stdin=content)
        except Refused as error:
            raise Unplayable(f"{what} does not apply: {error}") from error
        return read_folder(place)


def commit_fresh(folder: Path) -> None:
    """Make a folder of the host a repository with one commit: no history, no reflog, no hooks. Raises Refused."""
    run_git(folder, "init", "--quiet", "--template=", "--initial-branch=main")
    run_git(folder, "config", "core.logAllRefUpdates", "false")
    run_git(folder, "add", "--all", "--force")
    run_git(folder, "commit", "--quiet", "--allow-empty", "--no-verify", "--message=The task begins.")

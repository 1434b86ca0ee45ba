"""Make what a task begins with: its files as an archive, its variables, its working folder, and where work may lie."""

from __future__ import annotations

import json
import os
import re
import shlex
import tempfile
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from environments.errors import SandboxEnded, SandboxUnavailable, Unplayable
from environments.sandboxes.choosing import CONFINED, Kind, open_sandbox
from environments.sandboxes.commands import run_bounded
from environments.sandboxes.sandbox import WORK, Result, Sandbox, Wants
from environments.worlds.harbor import dockerfiles
from environments.worlds.harbor.dockerfiles import Make, Put, Run
from environments.worlds.harbor.folders import Environment, Folder

SYSTEM = ("bin", "sbin", "lib", "lib32", "lib64", "libx32", "usr", "etc", "proc", "sys", "dev", "boot", "run")
OF_SCORING = ("tests", "logs", "solution", "oracle", "packages")
SCRATCH = ("tmp", WORK.strip("/"))
PATHS = re.compile(r"(?<![\w.~$}/:-])/([A-Za-z][\w.-]*)")
MOST_FOLDERS = 8
ARCHIVE = "/dev/shm/image.tar"  # noqa: S108 - a place inside a sandbox, not the host's
PACK = 'cd / && for each in "$@"; do [ -e "$each" ] && echo "$each"; done | tar --exclude=box/.tmp -cf - -T -'
UNPACK = f"cd / && tar -xpf {ARCHIVE} && rm {ARCHIVE}"


@dataclass(frozen=True)
class Image:
    """`wants` and `kind` open a room of it, `archive` is a tar of its folders, `places` are where work may lie."""

    kind: Kind
    wants: Wants
    env: Mapping[str, str]
    workdir: str
    places: tuple[str, ...]
    archive: bytes

    def open(self, *, wants: Wants | None = None) -> Sandbox:
        """A sandbox with the image's files. Raises SandboxUnavailable, SandboxRefused."""
        sandbox = open_sandbox(wants or self.wants, self.kind)
        try:
            if self.archive:
                sandbox.put(ARCHIVE, self.archive)
                _done(sandbox.run(["sh", "-c", UNPACK], timeout_s=60, cwd="/"), "The image's files cannot be laid out")
            sandbox.run(["mkdir", "-p", self.workdir], timeout_s=20, cwd="/")
        except (SandboxEnded, OSError) as error:
            sandbox.kill()
            raise SandboxUnavailable(f"A task's room could not be made: {error}") from error
        except BaseException:
            sandbox.kill()
            raise
        return sandbox


def make(folder: Folder, environment: Environment, kind: Kind | None = None) -> Image:
    """Make the image of a task's environment, in bubblewrap where it can honour it, else by docker or podman.

    Raises Unplayable with a sentence for each kind that cannot, SandboxUnavailable where no kind works.
    """
    makers: dict[Kind, Callable[[Folder, Environment, Kind], Image]]
    makers = {"bubblewrap": _in_bubblewrap, "docker": _in_container, "podman": _in_container}
    refusals, missing = [], []
    for name, maker in makers.items():
        if kind not in (None, name):
            continue
        if sentence := CONFINED[name][0]():
            missing.append(sentence)
            continue
        if environment.network == "allowlist" or (name == "bubblewrap" and environment.network != "no"):
            refusals.append(f"{folder.name}: {name} gives no network of the kind {environment.network}.")
            continue
        try:
            return maker(folder, environment, name)
        except Unplayable as refusal:
            refusals.append(str(refusal))
    if refusals:
        raise Unplayable(" ".join([*refusals, *missing]))
    raise SandboxUnavailable(" ".join(["No sandbox works on this machine.", *missing]))


def _in_bubblewrap(folder: Folder, environment: Environment, kind: Kind) -> Image:
    if environment.dockerfile is None:
        assert environment.image is not None
        dockerfiles.refuse_base(environment.image, f"{environment.file}: docker_image")
        plan = dockerfiles.Plan((), {}, "/")
    else:
        plan = dockerfiles.plan(environment.dockerfile, environment.file, environment.context)
    workdir = environment.workdir or (plan.workdir if plan.workdir != "/" else WORK)
    named = _named(folder, environment, workdir)
    folders = _folders(named, folder)
    wants = Wants(memory=environment.memory, disk=environment.disk, folders=folders)
    places = (*folders, WORK, *(("/tmp",) if "tmp" in named else ()))  # noqa: S108 - inside
    env = {**_home(folders), **plan.env, **environment.env}
    env["PATH"] = env.get("PATH") or PATH
    with open_sandbox(wants, kind) as room:
        try:
            _carry_out(room, plan, environment, {"HOME": env["HOME"]}, places)
            archive = _pack(room, places)
        except SandboxEnded as error:
            raise Unplayable(f"{environment.file}: {error}") from error
    return Image(kind, wants, env, workdir, places, archive)


PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


def _carry_out(
    room: Sandbox, plan: dockerfiles.Plan, environment: Environment, env: Mapping[str, str], places: Iterable[str]
) -> None:
    for action in plan.actions:
        match action:
            case Put(path, file, at):
                if path.startswith("/tests/"):
                    continue  # where a verifier's own tests are mounted
                if not any(path.startswith(place + "/") for place in places):
                    raise Unplayable(f"{at}: COPY to {path}: the system is read-only in bubblewrap.")
                room.put(path, file.content, mode=file.mode)
            case Make(path):
                _done(room.run(["mkdir", "-p", path], timeout_s=20, cwd="/"), f"{environment.file}: WORKDIR {path}")
            case Run(argv, cwd, variables, at):
                said = room.run(argv, timeout_s=environment.build_s, env={**env, **variables}, cwd=cwd)
                _done(said, f"{at}: RUN {argv[-1][:80]}")


def _pack(room: Sandbox, places: Iterable[str]) -> bytes:
    said = room.run(["sh", "-c", f"({PACK}) > {ARCHIVE}", "sh", *_inner(places)], timeout_s=60, cwd="/")
    _done(said, "The image's files cannot be packed: /dev/shm holds 16 MiB")
    try:
        return room.get(ARCHIVE)
    except FileNotFoundError as error:
        raise Unplayable(f"The image's files are too many: {error}") from error


def _inner(places: Iterable[str]) -> list[str]:
    """Places as an archive has them. /tmp may be a link, so what is in it is packed, and not it."""
    return ["tmp/." if place == "/tmp" else place.strip("/") for place in places]  # noqa: S108 - inside


def _done(said: Result, doing: str) -> None:
    if said.status or said.timed_out:
        words = (said.err or said.out).decode(errors="replace").strip()[-300:]
        how = "it took too long" if said.timed_out else f"exit code {said.status}"
        raise Unplayable(f"{doing}: {how}. {words}".strip())


def _named(folder: Folder, environment: Environment, workdir: str) -> set[str]:
    """The folders below / that a task names where it is made, or in its instruction and its oracle or tests."""
    scripts = [file for step in folder.steps for part in (step.solution, step.tests) for file in part.files.values()]
    of_scripts = {name for file in scripts for name in PATHS.findall(file.content.decode(errors="replace"))}
    of_instructions = {name for step in folder.steps for name in PATHS.findall(step.instruction)}
    made = {name for text in (workdir, environment.dockerfile or "") for name in PATHS.findall(text)}
    return made | (of_instructions & of_scripts)


def _folders(named: set[str], folder: Folder) -> tuple[str, ...]:
    """Those of them that are work's alone."""
    found = sorted(named.difference(SYSTEM, OF_SCORING, SCRATCH))
    if len(found) > MOST_FOLDERS:
        raise Unplayable(f"{folder.name} names {len(found)} folders below /, and {MOST_FOLDERS} are laid out at most.")
    return tuple(f"/{name}" for name in found)


def _home(folders: Iterable[str]) -> dict[str, str]:
    return {"HOME": "/root" if "/root" in folders else WORK}


def _in_container(folder: Folder, environment: Environment, kind: Kind) -> Image:
    """Built, or pulled, by the command line. The system is read-only there too: work lies in folders of their own."""
    tag = environment.image or _built(folder, environment, kind)
    config = _asked(kind, "image", "inspect", "--format={{json .Config}}", tag, pull=tag if environment.image else None)
    said = json.loads(config.out)
    workdir = environment.workdir or said.get("WorkingDir") or WORK
    workdir = WORK if workdir == "/" else workdir
    named = _named(folder, environment, workdir)
    folders = _folders(named, folder)
    places = (*folders, WORK, *(("/tmp",) if "tmp" in named else ()))  # noqa: S108 - inside
    network = environment.network
    wants = Wants(network=network, memory=environment.memory, disk=environment.disk, folders=folders, image=tag)
    packed = _asked(
        kind, "run", "--rm", "--network=none", "--entrypoint=", tag, "sh", "-c", PACK, "sh", *_inner(places)
    )
    if packed.cut:
        raise Unplayable(f"{folder.name}: the image's folders {', '.join(places)} hold more than 16 MiB.")
    variables = dict(each.partition("=")[::2] for each in said.get("Env") or [])
    return Image(kind, wants, {**_home(folders), **variables, **environment.env}, workdir, places, packed.out)


def _built(folder: Folder, environment: Environment, kind: Kind) -> str:
    assert environment.dockerfile is not None
    tag = f"talkback-harbor:{folder.digest[:16]}"
    with tempfile.TemporaryDirectory(prefix="talkback-image-") as staged:
        environment.context.write(Path(staged) / "context")
        recipe = Path(staged) / "Dockerfile"
        recipe.write_text(environment.dockerfile)
        context = str(Path(staged) / "context")
        _asked(kind, "build", "--quiet", f"--tag={tag}", f"--file={recipe}", context, timeout_s=environment.build_s)
    return tag


def _asked(kind: Kind, *arguments: str, timeout_s: float = 600.0, pull: str | None = None) -> Result:
    said = run_bounded([kind, *arguments], timeout_s=timeout_s, most_output=Sandbox.MOST_FILE, env=os.environ)
    if said.status and pull:
        _asked(kind, "pull", "--quiet", pull)
        return _asked(kind, *arguments, timeout_s=timeout_s)
    _done(said, f"{kind} {shlex.join(arguments[:2])}")
    return said

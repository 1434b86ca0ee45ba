"""Read a task folder of Harbor's form: task.toml (schema 1.0 to 1.4), instruction.md, environment, tests, solution."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import cast

from environments.errors import Unplayable
from environments.sandboxes.sandbox import MIB, Network
from environments.sandboxes.trees import Tree
from environments.worlds.harbor import compose
from environments.worlds.harbor.folders import (
    MOST_DISK,
    NOTHING,
    Environment,
    Folder,
    Step,
    digest_of,
    part,
    read_files,
    resolve,
    text_of,
    without_canary,
)
from environments.worlds.harbor.tables import Table, megabytes

FILE = "task.toml"
VERSIONS = ("1.0", "1.1", "1.2", "1.3", "1.4")
NETWORKS = {"no-network": "no", "allowlist": "allowlist", "public": "public"}
COMPOSES = ("docker-compose.yaml", "docker-compose.yml", "compose.yaml", "compose.yml")
ENVIRONMENT = (
    "network_mode", "allowed_hosts", "allow_internet", "build_timeout_sec", "docker_image", "os", "cpus", "memory_mb",
    "memory", "storage_mb", "storage", "gpus", "gpu_types", "tpu", "mcp_servers", "env", "skills_dir", "healthcheck",
    "workdir",
)  # fmt: skip


def read(path: Path) -> Folder:
    """Raises Unplayable with the file and the key of what is wrong."""
    files = read_files(path)
    try:
        said = tomllib.loads(text_of(files, FILE, path))
    except tomllib.TOMLDecodeError as error:
        raise Unplayable(f"{path / FILE}: {error}") from error
    top = Table(str(path / FILE), "", said)
    _refuse_version(top)
    top.only(
        *("schema_version", "version", "task", "metadata", "verifier", "agent", "environment", "solution", "source"),
        *("multi_step_reward_strategy", "steps", "artifacts"),
    )
    top.part("task").only("name", "version", "description", "authors", "keywords")
    agent, verifier, solution = top.part("agent"), top.part("verifier"), top.part("solution")
    agent.only("timeout_sec", "user", "network_mode", "allowed_hosts")
    agent.refuse("user", USER)
    solution.only("env")
    environment = _environment(path, files, top.part("environment"), agent, "environment")
    return Folder(
        name=path.name,
        digest=digest_of(files),
        steps=_steps(path, files, top, verifier),
        environment=environment,
        separate=_separate(path, files, top, verifier, environment),
        artifacts=_artifacts(top),
        solution_env=resolve(solution.get("env", "table of texts", {}), solution.at("env")),
        agent_s=agent.get("timeout_sec", "number", 600.0),
        takes_last=top.choose("multi_step_reward_strategy", ("mean", "final")) == "final",
        notes=tuple(top.notes),
    )


USER = "sandboxes have one user, and it is not root; leave it out."


def _refuse_version(top: Table) -> None:
    version = top.get("schema_version", "text") or top.get("version", "text") or "1.4"
    if version not in VERSIONS:
        raise Unplayable(f"{top.at('schema_version')} is {version!r:.80}: {VERSIONS[0]} to {VERSIONS[-1]} are read.")


def _environment(path: Path, files: Tree, table: Table, phase: Table, folder: str) -> Environment:
    """`phase` is the table whose network_mode goes before the environment's own."""
    table.only(*ENVIRONMENT)
    if table.get("os", "text", "linux").lower() != "linux":
        raise Unplayable(f"{table.at('os')}: only linux is played.")
    for key, why in (
        ("gpus", "sandboxes have no GPU."),
        ("tpu", "sandboxes have no TPU."),
        ("mcp_servers", "a terminal's agent has no MCP servers here."),
        ("healthcheck", "services that must be waited for are not started here."),
    ):
        table.refuse(key, why)
    table.note("skills_dir", "no skills are laid out.")
    table.note("cpus", "processors are not bounded.")
    context = part(files, folder)
    dockerfile = context.files.get("Dockerfile")
    image = table.get("docker_image", "text")
    workdir = table.get("workdir", "text")
    env = resolve(table.get("env", "table of texts", {}), table.at("env"))
    text, file = (dockerfile.content.decode(errors="replace") if dockerfile else None), f"{folder}/Dockerfile"
    if name := next((name for name in COMPOSES if name in context.files), None):
        service = compose.read(str(path / folder / name), context.files[name].content)
        image, workdir, env = image or service.image, workdir or service.workdir, {**service.env, **env}
        if service.dockerfile:
            file = f"{folder}/{service.dockerfile}"
            text = text_of(context, service.dockerfile, path / folder)
    if text is None and image is None:
        raise Unplayable(f"{path / folder} has no Dockerfile, and {table.at('docker_image')} is not given.")
    disk = (megabytes(table, "storage_mb", "storage") or 256) * MIB
    if disk > MOST_DISK:
        table.notes.append(f"{table.at('storage_mb')}: {MOST_DISK // MIB} are given.")
    return Environment(
        context=context,
        dockerfile=None if image else text,
        file=str(path / file),
        image=image,
        workdir=workdir,
        env=env,
        network=_network(table, phase),
        memory=(megabytes(table, "memory_mb", "memory") or 512) * MIB,
        disk=min(disk, MOST_DISK),
        build_s=table.get("build_timeout_sec", "number", 600.0),
    )


def _network(table: Table, phase: Table) -> Network:
    """Where nothing is said Harbor gives the public network, and this world none: then the oracle shows whether the
    task can be played so."""
    for each in (phase, table):
        if mode := each.choose("network_mode", tuple(NETWORKS)):
            return cast(Network, NETWORKS[mode])
    return "public" if table.get("allow_internet", "yes or no", False) else "no"


def _steps(path: Path, files: Tree, top: Table, verifier: Table) -> tuple[Step, ...]:
    tables = top.parts("steps")
    if not tables:
        tests = part(files, "tests")
        if "test.sh" not in tests.files and not _has_own_image(tests, verifier):
            raise Unplayable(f"{path / 'tests' / 'test.sh'} is missing.")
        return (_step(path, files, "", verifier, verifier),)
    steps = []
    for table in tables:
        table.only("name", "agent", "verifier", "min_reward", "healthcheck", "artifacts")
        table.refuse("healthcheck", "services that must be waited for are not started here.")
        table.refuse("artifacts", "artifacts are those of the whole task here.")
        name = table.get("name", "text", "")
        if not re.fullmatch(r"\w[\w.-]*", name):
            raise Unplayable(f"{table.at('name')} is {name!r:.80}: a step is named as its folder below steps/ is.")
        least = table.get("min_reward", "any")
        if isinstance(least, dict):
            least = least.get("reward")
        agent = table.part("agent")
        agent.only("timeout_sec", "network_mode")
        agent.note("network_mode", "the network is that of the whole task.")
        agent.note("timeout_sec", "the time is that of the whole task.")
        step = _step(path, files, name, table.part("verifier"), verifier)
        steps.append(Step(**{**vars(step), "least": least}))
    names = [step.name.lower() for step in steps]
    if len(set(names)) < len(names):
        raise Unplayable(f"{top.at('steps')}: two have one name.")
    return tuple(steps)


def _step(path: Path, files: Tree, name: str, table: Table, shared: Table) -> Step:
    """`table` is the step's own verifier, `shared` the task's; for a task of one step they are the same."""
    table.only(
        "timeout_sec", "env", "user", "environment_mode", "environment", "collect", "network_mode", "allowed_hosts"
    )
    table.refuse("user", USER)
    if table is not shared:
        table.refuse("environment", "a verifier's own environment is that of the whole task here.")
    if table.choose("network_mode", tuple(NETWORKS)) in ("public", "allowlist"):
        raise Unplayable(
            f"{table.at('network_mode')}: verifiers have no network, so that a score can be trusted twice."
        )
    folder = f"steps/{name}/" if name else ""
    tests = part(files, f"{folder}tests").over(part(files, "tests"))
    if name and "test.sh" not in tests.files:
        raise Unplayable(f"{path / folder / 'tests' / 'test.sh'} is missing.")
    collect = []
    for hook in table.parts("collect") or shared.parts("collect"):
        hook.only("command", "service", "timeout_sec", "user")
        hook.refuse("user", USER)
        if hook.get("service", "text", "main") != "main":
            raise Unplayable(f"{hook.at('service')}: there is one service here, main.")
        if not hook.get("command", "text"):
            raise Unplayable(f"{hook.at('command')} is missing.")
        collect.append(hook.get("command", "text"))
    env = {**shared.get("env", "table of texts", {}), **table.get("env", "table of texts", {})}
    return Step(
        name=name,
        instruction=without_canary(text_of(files, f"{folder}instruction.md", path)),
        tests=tests,
        test="test.sh",
        solution=part(files, f"{folder}solution"),
        workdir=part(files, f"{folder}workdir") if name else NOTHING,
        collect=tuple(collect),
        verifier_env=resolve(env, table.at("env")),
        verifier_s=table.get("timeout_sec", "number") or shared.get("timeout_sec", "number", 600.0),
    )


def _has_own_image(tests: Tree, verifier: Table) -> bool:
    return "Dockerfile" in tests.files or bool(verifier.part("environment").values.get("docker_image"))


def _separate(path: Path, files: Tree, top: Table, verifier: Table, agents: Environment) -> Environment | None:
    own = verifier.part("environment")
    mode = verifier.choose("environment_mode", ("shared", "separate"))
    if mode == "shared" and own.values:
        raise Unplayable(f"{verifier.at('environment_mode')} is shared, and [{own.name}] is given: leave one out.")
    if mode != "separate" and not own.values:
        return None
    if top.values.get("steps"):
        raise Unplayable(f"{verifier.at('environment_mode')}: separate is not played in tasks of several steps.")
    tests = part(files, "tests")
    if "Dockerfile" in tests.files or own.values.get("docker_image"):
        return _environment(path, files, own, verifier, "tests")
    own.only(*ENVIRONMENT)
    return agents


def _artifacts(top: Table) -> tuple[str, ...]:
    found = []
    for each in top.get("artifacts", "list", []):
        if isinstance(each, dict):
            table = Table(top.file, "artifacts", each, top.notes)
            table.only("source", "destination", "exclude", "service")
            table.refuse("exclude", "the whole of an artifact is brought here.")
            table.note("destination", "artifacts are brought to where they were.")
            each = table.get("source", "text", "")
        if not isinstance(each, str) or not each.startswith("/") or ".." in each.split("/"):
            raise Unplayable(f"{top.at('artifacts')} holds {each!r:.80}, and absolute paths belong there.")
        found.append(each)
    return tuple(found)

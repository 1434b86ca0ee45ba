"""Read a compose file of one service: the image, variables and working folder that it gives."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import yaml

from environments.errors import Unplayable
from environments.worlds.harbor.tables import Table

USED = ("build", "image", "environment", "working_dir")
WITHOUT_EFFECT = ("container_name", "command", "platform", "expose", "init", "stdin_open", "tty", "deploy", "restart")
"""Of a container that only waits for commands."""
OUTER = ("${T_BENCH_TASK_LOGS_PATH}", "${T_BENCH_TASK_AGENT_LOGS_PATH}", "${HOST_")
"""Volumes of the runner's own, for its logs."""


@dataclass(frozen=True)
class Service:
    image: str | None
    dockerfile: str | None
    """From the folder of the compose file."""
    workdir: str | None
    env: Mapping[str, str] = field(default_factory=dict)


def load(file: str, content: bytes) -> Mapping[str, Any]:
    """A YAML mapping. Raises Unplayable."""
    try:
        said = yaml.safe_load(content)
    except yaml.YAMLError as error:
        raise Unplayable(f"{file}: {' '.join(str(error).split())[:300]}") from error
    if not isinstance(said, dict):
        raise Unplayable(f"{file} holds no keys and values.")
    return said


def read(file: str, content: bytes) -> Service:
    """Raises Unplayable, by the key, for what one container without network or host cannot be."""
    top = Table(file, "", load(file, content))
    for key in top.values:
        if key not in ("services", "version", "name"):
            raise Unplayable(f"{top.at(str(key))}: a task is one container here, without networks or volumes.")
    services = top.get("services", "table", {})
    if len(services) != 1:
        raise Unplayable(f"{top.at('services')} are {', '.join(map(str, services)) or 'none'}: one is played.")
    (name,) = services
    if services[name] is None:
        return Service(None, None, None)
    service = top.part("services").part(name)
    for key, value in service.values.items():
        is_outer = key == "volumes" and isinstance(value, list) and all(str(each).startswith(OUTER) for each in value)
        if key not in (*USED, *WITHOUT_EFFECT) and not is_outer:
            raise Unplayable(f"{service.at(str(key))} is not honoured here.")
    build = service.values.get("build")
    if isinstance(build, dict):
        table = service.part("build")
        for key in table.values:
            if key not in ("context", "dockerfile"):
                raise Unplayable(f"{table.at(str(key))} is not honoured here.")
        context, dockerfile = table.get("context", "text", "."), table.get("dockerfile", "text", "Dockerfile")
    else:
        context, dockerfile = service.get("build", "text", "."), "Dockerfile"
    if build is not None and not context.startswith("${") and context.rstrip("/") != ".":
        raise Unplayable(f"{service.at('build')} has the context {context!r:.80}, and the folder itself is built here.")
    image = service.get("image", "text")
    if build is not None or (image and "$" in image):
        image = None  # the name that the runner would give to what is built
    workdir = service.get("working_dir", "text")
    return Service(image, dockerfile if build is not None else None, workdir, _variables(service))


def _variables(service: Table) -> dict[str, str]:
    said = service.values.get("environment") or {}
    if isinstance(said, list):
        said = dict(str(each).partition("=")[::2] for each in said)
    if not isinstance(said, dict):
        raise Unplayable(f"{service.at('environment')} is neither a list nor a table.")
    found = {str(name): "" if value is None else str(value) for name, value in said.items()}
    for name, value in list(found.items()):
        if name == "TEST_DIR":
            del found[name]  # where tests lie is not for the agent
        elif "${" in value:
            raise Unplayable(f"{service.at('environment')}: {name} asks for the host's variables.")
    return found

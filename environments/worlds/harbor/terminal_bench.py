"""Read a task folder of terminal-bench's form: task.yaml, Dockerfile, tests/test_outputs.py, solution.sh; and SETA's,
which is the same with weights.json.

Their run-tests.sh downloads pytest. In its place the player's own pytest runs the tests, and the reward is the share of
them that pass, or the sum of their weights.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from environments.errors import Unplayable
from environments.sandboxes.trees import File, Tree
from environments.worlds.harbor import compose
from environments.worlds.harbor.folders import Environment, Folder, Step, digest_of, part, read_files, text_of
from environments.worlds.harbor.tables import Table

FILE = "task.yaml"
RUNNER = (Path(__file__).parent / "pytest_run.py").read_bytes()
ABOUT = (
    "author_name", "author_email", "difficulty", "category", "tags", "estimated_duration_sec",
    "expert_time_estimate_min", "junior_time_estimate_min", "task_id", "disable_asciinema", "version",
)  # fmt: skip
"""Keys that say something of a task and change nothing of it."""
NOT_OF_THE_CONTEXT = (FILE, "solution.sh", "solution.yaml", "run-tests.sh", "weights.json", "docker-compose.yaml")


def read(path: Path) -> Folder:
    """Raises Unplayable with the file and the key of what is wrong."""
    files = read_files(path)
    said = Table(str(path / FILE), "", compose.load(str(path / FILE), files.files[FILE].content))
    said.only(
        *(*ABOUT, "instruction", "descriptions", "parser_name", "max_agent_timeout_sec", "max_test_timeout_sec"),
        "run_tests_in_same_shell",
    )
    if said.get("parser_name", "text", "pytest") != "pytest":
        raise Unplayable(f"{said.at('parser_name')}: only pytest is run.")
    said.refuse("run_tests_in_same_shell", "tests run where the agent never was.")
    if "tests/test_outputs.py" not in files.files:
        raise Unplayable(f"{path / 'tests' / 'test_outputs.py'} is missing.")
    if "solution.yaml" in files.files:
        raise Unplayable(f"{path / 'solution.yaml'}: keys typed into a terminal are not played; give solution.sh.")
    tests = {"test.sh": File(b"exec python3 -I /tests/pytest_run.py\n"), "pytest_run.py": File(RUNNER)}
    if weights := _weights(path, files):
        tests["weights.json"] = File(json.dumps(weights).encode())
    solution = {"solve.sh": files.files["solution.sh"]} if "solution.sh" in files.files else {}
    step = Step(
        name="",
        instruction=_instruction(said),
        tests=Tree(tests).over(part(files, "tests")),
        test="test.sh",
        solution=Tree(solution),
        verifier_s=said.get("max_test_timeout_sec", "number", 60.0),
    )
    return Folder(
        name=path.name,
        digest=digest_of(files),
        steps=(step,),
        environment=_environment(path, files),
        agent_s=said.get("max_agent_timeout_sec", "number", 360.0),
        notes=(*said.notes, f"{path / 'run-tests.sh'}: the player's own pytest runs tests/test_outputs.py instead."),
    )


def _instruction(said: Table) -> str:
    text = said.get("instruction", "text")
    if text is None:
        base = [each for each in said.parts("descriptions") if each.values.get("key") == "base"]
        text = base[0].get("description", "text") if base else None
    if not text or not text.strip():
        raise Unplayable(f"{said.at('instruction')} is missing.")
    return text.strip()


def _weights(path: Path, files: Tree) -> dict[str, Any]:
    if "weights.json" not in files.files:
        return {}
    try:
        weights = json.loads(files.files["weights.json"].content)
    except ValueError as error:
        raise Unplayable(f"{path / 'weights.json'}: {error}") from error
    table = Table(str(path / "weights.json"), "", weights if isinstance(weights, dict) else {})
    found = {name: table.get(name, "number") for name in table.values}
    if not found or min(found.values()) < 0 or not sum(found.values()):
        raise Unplayable(
            f"{path / 'weights.json'}: it gives each test's name a number of at least 0, and one above it."
        )
    return found


def _environment(path: Path, files: Tree) -> Environment:
    service = compose.Service(None, "Dockerfile", None)
    if "docker-compose.yaml" in files.files:
        service = compose.read(str(path / "docker-compose.yaml"), files.files["docker-compose.yaml"].content)
    context = Tree(
        {
            name: file
            for name, file in files.files.items()
            if name not in NOT_OF_THE_CONTEXT and not name.startswith("tests/")
        }
    )
    dockerfile = service.dockerfile or "Dockerfile"
    return Environment(
        context=context,
        dockerfile=None if service.image else text_of(files, dockerfile, path),
        file=str(path / dockerfile),
        image=service.image,
        workdir=service.workdir,
        env=service.env,
    )

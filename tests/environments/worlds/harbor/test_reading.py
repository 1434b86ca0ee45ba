"""Task folders of Harbor's form, terminal-bench's and SETA's are read, and what is wrong is said by file and key."""

from __future__ import annotations

import pytest

from environments.errors import Unplayable
from environments.sandboxes.sandbox import MIB
from environments.worlds.harbor.folders import MOST_DISK
from environments.worlds.harbor.prepared import read
from tests.environments.worlds.harbor.made import TOML, task, write


def test_a_folder_of_harbors_form(tmp_path):
    toml = """
        schema_version = "1.4"
        artifacts = ["/app/out"]
        [task]
        name = "ours/first"
        [metadata]
        anything = 1
        [agent]
        timeout_sec = 90
        [verifier]
        timeout_sec = 12.5
        env = { LEVEL = "${LEVEL:-high}" }
        [[verifier.collect]]
        command = "python3 /app/run.py"
        [environment]
        network_mode = "no-network"
        memory_mb = 256
        storage_mb = 32
        env = { COLOUR = "blue" }
        workdir = "/data"
        [solution]
        env = { KEY = "4" }
    """
    folder = read(task(tmp_path / "first", toml, instruction="<!-- canary 12 -->\n\nDo it.\n"))
    (step,) = folder.steps
    assert (folder.name, folder.agent_s, folder.artifacts, folder.solution_env) == (
        "first", 90, ("/app/out",), {"KEY": "4"},
    )  # fmt: skip
    assert (step.instruction, step.verifier_s, step.collect) == ("Do it.", 12.5, ("python3 /app/run.py",))
    assert step.verifier_env == {"LEVEL": "high"}
    assert (folder.environment.network, folder.environment.workdir) == ("no", "/data")
    assert (folder.environment.memory, folder.environment.disk) == (256 * MIB, 32 * MIB)
    assert folder.environment.env == {"COLOUR": "blue"}
    assert folder.notes == ()


def test_the_id_is_the_same_for_the_same_files_and_another_for_others(tmp_path):
    first, same = read(task(tmp_path / "a" / "sort")), read(task(tmp_path / "b" / "sort"))
    other = read(task(tmp_path / "c" / "sort", test="echo 1"))
    assert first.id == same.id != other.id
    assert first.id.startswith("sort-")


def test_a_folder_of_several_steps(tmp_path):
    toml = (
        f'multi_step_reward_strategy = "final"\n{TOML}[[steps]]\nname = "one"\nmin_reward = 0.5\n'
        '[[steps]]\nname = "two"\nverifier = { timeout_sec = 5 }\n'
    )
    folder = read(
        write(
            task(tmp_path / "steps", toml),
            {
                "steps/one/instruction.md": "First.",
                "steps/two/instruction.md": "Second.",
                "steps/two/tests/test.sh": "echo two",
                "steps/two/workdir/setup.sh": "true",
            },
        )
    )
    one, two = folder.steps
    assert (one.instruction, one.least, two.instruction, two.least) == ("First.", 0.5, "Second.", None)
    assert one.tests.files["test.sh"].content != two.tests.files["test.sh"].content == b"echo two"
    assert (list(two.workdir.files), two.verifier_s, folder.takes_last) == (["setup.sh"], 5, True)


def test_unknown_keys_and_what_is_not_honoured_are_said(tmp_path):
    toml = TOML.replace("storage_mb = 8", "storage_mb = 99999\ncpus = 2\ncolour = 1") + "[agent]\nspeed = 3\n"
    folder = read(task(tmp_path / "t", toml))
    assert folder.environment.disk == MOST_DISK
    said = "\n".join(folder.notes)
    for words in ("[environment] colour is no key", "[agent] speed is no key", "cpus: processors", "storage_mb: 1024"):
        assert words in said
    assert str(tmp_path / "t" / "task.toml") in folder.notes[0]


@pytest.mark.parametrize(
    ("toml", "says"),
    [
        ("schema_version = 2", r"schema_version is 2, and a text belongs there"),
        ('schema_version = "2.0"', "schema_version is '2.0': 1.0 to 1.4 are read"),
        ("[environment]\nmemory_mb = 'much'", r"\[environment\] memory_mb is 'much', and a whole number belongs there"),
        ("[environment]\nmemory = 'much'", r"\[environment\] memory is 'MUCH': it reads 512M or 2G"),
        ("[environment]\nnetwork_mode = 'lan'", "network_mode is 'lan': it is no-network, allowlist or public"),
        ("[environment]\nos = 'windows'", r"\[environment\] os: only linux"),
        ("[environment]\ngpus = 1", r"\[environment\] gpus: sandboxes have no GPU"),
        ("[environment]\nhealthcheck = {command = 'x'}", "healthcheck: services"),
        ("[[environment.mcp_servers]]\nname = 'x'", "mcp_servers: a terminal's agent has no MCP"),
        ("[environment]\nenv = {KEY = '${SECRET}'}", "asks for the host's variable SECRET"),
        ("[agent]\nuser = 'root'", r"\[agent\] user: sandboxes have one user"),
        ("[verifier]\nnetwork_mode = 'public'", r"\[verifier\] network_mode: verifiers have no network"),
        ("[verifier]\nenvironment_mode = 'both'", "environment_mode is 'both'"),
        ("[[verifier.collect]]\nservice = 'db'\ncommand = 'x'", "collect.0. service: there is one service"),
        ("artifacts = ['out']", "artifacts holds 'out', and absolute paths"),
        ("[[steps]]\nname = '../x'", "a step is named as its folder"),
        ("[environment", "task.toml: "),
    ],
)
def test_what_is_wrong_is_said_by_file_and_key(tmp_path, toml, says):
    with pytest.raises(Unplayable, match=says) as error:
        read(task(tmp_path / "t", toml))
    assert str(error.value).startswith(str(tmp_path / "t" / "task.toml"))


@pytest.mark.parametrize("name", ["instruction.md", "tests/test.sh", "environment/Dockerfile"])
def test_a_file_that_is_missing_is_named(tmp_path, name):
    folder = task(tmp_path / "t")
    (folder / name).unlink()
    with pytest.raises(Unplayable, match=name.split("/")[0]):
        read(folder)


def test_a_link_in_a_task_folder_is_refused(tmp_path):
    folder = task(tmp_path / "t")
    (folder / "environment" / "secret").symlink_to("/etc/passwd")
    with pytest.raises(Unplayable, match=r"environment/secret is no regular file"):
        read(folder)


def test_a_compose_file_of_one_service(tmp_path):
    compose = (
        "services:\n  main:\n    build: {context: .}\n    working_dir: /srv\n    environment: [A=1, TEST_DIR=/tests]\n"
    )
    folder = read(write(task(tmp_path / "t"), {"environment/docker-compose.yaml": compose}))
    assert (folder.environment.workdir, folder.environment.env) == ("/srv", {"A": "1"})


@pytest.mark.parametrize(
    ("compose", "says"),
    [
        ("services: {main: {build: .}, db: {image: postgres}}", "services are main, db: one is played"),
        ("services: {main: {build: .}}\nnetworks: {x: {}}", "networks: a task is one container"),
        ("services: {main: {build: ., privileged: true}}", r"\[services.main\] privileged is not honoured"),
        ("services: {main: {build: ., volumes: ['/:/host']}}", r"\[services.main\] volumes is not honoured"),
        ("services: {main: {build: ../other}}", "has the context '../other'"),
        ("services: [", "docker-compose.yaml: while parsing"),
    ],
)
def test_a_compose_file_of_more_is_refused_by_key(tmp_path, compose, says):
    with pytest.raises(Unplayable, match=says):
        read(write(task(tmp_path / "t"), {"environment/docker-compose.yaml": compose}))


YAML = {
    "task.yaml": "instruction: |\n  Make /app/x.\nparser_name: pytest\nmax_test_timeout_sec: 30\ndifficulty: easy\n",
    "Dockerfile": "FROM ubuntu:24.04\nWORKDIR /app\nCOPY . /app\n",
    "docker-compose.yaml": (
        "services:\n  client:\n    build: {dockerfile: Dockerfile}\n"
        "    image: ${T_BENCH_TASK_DOCKER_CLIENT_IMAGE_NAME}\n"
        "    container_name: x\n    command: [sh, -c, sleep infinity]\n"
        "    environment:\n      - TEST_DIR=${T_BENCH_TEST_DIR}\n"
        "    volumes: ['${T_BENCH_TASK_LOGS_PATH}:${T_BENCH_CONTAINER_LOGS_PATH}']\n"
    ),
    "run-tests.sh": "uvx pytest $TEST_DIR/test_outputs.py",
    "solution.sh": "touch /app/x",
    "given.txt": "given",
    "tests/test_outputs.py": "def test_x(): pass\n",
}


def test_a_folder_of_terminal_benchs_form(tmp_path):
    folder = read(write(tmp_path / "old", YAML))
    (step,) = folder.steps
    assert (step.instruction, step.verifier_s) == ("Make /app/x.", 30)
    assert step.solution.files["solve.sh"].content == b"touch /app/x"
    assert set(folder.environment.context.files) == {"Dockerfile", "given.txt"}  # neither tests nor the solution
    assert "player's own pytest" in folder.notes[0]


def test_a_folder_of_setas_form_has_weights(tmp_path):
    folder = read(write(tmp_path / "seta", {**YAML, "weights.json": '{"test_x": 0.7, "test_y": 0.3}'}))
    assert folder.steps[0].tests.files["weights.json"].content == b'{"test_x": 0.7, "test_y": 0.3}'
    assert "weights.json" not in folder.environment.context.files


@pytest.mark.parametrize(
    ("name", "text", "says"),
    [
        ("task.yaml", "instruction: 3\n", "instruction is 3, and a text belongs there"),
        ("task.yaml", "parser_name: pytest\n", "instruction is missing"),
        ("task.yaml", "instruction: x\nparser_name: swebench\n", "parser_name: only pytest"),
        ("task.yaml", "instruction: x\nrun_tests_in_same_shell: true\n", "run_tests_in_same_shell: tests run where"),
        ("solution.yaml", "- command: x", "solution.yaml: keys typed"),
        ("weights.json", '{"test_x": -1}', "weights.json: it gives"),
        ("weights.json", '{"test_x": "a"}', "test_x is 'a', and a number"),
    ],
)
def test_what_is_wrong_with_an_older_folder_is_said(tmp_path, name, text, says):
    with pytest.raises(Unplayable, match=says):
        read(write(tmp_path / "old", {**YAML, name: text}))


def test_a_folder_of_no_form_is_refused(tmp_path):
    with pytest.raises(Unplayable, match=r"no task\.toml and no task\.yaml"):
        read(tmp_path)

"""openclaw.json of an attempt, made of a harness's variables; a stand-in for the client says what it read."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.clients.openclaw.install import ATTEMPT, node_folder
from tests.environments.worlds.conftest import copy_model
from webapp.connecting import Place, openclaw

pytestmark = [pytest.mark.javascript, pytest.mark.django_db(transaction=True, serialized_rollback=True)]

STAND_IN = """
import { readFileSync } from "node:fs";
const { HOME: home, OPENCLAW_CONFIG_PATH: file } = process.env;
console.log(JSON.stringify({ home, asked: process.argv.slice(2), file: JSON.parse(readFileSync(file, "utf8")) }));
process.exit(3);
"""


@pytest.mark.parametrize("window", [8192, 65_536])
def test_it_is_the_block_that_the_page_gives_for_the_window_and_nothing_of_it_stays(
    site: str, key, settings, tiny_model: Path, tmp_path: Path, window: int
) -> None:
    settings.MODEL = str(copy_model(tiny_model, tmp_path / "model", window))
    shutil.copyfile(ATTEMPT, tmp_path / "attempt.mjs")
    client = tmp_path / "node_modules" / "openclaw" / "openclaw.mjs"
    client.parent.mkdir(parents=True)
    client.write_text(STAND_IN)
    work = tmp_path / "work"
    work.mkdir()
    told = {"OPENAI_BASE_URL": f"{site}/v1", "OPENAI_API_KEY": key.secret, "TALKBACK_MODEL": f"{settings.MODEL_NAME}@0"}
    told |= {"TALKBACK_TASK_FILE": "/dev/shm/task.md", "TALKBACK_LIMIT_S": "77", "TMPDIR": str(tmp_path)}
    node = node_folder()
    assert node is not None
    done = subprocess.run(
        [node / "bin" / "node", tmp_path / "attempt.mjs"],
        cwd=work, env={"PATH": os.environ["PATH"], **told}, capture_output=True, text=True, timeout=60,
    )  # fmt: skip

    assert done.returncode == 3, done.stderr  # the client's own
    said = json.loads(done.stdout)
    block = openclaw(Place(site, key.secret, settings.MODEL_NAME, window))
    assert said["file"]["models"]["providers"] == block["models"]["providers"]
    assert said["file"].get("tools") == block.get("tools")
    assert block["agents"]["defaults"].items() <= said["file"]["agents"]["defaults"].items()
    assert said["asked"][-6:] == ["--cwd", ".", "--message-file", "/dev/shm/task.md", "--timeout", "77"]
    assert not Path(said["home"]).exists()
    assert not list(work.iterdir())

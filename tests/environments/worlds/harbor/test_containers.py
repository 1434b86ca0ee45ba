"""Images by docker and podman, by a command line that records and answers in their place."""

from __future__ import annotations

import io
import json
import sys
import tarfile

import pytest

from environments.errors import Unplayable
from environments.sandboxes import choosing, containers
from environments.worlds.harbor import images
from environments.worlds.harbor.prepared import read
from tests.environments.worlds.harbor.made import TOML, task

FAKE = """#!{python}
import json, pathlib, sys
here = pathlib.Path({folder!r})
said = sys.argv[1:]
call = {{"argv": said}}
if "--interactive" in said:
    call["stdin"] = len(sys.stdin.buffer.read())
for word in said:
    if word.startswith("--file="):
        call["dockerfile"] = pathlib.Path(word[7:]).read_text()
        call["context"] = sorted(each.name for each in pathlib.Path(said[-1]).rglob("*"))
with open(here / "calls", "a") as calls:
    calls.write(json.dumps(call) + "\\n")
if said[:2] == ["image", "inspect"]:
    if "missing" in said[-1] and not (here / "pulled").exists():
        sys.exit("no such image")
    print(json.dumps({{"Env": ["PATH=/opt/bin:/bin", "LEVEL=3"], "WorkingDir": "/app"}}))
elif said[0] == "pull":
    (here / "pulled").touch()
elif said[0] == "build" and "fail" in (here / "mode").read_text():
    sys.exit("step 2: no such package")
elif said[:2] == ["run", "--rm"]:
    sys.stdout.buffer.write((here / "archive").read_bytes())
elif said[0] == "inspect":
    print("true")
"""


@pytest.fixture
def docker(tmp_path, monkeypatch):
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as archive:
        archive.addfile(tarfile.TarInfo("app/given.txt"))
    here = tmp_path / "fake"
    here.mkdir()
    (here / "archive").write_bytes(packed.getvalue())
    (here / "mode").write_text("")
    program = here / "docker"
    program.write_text(FAKE.format(python=sys.executable, folder=str(here)))
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(here), prepend=":")
    monkeypatch.setitem(choosing.CONFINED, "bubblewrap", (lambda: "bubblewrap is not installed.", None))
    containers.why_not.cache_clear()
    yield here
    containers.why_not.cache_clear()


def calls(here):
    return [json.loads(line) for line in (here / "calls").read_text().splitlines()]


def made(folder):
    read_folder = read(folder)
    return images.make(read_folder, read_folder.environment)


def test_a_dockerfile_that_bubblewrap_refuses_is_built_and_its_files_are_laid_out(docker, tmp_path):
    folder = task(tmp_path / "t", dockerfile="FROM node:22\nRUN npm ci\nWORKDIR /app\n", instruction="Write /data/x.")
    image = made(folder)
    (build,) = [call for call in calls(docker) if call["argv"][0] == "build"]
    assert build["dockerfile"].startswith("FROM node:22")
    assert build["context"] == ["Dockerfile"]  # neither tests nor the solution
    assert (image.kind, image.workdir, image.env["LEVEL"]) == ("docker", "/app", "3")
    assert image.wants.image == f"talkback-harbor:{read(folder).digest[:16]}"
    assert image.wants.folders == ("/app",)  # /data is in neither its oracle nor its tests
    before = len(calls(docker))
    with image.open():
        started, put, unpacked = (call["argv"] for call in calls(docker)[before : before + 3])
    assert any(word.startswith("--tmpfs=/app:rw,exec") for word in started)
    assert "--network=none" in started
    assert put[-2:] == [images.ARCHIVE, "644"]
    assert unpacked[-1] == images.UNPACK


def test_a_ready_image_is_pulled_where_it_is_not_there(docker, tmp_path):
    toml = TOML + "docker_image = 'registry/missing:1'\n"
    assert made(task(tmp_path / "t", toml)).wants.image == "registry/missing:1"
    assert [call["argv"] for call in calls(docker) if call["argv"][0] in ("pull", "build")] == [
        ["pull", "--quiet", "registry/missing:1"]
    ]


def test_a_task_that_asks_for_the_network_is_given_it_and_its_verifier_is_not(docker, tmp_path):
    image = made(task(tmp_path / "t", TOML.replace("no-network", "public")))
    assert image.wants.network == "public"


def test_a_build_that_fails_is_said_with_its_last_words(docker, tmp_path):
    (docker / "mode").write_text("fail")
    with pytest.raises(Unplayable, match=r"docker build --quiet: exit code 1\. step 2: no such package.*not installed"):
        made(task(tmp_path / "t"))

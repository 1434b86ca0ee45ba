"""A folder that nothing leaves, and tools that say what went wrong."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from environments import workspace
from environments.workspace import TOOLS, Workspace


@pytest.fixture
def folder():
    with Workspace({"homework/1.txt": "2 + 2\n"}) as made:
        yield made


def call(folder: Workspace, name: str, **arguments: object) -> str:
    return folder.call(name, json.dumps(arguments))


def test_what_is_written_is_read_and_listed(folder):
    assert call(folder, "list_files") == "homework/1.txt"
    assert call(folder, "read_file", path="homework/1.txt") == "2 + 2\n"
    assert call(folder, "write_file", path="notes/deep/a.txt", content="vier €") == "Wrote notes/deep/a.txt (8 bytes)."
    assert call(folder, "read_file", path="notes/deep/a.txt") == "vier €"
    assert call(folder, "list_files") == "homework/1.txt\nnotes/deep/a.txt"


def test_writing_replaces_what_was_there(folder):
    call(folder, "write_file", path="homework/1.txt", content="4")
    assert folder.read("homework/1.txt") == "4"


def test_the_folder_is_gone_afterwards():
    with Workspace({"a.txt": "x"}) as made:
        place = made.folder
        assert place.is_dir()
    assert not place.exists()


@pytest.mark.parametrize(
    "path",
    ["../out.txt", "/etc/passwd", "a/../../out.txt", "..", ".", "", " ", "a\0b", "..\\out.txt", "homework", "x" * 300,
     "homework/1.txt/below.txt"],
)  # fmt: skip
def test_no_name_leads_out_or_lands_on_a_folder(folder, path):
    outside = sorted(folder.folder.parent.glob("out*"))
    assert call(folder, "write_file", path=path, content="x").startswith("Error: ")
    assert call(folder, "read_file", path=path).startswith("Error: ")
    assert sorted(folder.folder.parent.glob("out*")) == outside
    assert folder.names() == ["homework/1.txt"]


def test_a_link_that_was_smuggled_in_is_not_followed(folder, tmp_path):
    secret = tmp_path / "secret.txt"
    secret.write_text("secret")
    os.symlink(secret, folder.folder / "link.txt")
    os.symlink(tmp_path, folder.folder / "way")
    for path in ("link.txt", "way/secret.txt"):
        assert "leads out" in call(folder, "read_file", path=path)
        assert "leads out" in call(folder, "write_file", path=path, content="mine")
    assert secret.read_text() == "secret"
    assert folder.names() == ["homework/1.txt"]


@given(st.text(max_size=40), st.text(max_size=40))
@settings(max_examples=60)
def test_whatever_a_model_calls_it_the_file_lies_inside(path, content):
    with Workspace() as folder:
        said = call(folder, "write_file", path=path, content=content)
        if said.startswith("Error: "):
            assert folder.names() == []
        else:
            (name,) = folder.names()
            assert (folder.folder / name).resolve().is_relative_to(folder.folder)
            assert call(folder, "read_file", path=path) == content.encode(errors="replace").decode()


@pytest.mark.parametrize(
    ("name", "arguments", "says"),
    [
        ("read_file", "{path", "no JSON"),
        ("read_file", "[]", "no JSON object"),
        ("read_file", "{}", "read_file takes path as text; look at 'path'"),
        ("read_file", '{"path": 3}', "look at 'path'"),
        ("read_file", '{"path": "a", "mode": "r"}', "look at 'mode'"),
        ("write_file", '{"path": "a"}', "look at 'content'"),
        ("list_files", '{"path": "a"}', "takes no arguments"),
        ("remove_file", "{}", "there is no tool remove_file. There are list_files, read_file, write_file"),
        ("read_file", '{"path": "none.txt"}', "there is no file none.txt. There are: homework/1.txt"),
    ],
)
def test_a_wrong_call_is_answered_so_that_it_can_be_put_right(folder, name, arguments, says):
    said = folder.call(name, arguments)
    assert said.startswith("Error: ")
    assert says in said


def test_no_arguments_at_all_are_no_arguments(folder):
    assert folder.call("list_files", "") == "homework/1.txt"
    with Workspace() as empty:
        assert empty.call("list_files", "") == "The workspace is empty."


def test_files_and_their_number_are_bounded(folder, monkeypatch):
    most = workspace.MOST_BYTES
    assert call(folder, "write_file", path="a", content="x" * most).startswith("Wrote")
    assert f"at most {most} bytes" in call(folder, "write_file", path="b", content="x" * (most + 1))
    (folder.folder / "c").write_bytes(b"x" * (most + 1))  # another process's
    assert folder.read("c") == "x" * most + f"\n[only the first {most} bytes]"
    monkeypatch.setattr(workspace, "MOST_FILES", 3)
    assert "at most 3 files" in call(folder, "write_file", path="d", content="x")
    assert call(folder, "write_file", path="a", content="y").startswith("Wrote")  # it is there already


def test_files_to_begin_with_that_lead_out_are_a_mistake_of_ours():
    with pytest.raises(ValueError, match="leads out"):
        Workspace({"../a": "x"})


def test_the_tools_are_in_the_form_of_openai():
    for tool in TOOLS:
        assert tool["type"] == "function"
        of = tool["function"]
        assert set(of) == {"name", "description", "parameters"}
        assert of["parameters"]["type"] == "object"
        assert set(of["parameters"]["required"]) == set(of["parameters"]["properties"])


def test_a_workspace_lies_where_temporary_things_lie(tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    with Workspace() as made:
        assert Path(made.folder).parent == tmp_path.resolve()

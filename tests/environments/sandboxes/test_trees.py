"""Files travel as regular files alone, and no link is followed on the host."""

from __future__ import annotations

import io
import os
import stat
import tarfile

import pytest

from environments.errors import SandboxEnded
from environments.sandboxes import trees
from environments.sandboxes.containers import unpack
from environments.sandboxes.trees import File, Tree, read_folder


def test_a_folder_is_read_and_written_alike(tmp_path):
    tree = Tree({"a.txt": File(b"x", 0o644), "b/run.sh": File(b"y", 0o755)})
    tree.write(tmp_path / "to")
    assert read_folder(tmp_path / "to").files == tree.files


def test_links_pipes_and_sockets_are_left_out(tmp_path):
    (tmp_path / "secret").write_text("secret")
    folder = tmp_path / "work"
    folder.mkdir()
    (folder / "real").write_text("mine")
    os.symlink(tmp_path / "secret", folder / "file")
    os.symlink(tmp_path, folder / "folder")
    os.mkfifo(folder / "pipe")
    tree = read_folder(folder)
    assert set(tree.files) == {"real"}
    assert set(tree.left_out) == {"file", "folder", "pipe"}


@pytest.mark.parametrize("name", ["/etc/x", "../x", "a/../x", "a//x", "", ".", "a/", "a\0b", "x" * 300])
def test_a_path_that_leads_out_is_no_tree(name):
    with pytest.raises(ValueError, match="no relative path"):
        Tree({name: File(b"")})


def test_a_tree_is_written_to_an_empty_folder_alone(tmp_path):
    os.symlink("/etc", tmp_path / "a")
    with pytest.raises(ValueError, match="not empty"):
        Tree({"a/x": File(b"")}).write(tmp_path)


def test_what_is_staged_can_be_read_by_every_user_and_written_by_none_of_them(tmp_path):
    before = os.umask(0o077)
    try:
        Tree({"a/x.sh": File(b"", 0o700)}).write(tmp_path / "to", for_everyone=True)
    finally:
        os.umask(before)
    modes = [stat.S_IMODE(os.stat(tmp_path / "to" / name).st_mode) for name in ("", "a", "a/x.sh")]
    assert modes == [0o755, 0o755, 0o744]


def test_number_size_and_depth_are_bounded(tmp_path, monkeypatch):
    for number in range(3):
        (tmp_path / str(number)).write_bytes(b"xxxx")
    monkeypatch.setattr(trees, "MOST_BYTES", 11)  # three of 4 are 12
    with pytest.raises(ValueError, match="more than"):
        read_folder(tmp_path)
    monkeypatch.setattr(trees, "MOST_BYTES", 12)
    assert len(read_folder(tmp_path).files) == 3
    monkeypatch.setattr(trees, "MOST_FILES", 2)
    with pytest.raises(ValueError, match="more than"):
        read_folder(tmp_path)
    monkeypatch.setattr(trees, "MOST_DEPTH", 2)
    (tmp_path / "a" / "b" / "c" / "d").mkdir(parents=True)
    with pytest.raises(ValueError, match="deep"):
        read_folder(tmp_path / "a")


def test_an_archive_that_came_out_of_a_container_is_unpacked_without_links_and_ways_out():
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as archive:
        others = {"link": tarfile.SYMTYPE, "hard": tarfile.LNKTYPE, "pipe": tarfile.FIFOTYPE}
        for name in ("./a/kept", "../out", "/abs", *others):
            member, kind = tarfile.TarInfo(name), others.get(name, tarfile.REGTYPE)
            member.type, member.size, member.linkname = kind, 2 if kind == tarfile.REGTYPE else 0, "/etc/passwd"
            archive.addfile(member, io.BytesIO(b"xy"))
    tree = unpack(packed.getvalue())
    assert {name: file.content for name, file in tree.files.items()} == {"a/kept": b"xy"}
    assert set(tree.left_out) == {"../out", "/abs", "link", "hard", "pipe"}
    with pytest.raises(SandboxEnded, match="cannot be read"):
        unpack(b"no archive at all" * 100)


def test_an_empty_folder_of_an_archive_is_kept_and_a_full_one_is_its_files():
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as archive:
        for name in ("./", "./empty", "./full", "../out", "/abs"):
            folder = tarfile.TarInfo(name)
            folder.type = tarfile.DIRTYPE
            archive.addfile(folder)
        archive.addfile(tarfile.TarInfo("./full/x"))
    tree = unpack(packed.getvalue())
    assert (tree.folders, set(tree.files)) == (("empty",), {"full/x"})

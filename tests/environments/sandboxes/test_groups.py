"""Control groups of version 2 and 1, and neither, each on a made-up file system."""

from __future__ import annotations

import subprocess
import sys

import pytest

from environments.sandboxes.groups import Group, Hierarchies


@pytest.fixture
def mounted(tmp_path):
    def make(**files: str):
        for name, text in files.items():
            place = tmp_path / name
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_text(text)
        return tmp_path

    return make


def written(group: Group) -> dict[str, str]:
    return {file.name: file.read_text() for folder in group.folders for file in folder.iterdir()}


def test_version_2_is_used_where_the_controllers_are_handed_down(mounted):
    # The process's own group has processes in it and hands nothing down: the one above does.
    top = mounted(
        **{
            "user/app/cgroup.subtree_control": "cpu memory pids\n",
            "user/app/cgroup.procs": "",
            "user/app/own/cgroup.subtree_control": "",
            "user/app/own/cgroup.procs": "1\n",
        }
    )
    found = Hierarchies.find(top, "0::/user/app/own\n")
    group = found.make(processes=19, memory=1000)
    assert [folder.parent for folder in group.folders] == [top / "user" / "app"]
    assert written(group) == {"pids.max": "19", "memory.max": "1000", "memory.swap.max": "0"}
    assert found.missing == ()


def test_version_2_without_its_controllers_is_none(mounted):
    top = mounted(**{"own/cgroup.subtree_control": "cpu hugetlb\n", "own/cgroup.procs": ""})
    found = Hierarchies.find(top, "0::/own\n")
    assert found.make(processes=19, memory=1000).folders == ()
    assert len(found.missing) == 2


def test_version_1_has_a_folder_for_each_controller(mounted):
    top = mounted(**{"pids/cgroup.procs": "", "memory/mine/cgroup.procs": "", "unified/cgroup.subtree_control": ""})
    found = Hierarchies.find(top, "8:pids:/\n4:memory:/mine\n0::/\n")
    group = found.make(processes=19, memory=1000)
    assert sorted(folder.parent for folder in group.folders) == [top / "memory" / "mine", top / "pids"]
    limits = {"pids.max": "19", "memory.limit_in_bytes": "1000", "memory.memsw.limit_in_bytes": "1000"}
    assert written(group) == limits


def test_a_container_that_sees_its_own_group_as_the_top_is_found(mounted):
    top = mounted(**{"pids/cgroup.procs": "", "memory/cgroup.procs": ""})
    found = Hierarchies.find(top, "8:pids:/docker/abc\n4:memory:/docker/abc\n")
    assert {name: parent for name, (_, parent) in found.parents.items()} == {
        "pids": top / "pids",
        "memory": top / "memory",
    }


def test_what_cannot_be_bound_is_said(mounted):
    found = Hierarchies.find(mounted(**{"pids/cgroup.procs": ""}), "8:pids:/\n4:memory:/\n")
    (sentence,) = found.missing
    assert "memory" in sentence
    assert len(Hierarchies.find(mounted(), "").missing) == 2


def test_what_a_killed_starter_left_is_swept_and_what_lives_stays(mounted):
    top = mounted(**{"pids/cgroup.procs": ""})
    found = Hierarchies.find(top, "8:pids:/\n")
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    left = top / "pids" / f"talkback-sandbox-{gone.pid}-ab12"
    left.mkdir()
    (kept,) = found.make(processes=19, memory=1000).folders
    found.sweep()
    assert not left.exists()
    assert kept.exists()

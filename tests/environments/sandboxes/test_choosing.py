"""Which kind of sandbox is taken, and why another is not."""

from __future__ import annotations

import os

import pytest

from environments.errors import SandboxEnded, SandboxRefused, SandboxUnavailable
from environments.sandboxes import bubblewrap, choosing
from environments.sandboxes.choosing import open_sandbox
from environments.sandboxes.sandbox import MIB, Mount, Wants


@pytest.fixture
def kinds(monkeypatch):
    def stand(**said: str | None):
        made = {kind: (lambda why=why: why, lambda wants, kind=kind: kind) for kind, why in said.items()}
        monkeypatch.setattr(choosing, "CONFINED", made)

    return stand


def test_the_first_that_works_is_taken(kinds):
    kinds(bubblewrap=None, docker=None)
    assert open_sandbox(Wants()) == "bubblewrap"
    kinds(bubblewrap="bubblewrap is not installed.", docker=None)
    assert open_sandbox(Wants()) == "docker"


def test_where_none_works_every_reason_is_said_and_nothing_runs_unconfined(kinds):
    kinds(bubblewrap="No bubblewrap.", docker="No docker.", podman="No podman.")
    with pytest.raises(SandboxUnavailable, match=r"No bubblewrap\. No docker\. No podman\."):
        open_sandbox(Wants(), trusted=True)
    with pytest.raises(SandboxUnavailable, match=r"^No docker\.$"):
        open_sandbox(Wants(), "docker")


@pytest.mark.bubblewrap
def test_a_machine_without_bubblewrap_says_what_brings_it(monkeypatch):
    bubblewrap.prove.cache_clear()
    with monkeypatch.context() as without:
        without.setattr(bubblewrap.shutil, "which", lambda name: None)
        with pytest.raises(SandboxUnavailable, match="sudo apt-get install bubblewrap"):
            open_sandbox(Wants(), "bubblewrap")
    open_sandbox(Wants(), "bubblewrap").kill()  # the answer was not kept


@pytest.mark.bubblewrap
@pytest.mark.parametrize("network", ["public", "allowlist"])
def test_bubblewrap_refuses_a_network(network):
    with pytest.raises(SandboxRefused, match=f"bubblewrap gives network no, and the task asks for {network}"):
        open_sandbox(Wants(network=network), "bubblewrap")


def test_without_a_sandbox_strangers_code_is_refused():
    with pytest.raises(SandboxRefused, match="apt-get install bubblewrap"):
        open_sandbox(Wants(network="public"), "none")


def test_ones_own_code_runs_without_a_sandbox_where_that_is_said(monkeypatch):
    monkeypatch.setenv("TALKBACK_KEY", "sk-secret-4711")
    with open_sandbox(Wants(network="public"), "none", trusted=True) as room:
        room.put("a/b.txt", b"x")
        assert room.get("a/b.txt") == b"x"
        said = room.run(["sh", "-c", "cat a/b.txt; env; exit 3"], timeout_s=10)
        assert said.status == 3
        assert said.out.startswith(b"x")
        assert b"4711" not in said.out
        assert room.run(["sleep", "60"], timeout_s=0.3).timed_out
        assert room.run(["no-such-command"], timeout_s=5).status == 127
        os.symlink("/etc", room._folder / "way")
        for path in ("way/hostname", "../x", "/etc/hostname"):
            with pytest.raises((ValueError, FileNotFoundError)):
                room.get(path)
        assert set(room.read_tree().files) == {"a/b.txt"}
        assert room.capabilities.missing
    with pytest.raises(SandboxEnded):
        room.run(["true"], timeout_s=1)


@pytest.mark.parametrize("at", ["/box/x", "/usr/bin", "/proc", "relative", "/", "/a/../etc", "/tmp/x"])
def test_a_mount_that_would_cover_the_sandbox_is_refused(at, tmp_path):
    with pytest.raises(SandboxRefused):
        Mount(tmp_path, at)
    with pytest.raises(SandboxRefused):
        Wants(scratch=(at,))


def test_bounds_that_are_none_are_refused():
    for wrong in ({"processes": 1}, {"memory": MIB}, {"disk": 1}):
        with pytest.raises(SandboxRefused):
            Wants(**wrong)

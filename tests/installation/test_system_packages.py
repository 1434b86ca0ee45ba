"""Debian's packages for the tests: what is lacking is brought, and what is there is left alone."""

from __future__ import annotations

import pytest

from installation import packages


@pytest.fixture
def ran(monkeypatch):
    commands: list[list[str]] = []
    monkeypatch.setattr(packages, "run", lambda title, command, environment=None: commands.append(command))
    monkeypatch.setattr(packages.os, "geteuid", lambda: 0)
    monkeypatch.setattr(packages.shutil, "which", lambda name: f"/usr/bin/{name}")
    for name in ("chromium", "postgres_programs", "bubblewrap"):
        monkeypatch.setattr(packages, name, lambda: "there")
    return commands


def test_bubblewrap_is_brought_where_it_lacks(ran, monkeypatch):
    monkeypatch.setattr(packages, "bubblewrap", lambda: None)
    packages.install_system_packages()
    assert ran[-1][:2] == ["apt-get", "install"]
    assert ran[-1][-1] == "bubblewrap"
    assert "chromium" not in ran[-1]


def test_nothing_is_asked_of_the_network_where_all_is_there(ran):
    packages.install_system_packages()
    assert ran == []

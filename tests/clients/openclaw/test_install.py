"""What the installer lays out is whole: a sandbox, which sees the folder read-only, has nothing left to finish."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.clients.openclaw import install

pytestmark = pytest.mark.javascript

# As the client does it (openclaw.mjs): what npm left undone is finished before it says which version it is.
STAND_IN = """
import { existsSync, rmSync } from "node:fs";
const pending = new URL(".openclaw-lifecycle-pending", import.meta.url);
if (existsSync(pending)) rmSync(pending);
"""


def test_the_client_has_finished_its_installation_before_a_sandbox_sees_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = tmp_path / "node_modules" / "openclaw"
    package.mkdir(parents=True)
    (package / "openclaw.mjs").write_text(STAND_IN)
    pending = package / install.PENDING.name
    pending.write_text("pending\n")
    monkeypatch.setattr(install, "HOME", tmp_path)
    monkeypatch.setattr(install, "PENDING", pending)
    node = install.node_folder()
    assert node is not None
    install.lay_out(node)
    assert not pending.exists()
    install.lay_out(node)  # again: nothing is pending, and the newest attempt.js lies there
    assert (tmp_path / "attempt.mjs").read_text() == install.ATTEMPT.read_text()

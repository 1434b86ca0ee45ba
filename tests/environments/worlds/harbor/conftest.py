from __future__ import annotations

import pytest

from environments.worlds.harbor import checking


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch):
    """What a check found is kept in the test's own folder."""
    monkeypatch.setattr(checking, "CACHE", tmp_path / "cache")

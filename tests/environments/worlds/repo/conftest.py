from __future__ import annotations

import pytest

from environments.worlds.repo.checking import Prepared
from environments.worlds.repo.world import Repo


@pytest.fixture(scope="session")
def last_page() -> Prepared:
    """Our own easiest task: count_pages leaves the last page out. 3 tests, one of which fails at first."""
    return Repo(kind="bubblewrap").prepare("last-page")

"""The player's own pytest, as mounts for a verifier that has none."""

from __future__ import annotations

import importlib.util
from pathlib import Path

from environments.errors import Unplayable
from environments.sandboxes.sandbox import Mount

PYTEST = ("pytest", "_pytest", "py", "pluggy", "iniconfig", "packaging", "pygments")


def mount_pytest() -> tuple[Mount, ...]:
    """pytest and what it needs, each below /packages. Raises Unplayable where the player lacks one."""
    found = []
    for name in PYTEST:
        spec = importlib.util.find_spec(name)
        if spec is None or not spec.origin:
            raise Unplayable(f"unscorable: its tests are pytest's, and the player has no {name}: pip install pytest.")
        origin = Path(spec.origin)
        is_folder = origin.name == "__init__.py"
        found.append(Mount(origin.parent if is_folder else origin, f"/packages/{name}{'' if is_folder else '.py'}"))
    return tuple(found)

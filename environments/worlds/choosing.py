"""Make the world that is named: one of the house's, or another's class."""

from __future__ import annotations

from importlib import import_module

from environments.errors import Unplayable
from environments.worlds.base import World
from environments.worlds.till import Till

FORMS = "till, till:ITEMS, or MODULE:CLASS for a world of your own"


def open_world(name: str) -> World:
    """`till`, `till:2`, or `package.module:Class`, whose class takes no arguments. Raises Unplayable."""
    kind, _, rest = name.partition(":")
    if kind == "till":
        if rest and not (rest.isdecimal() and 2 <= int(rest) <= 6):
            raise Unplayable(f"--world {name}: till takes 2 to 6 items.")
        return Till(int(rest or 3))
    if rest:
        return _other(name, kind, rest)
    raise Unplayable(f"There is no world {name!r}: it is {FORMS}.")


def _other(name: str, module: str, attribute: str) -> World:
    try:
        found = getattr(import_module(module), attribute)
    except (ImportError, AttributeError, ValueError) as error:
        raise Unplayable(f"--world {name}: {error}. It is {FORMS}.") from error
    if not (isinstance(found, type) and issubclass(found, World)):
        raise Unplayable(f"--world {name}: {attribute} is no subclass of environments.worlds.base.World.")
    return found()

"""Make the world that is named: one of the house's, or another's class."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path

from environments.errors import Unplayable
from environments.worlds.answers import Check
from environments.worlds.base import World
from environments.worlds.browser.world import Browser
from environments.worlds.harbor.world import Harbor
from environments.worlds.interpreter import Interpreter
from environments.worlds.till import Till

FORMS = (
    "till, till:ITEMS, interpreter:reasoning-gym/NAME, interpreter:FILE.jsonl, harbor, harbor:FOLDER, browser, "
    "browser:KIND,KIND, browser:FOLDER/, "
    "or MODULE:CLASS of your own"
)


def open_world(name: str, check: Check = "math", pictures: Path | None = None) -> World:
    """Make the world of this name; a class of another's takes no arguments. `check` says how interpreter compares
    answers; in `pictures` browser keeps screenshots. Raises Unplayable, or OSError."""
    kind, _, rest = name.partition(":")
    if kind == "till":
        if rest and not (rest.isdecimal() and 2 <= int(rest) <= 6):
            raise Unplayable(f"--world {name}: till takes 2 to 6 items.")
        return Till(int(rest or 3))
    if kind == "interpreter":
        return Interpreter.named(rest, check)
    if kind == "harbor":
        return Harbor(rest or None)
    if kind == "browser":
        return Browser(rest or None, pictures=pictures)
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

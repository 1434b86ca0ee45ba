"""What people say, as files: one list of lines a kind and split. The two splits have no line in common. `plainer` is no
list of lines: the words that a person who wants plain ones writes in place of long ones."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from typing import Any, Literal

Split = Literal["train", "heldout"]


@cache
def read(name: str) -> Mapping[str, Any]:
    """A phrasing file as it is written."""
    return tomllib.loads(files(__package__).joinpath(f"{name}.toml").read_text(encoding="utf-8"))


@cache
def lines(name: str, kind: str, split: Split) -> tuple[str, ...]:
    """The wordings of one kind: `kind` is a table's name in file `name`.

    >>> "Thanks, that is just right." in lines("closings", "accepts", "train")
    True
    """
    return tuple(read(name)[kind][split].strip("\n").split("\n"))

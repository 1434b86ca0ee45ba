"""Load the rule files: an operator's own first, then those that come with Talkback, the generic one last."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from time import monotonic
from typing import Any

from django.db.models import Count, Max

from chat.clients.rules import Rules, RulesInvalid, read
from chat.operator_rules import ClientRules

log = logging.getLogger(__name__)

FOLDER = Path(__file__).parent
GENERIC = "generic"
LOOK_S = 3.0
"""How often a process looks whether an operator changed a rule."""


@dataclass(frozen=True)
class Shelf:
    """All rule files, as they were last read."""

    looked_at: float
    stamp: Any
    """What the operators' rules were when they were read: how many, and when the last was changed."""
    rules: tuple[Rules, ...]


NO_CLIENT = Rules(title="No client")
"""What the browser's own chats are read with: nothing is dressed, nothing is left out."""

_shelf: Shelf | None = None


def current() -> tuple[Rules, ...]:
    """The files in the order in which they are asked. Costs a small query every LOOK_S seconds, and else nothing."""
    global _shelf
    held = _shelf
    if held is not None and monotonic() - held.looked_at < LOOK_S:
        return held.rules
    stamp = ClientRules.objects.aggregate(Count("pk"), Max("changed_at"))
    if held is None or held.stamp != stamp:
        held = Shelf(monotonic(), stamp, stack(read_own(dict(ClientRules.objects.values_list("name", "source")))))
    else:
        held = Shelf(monotonic(), stamp, held.rules)
    _shelf = held
    return held.rules


def forget() -> None:
    """Look again at the next request: a rule was changed in this process."""
    global _shelf
    _shelf = None


def of(client: str) -> Rules:
    """What is known of this client; the generic rules for an unknown one, none at all without a name."""
    if not client:
        return NO_CLIENT
    shelf = current()
    return next((rules for rules in shelf if rules.client == client), shelf[-1])


def headers() -> set[str]:
    """The request headers that some rule looks at, in lower case."""
    return set().union(*(rules.headers for rules in current())) | {"user-agent"}


def stack(own: dict[str, Rules]) -> tuple[Rules, ...]:
    """Own files before shipped ones, of which they replace those of the same name; generic comes last."""
    every = dict(sorted(own.items())) | {name: rules for name, rules in read_shipped().items() if name not in own}
    return tuple(sorted(every.values(), key=lambda rules: rules.client == GENERIC))


def read_own(sources: dict[str, str]) -> dict[str, Rules]:
    """Operators' files, read. One that cannot be read any more is left out and logged: sorting goes on."""
    readable = {}
    for name, source in sorted(sources.items()):
        try:
            readable[name] = read(name, source)
        except RulesInvalid as error:
            log.error("a rule file is left out: %s", error)
    return readable


@cache
def read_shipped() -> dict[str, Rules]:
    return {file.stem: read(file.stem, file.read_text()) for file in sorted(FOLDER.glob("*.toml"))}


def source_of(name: str) -> str:
    """The text of a file that comes with Talkback; empty when there is none of that name."""
    file = FOLDER / f"{name}.toml"
    return file.read_text() if name in read_shipped() and file.is_file() else ""

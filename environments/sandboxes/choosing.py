"""Pick the kind of sandbox that this machine has, and say why another is not taken."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

from environments.errors import SandboxRefused, SandboxUnavailable
from environments.sandboxes import bubblewrap, containers
from environments.sandboxes.bubblewrap import Bubblewrap
from environments.sandboxes.containers import Container
from environments.sandboxes.sandbox import Sandbox, Wants
from environments.sandboxes.unconfined import Unconfined

Kind = Literal["bubblewrap", "docker", "podman", "none"]

CONFINED: dict[Kind, tuple[Callable[[], str | None], Callable[[Wants], Sandbox]]] = {
    "bubblewrap": (bubblewrap.why_not, Bubblewrap),
    "docker": (lambda: containers.why_not("docker"), lambda wants: Container(wants, "docker")),
    "podman": (lambda: containers.why_not("podman"), lambda wants: Container(wants, "podman")),
}
"""In the order in which they are tried: why it does not work here, and how one is made."""


def open_sandbox(wants: Wants, kind: Kind | None = None, *, trusted: bool = False) -> Sandbox:
    """Start a sandbox of this kind, or of the first that works here and gives what is wanted.

    `none` is taken where it is named and the code is `trusted`, never by itself. Raises SandboxUnavailable where
    nothing works here, SandboxRefused where what works does not give what is wanted.
    """
    if kind == "none":
        return Unconfined(wants, trusted)
    if kind is not None:
        if sentence := CONFINED[kind][0]():
            raise SandboxUnavailable(sentence)
        return CONFINED[kind][1](wants)
    sentences, refusals = [], []
    for why_not, make in CONFINED.values():
        if sentence := why_not():
            sentences.append(sentence)
            continue
        try:
            return make(wants)
        except SandboxRefused as refusal:
            refusals.append(str(refusal))
    if refusals:
        raise SandboxRefused(" ".join([*refusals, *sentences]))
    raise SandboxUnavailable(" ".join(["No sandbox works on this machine.", *sentences]))

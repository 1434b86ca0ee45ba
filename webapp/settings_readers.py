"""Read settings out of the environment, and refuse what makes no sense."""

from __future__ import annotations

import os
import re

from django.core.exceptions import ImproperlyConfigured


def env(name: str, default: str = "") -> str:
    return os.environ.get(name, "") or default


def yes_or_no(name: str) -> bool | None:
    """What a setting of 1 or 0 says, None where it is empty. Raises ImproperlyConfigured for anything else."""
    said = env(name)
    if said not in ("", "0", "1"):
        raise ImproperlyConfigured(f"{name} is {said!r}: it takes 1 for yes, 0 for no, or nothing.")
    return None if said == "" else said == "1"


def allowed_hosts(named: str, listens: str) -> list[str]:
    """The names in `named`, the address that web `listens` on, and always this machine, which asks /readyz.

    Each stands there once."""
    hosts = [host.strip() for host in named.split(",") if host.strip()]
    if listens not in ("", "*", "0.0.0.0", "::"):  # noqa: S104  # it is compared, and not listened on
        hosts.append(f"[{listens}]" if ":" in listens else listens)
    return list(dict.fromkeys([*hosts, "localhost", "127.0.0.1", "[::1]"]))


def speaks_https(said: bool | None, trusted: list[str]) -> bool:
    """Whether people reach this installation by https alone: as was said, else where all trusted origins are."""
    if said is None:
        return bool(trusted) and all(origin.startswith("https://") for origin in trusted)
    return said


def origins(named: str) -> tuple[str, ...]:
    """The origins in `named`, as browsers send them. Raises ImproperlyConfigured for what is none."""
    found = tuple(origin.strip() for origin in named.split(",") if origin.strip())
    for origin in found:
        if origin != "*" and not re.fullmatch(r"[a-z][a-z0-9+.-]*://[^/?#@\s]+", origin):
            raise ImproperlyConfigured(
                f"CORS_ORIGINS has {origin!r}: an origin is a scheme, a name and perhaps a port, as in "
                "https://app.example.org or http://localhost:5173, and nothing behind; * is any."
            )
    return found


def mapped_roles(said: str) -> dict[str, str]:
    """{"staff": "operator"} from "staff=operator". Raises ImproperlyConfigured for what is none."""
    found = {}
    for pair in filter(None, (part.strip() for part in said.split(","))):
        value, _, role = pair.rpartition("=")
        if not value or role not in ("talker", "reviewer", "operator", "administrator"):
            raise ImproperlyConfigured(f"OIDC_ROLES has {pair!r}: it takes value=role, as in staff=operator.")
        found[value] = role
    return found

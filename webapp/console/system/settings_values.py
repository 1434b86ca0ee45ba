"""Say what each setting is here, as far as a page may: of a secret only whether there is one."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from typing import Any

from django.conf import settings

from webapp.console.system.settings_source import Setting

SECRET_NAME = re.compile(r"(KEY|SECRET|PASSWORD|TOKEN|CREDENTIALS?)(_|$)")
MAY_HOLD_ONE = frozenset({"DATABASE_URL", "REDIS_URL", "JUDGES", "SGLANG", "SGLANG_ARGS"})
"""What has room for a password or a key by its own form: addresses of stores, judges as JSON, a command's words."""
ADDRESS = re.compile(r"_URLS?$|_ISSUER$|_ORIGINS$")
LEAST_SECRET = 4
"""Characters from which on a secret is looked for inside other values."""


@dataclass(frozen=True)
class Value:
    """What a page shows of one setting."""

    setting: Setting
    is_secret: bool
    is_set: bool
    """A person, or the start, gave it a value."""
    is_default: bool
    words: str
    """What it is here; always empty for a secret."""


def value_of(setting: Setting) -> Value:
    """The setting as this process goes by it."""
    said = os.environ.get(setting.name, "").strip()
    words = _in_words(getattr(settings, setting.name, said or setting.default))
    is_secret = _is_secret(setting.name, said) or _is_secret(setting.name, words)
    return Value(setting, is_secret, bool(said), said in ("", setting.default), "" if is_secret else words)


def _in_words(value: Any) -> str:
    """A setting as a person writes it.

    >>> _in_words(True), _in_words(None), _in_words(20.0), _in_words(["a", "b"]), _in_words({"staff": "operator"})
    ('1', '', '20', 'a,b', 'staff=operator')
    """
    if value is None:
        return ""
    if isinstance(value, bool):
        return str(int(value))
    if isinstance(value, float):
        return f"{value:g}"
    if isinstance(value, dict):
        return ",".join(f"{name}={role}" for name, role in value.items())
    if isinstance(value, (list, tuple)):
        return ",".join(map(str, value))
    return str(value)


def _is_secret(name: str, value: str) -> bool:
    """Whether no part of this value may be shown: by its name, by its form, or because a secret stands in it."""
    if SECRET_NAME.search(name) or name in MAY_HOLD_ONE:
        return True
    if "@" in value and ("://" in value or ADDRESS.search(name)):
        return True
    if ADDRESS.search(name) and re.search(r"[?#]", value):
        return True
    others = (said for other, said in os.environ.items() if SECRET_NAME.search(other) and len(said) >= LEAST_SECRET)
    return any(said in value for said in others)

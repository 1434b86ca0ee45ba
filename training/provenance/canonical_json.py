"""Write a value in the one way that is hashed and signed: canonical JSON, in the forms that receipts have had."""

from __future__ import annotations

import hashlib
import json
from typing import Any

import rfc8785

FIRST = "talkback-receipt-1"
"""The form whose canonical JSON is Python's: sorted keys, no spaces, ASCII."""

FORMAT = "talkback-receipt-2"
"""The form of what is made now: canonical JSON is RFC 8785's."""

FORMATS = (FIRST, FORMAT)


def canonical(value: Any, form: str = FORMAT) -> bytes:
    """The one way to write this value in a receipt of this form. Raises ValueError for what JSON has no number for.

    An integer beyond 2⁵³ is what a reader of JSON makes of it, the nearest double.

    >>> canonical({"b": 1e-5, "a": "é"}).decode()
    '{"a":"é","b":0.00001}'
    >>> canonical({"b": 1e-5, "a": "é"}, FIRST)
    b'{"a":"\\\\u00e9","b":1e-05}'
    >>> canonical([1.0, 10**30])
    b'[1,1e+30]'
    """
    if form == FIRST:
        return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False).encode("ascii")
    try:
        return rfc8785.dumps(value)
    except rfc8785.IntegerDomainError:
        return rfc8785.dumps(json.loads(json.dumps(value), parse_int=_number))


def _number(digits: str) -> float:
    return int(digits) if abs(float(digits)) < 2**53 else float(digits)


def digest(value: Any, form: str = FORMAT) -> str:
    return hashlib.sha256(canonical(value, form)).hexdigest()

"""Say what is wrong with a knob's value, in the reader's language: pydantic speaks English alone."""

from __future__ import annotations

from typing import Any

from django.utils.translation import gettext as _
from django.utils.translation import gettext_noop
from pydantic_core import ErrorDetails

BOUNDS = {
    "greater_than": ("gt", gettext_noop("should be greater than %(bound)s")),
    "greater_than_equal": ("ge", gettext_noop("should be greater than or equal to %(bound)s")),
    "less_than": ("lt", gettext_noop("should be less than %(bound)s")),
    "less_than_equal": ("le", gettext_noop("should be less than or equal to %(bound)s")),
}
"""By pydantic's name of a fault: where it keeps the bound, and the words."""

NO_NUMBER = frozenset({"float_parsing", "int_parsing", "float_type", "int_type"})


def why(error: ErrorDetails) -> str:
    """The rest of a sentence about a value; what pydantic alone has words for stays in English.

    >>> why({"type": "less_than_equal", "loc": ("gate", "variety"), "msg": "", "input": 2, "ctx": {"le": 1.0}})
    'should be less than or equal to 1'
    >>> why({"type": "int_from_float", "loc": (), "msg": "Input should be a valid integer", "input": 1.5})
    'should be a valid integer'
    """
    kind, context = error["type"], error.get("ctx", {})
    if kind in BOUNDS:
        name, said = BOUNDS[kind]
        return _(said) % {"bound": _number(context[name])}
    return error["msg"].removeprefix("Value error, ").removeprefix("Input ")


def _number(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)

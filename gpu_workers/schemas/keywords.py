"""Schema keywords check one keyword's value each, and name the place of what is wrong in a refusal. Pure."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any
from urllib.parse import urljoin

from core.errors import TalkbackError

Steps = tuple[str | int, ...]
"""A place in a schema, as the keys and numbers that lead to it."""

COUNTS = ("minLength", "maxLength", "minItems", "maxItems", "minProperties", "maxProperties")
NUMBERS = ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf")
TYPES = ("string", "number", "integer", "boolean", "null", "array", "object")

PLAIN_FORMATS = ("password", "binary")
"""Formats that allow every text."""


class SchemaRefused(TalkbackError):
    """No reply can be held to this schema. The sentence names the place in the client's own words."""

    code, status = "invalid_request", 400

    def __init__(self, reason: str, steps: Steps = ()) -> None:
        super().__init__(f"This schema cannot be held: {at(steps)}{reason}.")
        self.reason, self.steps = reason, steps
        self.tool = ""
        """The function whose arguments it describes."""

    def of_tool(self, name: str) -> SchemaRefused:
        """The same, said of a function's parameters."""
        self.args = (f"The parameters of tool {name!r} cannot be held: {at(self.steps)}{self.reason}.",)
        self.tool = name
        return self


def allows_all(schema: Any) -> bool:
    return schema is True or (isinstance(schema, Mapping) and not schema)


UNENFORCED: Mapping[str, Callable[[Any, Mapping[str, Any]], bool]] = {
    "not": lambda value, beside: value is False,
    "if": lambda value, beside: not beside.keys() & {"then", "else"},
    "then": lambda value, beside: "if" not in beside or allows_all(value),
    "else": lambda value, beside: "if" not in beside or allows_all(value),
    "contains": lambda value, beside: beside.get("minContains") == 0 and "maxContains" not in beside,
    "minContains": lambda value, beside: "contains" not in beside or value == 0,
    "maxContains": lambda value, beside: "contains" not in beside,
    "uniqueItems": lambda value, beside: value is False,
    "propertyNames": lambda value, beside: allows_all(value) or value == {"type": "string"},
    "dependentRequired": lambda value, beside: not value,
    "dependentSchemas": lambda value, beside: not value,
    "dependencies": lambda value, beside: not value,
    "unevaluatedItems": lambda value, beside: allows_all(value),
    "unevaluatedProperties": lambda value, beside: allows_all(value),
}
"""Keywords that no grammar here enforces, and when they say nothing."""


def count(value: Any, here: Steps) -> int:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or value != int(value) or value < 0:
        raise SchemaRefused(f"this is a whole number from 0 on, not {brief(value)}", here)
    return int(value)


def bound(key: str, value: Any, beside: Mapping[str, Any], here: Steps) -> dict[str, Any]:
    """Check a number's bound; draft 4 wrote an exclusive one as a sign beside it."""
    if isinstance(value, bool) and key.startswith("exclusive"):
        return {key: beside[key[9:].lower()]} if value and key[9:].lower() in beside else {}
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise SchemaRefused(f"this is a number, not {brief(value)}", here)
    return {} if beside.get(f"exclusive{key.capitalize()}") is True else {key: value}


def types(value: Any, here: Steps) -> Any:
    for one in value if isinstance(value, list) else [value]:
        if one not in TYPES:
            raise SchemaRefused(f"{brief(one)} is no type of JSON", here)
    return value


def names(value: Any, here: Steps) -> list[str]:
    if not isinstance(value, list) or not all(isinstance(one, str) for one in value):
        raise SchemaRefused(f"this is a list of names, not {brief(value)}", here)
    return list(dict.fromkeys(value))


def formatted(value: Any, beside: Mapping[str, Any], here: Steps) -> dict[str, Any]:
    """Check a format; one of numbers says nothing."""
    given = beside.get("type", "string")
    is_text = "string" in (given if isinstance(given, list) else [given])
    if not isinstance(value, str):
        untold(here)
    return {"format": value} if is_text and value not in PLAIN_FORMATS else {}


def are_apart(schemas: Sequence[Any]) -> bool:
    """Tell whether each of these says which values it takes, and no two take the same."""
    taken = []
    for schema in schemas:
        if not isinstance(schema, Mapping) or not schema.keys() & {"const", "enum"}:
            return False
        taken.append({same(value) for value in ([schema["const"]] if "const" in schema else schema["enum"])})
    return len(set[str]().union(*taken)) == sum(map(len, taken))


def same(value: Any) -> str:
    """Write a JSON value so that equal values are equal texts: 1 and 1.0 are."""
    return json.dumps(json.loads(json.dumps(value), parse_int=float), sort_keys=True)


def at(steps: Steps) -> str:
    """Write a place in a sentence, as the JSON pointer that a client would write.

    >>> at(("properties", "a/b", "not"))
    "at '#/properties/a~1b/not', "
    """
    pointer = "".join("/" + str(step).replace("~", "~0").replace("/", "~1") for step in steps)
    return f"at '#{pointer}', " if steps else ""


def brief(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 60 else f"{text[:60]}…"


def joined(base: str, uri: str, steps: Steps) -> str:
    try:
        return urljoin(base, uri)
    except ValueError:
        raise SchemaRefused(f"{uri!r} is no address", steps) from None


def unlisted(here: Steps) -> Any:
    raise SchemaRefused("this is a list of values, and not an empty one", here)


def untold(here: Steps) -> Any:
    raise SchemaRefused("this is text", here)

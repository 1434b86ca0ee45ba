"""The schema graph: which schemas stand in which, where references lead, and how deep and how many that makes. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from gpu_workers.schemas.keywords import Steps

SCHEMA = (
    *("items", "additionalItems", "contains", "additionalProperties", "propertyNames", "contentSchema"),
    *("not", "if", "then", "else", "unevaluatedItems", "unevaluatedProperties"),
)
SCHEMAS = ("allOf", "anyOf", "oneOf", "prefixItems")
NAMED = ("properties", "patternProperties", "$defs", "definitions", "dependentSchemas", "dependencies")
"""Keywords whose value is a schema, a list of schemas, and schemas by name. What stands elsewhere is data."""


def inside(schema: Mapping[str, Any]) -> Iterator[tuple[Any, Steps]]:
    """Yield the schemas that are parts of this one, and where. Data that looks like one is none."""
    for key in schema.keys() & {*SCHEMA, *SCHEMAS, *NAMED}:
        value = schema[key]
        if key in NAMED:
            if isinstance(value, Mapping):
                yield from ((inner, (key, name)) for name, inner in value.items())
        elif isinstance(value, list):
            yield from ((inner, (key, n)) for n, inner in enumerate(value))
        else:
            yield value, (key,)


def references(schema: Any, *, at_once: bool = False) -> Iterator[str]:
    """Yield where the references of a compiled schema lead; with `at_once` those that hold for the very same value."""
    if not isinstance(schema, Mapping):
        return
    if "$ref" in schema:
        yield schema["$ref"]
    for inner, place in inside(schema):
        if not at_once or place[0] in ("allOf", "anyOf", "oneOf"):
            yield from references(inner, at_once=at_once)


def nesting(schema: Any) -> int:
    """Count how deep schemas stand inside each other here."""
    if not isinstance(schema, Mapping):
        return 1
    return 1 + max((nesting(inner) for inner, _ in inside(schema)), default=0)


def patterns(schema: Any, known: Mapping[str, int]) -> int:
    """Count the patterns and formats that may hold for one text in here; what references lead to is `known`."""
    if not isinstance(schema, Mapping):
        return 0
    joined = known.get(schema.get("$ref", ""), 0) + sum(patterns(inner, known) for inner in schema.get("allOf", ()))
    joined += max((patterns(inner, known) for key in ("anyOf", "oneOf") for inner in schema.get(key, ())), default=0)
    beneath = (patterns(inner, known) for inner, place in inside(schema) if place[0] not in ("allOf", "anyOf", "oneOf"))
    return joined + max(("pattern" in schema) + ("format" in schema), *beneath, 0)


def groups(behind: Mapping[str, Sequence[str]]) -> list[list[str]]:
    """Group names that lead to each other; a group comes after those it leads to. (Tarjan, without recursion.)

    >>> groups({"a": ["b"], "b": ["c"], "c": ["b"]})
    [['c', 'b'], ['a']]
    """
    number: dict[str, int] = {}
    lowest: dict[str, int] = {}
    open_: dict[str, None] = {}
    found: list[list[str]] = []
    for first in behind:
        work = [(first, iter(behind[first]))] if first not in number else []
        while work:
            name, rest = work[-1]
            if name not in number:
                number[name] = lowest[name] = len(number)
                open_[name] = None
            for other in rest:
                if other not in number:
                    work.append((other, iter(behind[other])))
                    break
                if other in open_:
                    lowest[name] = min(lowest[name], number[other])
            else:
                work.pop()
                if work:
                    lowest[work[-1][0]] = min(lowest[work[-1][0]], lowest[name])
                if lowest[name] == number[name]:
                    group: list[str] = []
                    while not group or group[-1] != name:
                        group.append(open_.popitem()[0])
                    found.append(group)
    return found

"""Make of the API's own schema what a page of it shows: operations by their part, and the shapes that they name."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

Schema = dict[str, Any]
DEEPEST = 6
"""How far an example goes into shapes that hold shapes."""


@dataclass(frozen=True)
class Kind:
    """One of the kinds of value that a field takes."""

    words: str
    shape: str = ""
    """The shape's name, which the page links to; then `words` stands before it: "list of"."""


@dataclass(frozen=True)
class Field:
    name: str
    kinds: tuple[Kind, ...]
    is_required: bool
    about: str
    default: str
    """As JSON; empty where there is none."""


@dataclass(frozen=True)
class Shape:
    name: str
    about: str
    fields: tuple[Field, ...]


@dataclass(frozen=True)
class Answer:
    status: str
    about: str
    kinds: tuple[Kind, ...]


@dataclass(frozen=True)
class Operation:
    id: str
    method: str
    path: str
    title: str
    about: str
    places: tuple[Field, ...]
    """What stands in its path and its query."""
    body: Shape | None
    curl: str
    """A command that calls it, with the key in $KEY."""
    answers: tuple[Answer, ...]


def operations(schema: Schema, root: str) -> dict[str, list[Operation]]:
    """Every operation of an OpenAPI document by its part, in its order. `root` is the address that examples name."""
    found: dict[str, list[Operation]] = {}
    for path, methods in schema["paths"].items():
        for method, said in methods.items():
            found.setdefault(said["tags"][0], []).append(_operation(schema, root, path, method.upper(), said))
    return found


def shapes(schema: Schema) -> list[Shape]:
    """Every named shape of an OpenAPI document, by name."""
    return [_shape(name, said) for name, said in sorted(schema["components"]["schemas"].items())]


def _operation(schema: Schema, root: str, path: str, method: str, said: Schema) -> Operation:
    body, sent = None, None
    if "requestBody" in said:
        asked = said["requestBody"]["content"]["application/json"]["schema"]
        body, sent = _shape(_named(asked), _resolved(schema, asked)), _example(schema, asked)
    places = [
        Field(one["name"], _kinds(one["schema"]), one.get("required", False), one.get("description", ""), "")
        for one in said.get("parameters", ())
    ]
    answers = [
        Answer(str(status), one.get("description", ""), tuple(_told(one.get("content", {}))))
        for status, one in said["responses"].items()
    ]
    return Operation(
        id=said["operationId"],
        method=method,
        path=path,
        title=said.get("summary", path),
        about=said.get("description", ""),
        places=tuple(places),
        body=body,
        curl=_curl(root + path, method, sent),
        answers=tuple(answers),
    )


def _curl(address: str, method: str, sent: Any) -> str:
    lines = [f'curl {"" if method == "GET" else f"-X {method} "}"{address}"', '-H "Authorization: Bearer $KEY"']
    if sent is not None:
        lines.append('-H "Content-Type: application/json"')
        lines.append("-d '" + json.dumps(sent, ensure_ascii=False, indent=2).replace("'", "'\\''") + "'")
    return " \\\n  ".join(lines)


def _told(content: Schema) -> Iterator[Kind]:
    """The kinds of an answer, each with its media type where that is not JSON."""
    for media, one in content.items():
        if media == "application/json":
            yield from _kinds(one["schema"])
        else:
            yield Kind(media)


def _shape(name: str, said: Schema) -> Shape:
    required = said.get("required", ())
    fields = [
        Field(
            field,
            _kinds(one),
            field in required,
            one.get("description", ""),
            json.dumps(one["default"]) if one.get("default") is not None else "",
        )
        for field, one in said.get("properties", {}).items()
    ]
    return Shape(name, said.get("description", ""), tuple(fields))


def _kinds(said: Schema) -> tuple[Kind, ...]:
    """What a schema takes, in words and links; null is left out, which every field that is not required takes."""
    if "$ref" in said:
        return (Kind("", _named(said)),)
    for several in ("anyOf", "oneOf", "allOf"):
        if several in said:
            return tuple(kind for one in said[several] if one.get("type") != "null" for kind in _kinds(one))
    if "const" in said:
        return (Kind(json.dumps(said["const"])),)
    if "enum" in said:
        return (Kind(", ".join(json.dumps(one) for one in said["enum"])),)
    if said.get("type") == "array":
        return tuple(Kind(f"list of {kind.words}".strip(), kind.shape) for kind in _kinds(said.get("items", {})))
    inside = said.get("additionalProperties")
    if said.get("type") == "object" and isinstance(inside, dict):
        return tuple(Kind(f"object of {kind.words}".strip(), kind.shape) for kind in _kinds(inside))
    return (Kind(" ".join([said.get("type", "any"), *_limits(said)])),)


def _limits(said: Schema) -> Iterator[str]:
    for key, words in (("minimum", "from"), ("maximum", "to"), ("maxLength", "of at most")):
        if key in said:
            yield f"{words} {said[key]:g}{' characters' if key == 'maxLength' else ''}"


def _named(said: Schema) -> str:
    return str(said.get("$ref", "")).rpartition("/")[2]


def _resolved(schema: Schema, said: Schema) -> Schema:
    name = _named(said)
    found: Schema = schema["components"]["schemas"][name] if name else said
    return found


def _example(schema: Schema, said: Schema, depth: int = 0) -> Any:
    """The first example of a shape; where it has none, a value with what it requires."""
    said = _resolved(schema, said)
    if said.get("examples"):
        return said["examples"][0]
    for several in ("anyOf", "oneOf", "allOf"):
        if several in said:
            return _example(schema, said[several][0], depth)
    if "const" in said:
        return said["const"]
    if "enum" in said:
        return said["enum"][0]
    kind = said.get("type")
    if kind == "array":
        return [_example(schema, said["items"], depth + 1)] if said.get("minItems") and depth < DEEPEST else []
    if kind == "object":
        names = said.get("required", ()) if depth < DEEPEST else ()
        return {name: _example(schema, said["properties"][name], depth + 1) for name in names}
    return {"integer": said.get("minimum", 0), "number": said.get("minimum", 0), "boolean": True}.get(str(kind), "…")

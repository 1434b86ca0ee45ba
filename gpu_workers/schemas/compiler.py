"""Schemas of clients are compiled into what a grammar holds a reply to. Pure; nothing is looked up elsewhere."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import unquote

from gpu_workers.schemas.graph import SCHEMAS, groups, inside, nesting, patterns, references
from gpu_workers.schemas.keywords import (
    COUNTS,
    NUMBERS,
    UNENFORCED,
    SchemaRefused,
    Steps,
    are_apart,
    bound,
    brief,
    count,
    formatted,
    joined,
    names,
    types,
    unlisted,
    untold,
)

BLANKS = r"\n {0,32}| "
"""What may stand between the parts of a JSON text: enough for an indented one, too little to go on for ever."""

MOST_NESTED = 500
"""Schemas inside each other, references followed: llguidance follows them on its stack, which ends a process."""

MOST_CHARACTERS = 200_000
"""Of a schema that was made: to make a grammar of as many takes seconds."""

MOST_PATTERNS = 8
"""Patterns and formats that may hold for one text together. llguidance joins them, and is not back from thirty within
a minute."""

MOST_NAMED = 50
"""Patterns of names in one object: each is held against each."""

MOST_LOOKED_AT = 256
"""Parts of a schema that are tried one by one, to say which of them cannot be held."""

ONE_OF = "'oneOf' can be held only where no JSON can satisfy two of its parts: send 'anyOf'"


@dataclass(frozen=True)
class CompiledSchema:
    """A schema as a grammar is made of it. Its references all lead to its `definitions`, which are to stand in
    `$defs` of the text that it becomes a part of."""

    schema: dict[str, Any]
    definitions: dict[str, Any] = field(default_factory=dict)

    def text(self) -> str:
        whole = {"$defs": self.definitions} | self.schema if self.definitions else self.schema
        return json.dumps(whole, ensure_ascii=False)


def compile_schema(schema: Any, prefix: str = "") -> CompiledSchema:
    """Compile a schema: its references become pointers to definitions named `prefix` and a number; ids, notes and
    keywords that say nothing are left out. What satisfies the one satisfies the other.

    Raises SchemaRefused for a keyword that no grammar here enforces, a reference to nothing, and what nothing
    satisfies.

    >>> compile_schema({"$id": "urn:x", "$ref": "#n", "$defs": {"a": {"$anchor": "n", "enum": [1]}}}).text()
    '{"$defs": {"0": {"enum": [1]}}, "$ref": "#/$defs/0"}'
    """
    if schema is False:
        raise SchemaRefused("no JSON satisfies false")
    try:
        made = Compiler({} if schema is True else schema, prefix)
        return made.whole()
    except RecursionError as error:
        raise SchemaRefused("its parts are nested too deeply") from error


class Compiler:
    """Compile one schema: resolve its references, check its keywords, and bound its size."""

    def __init__(self, schema: Any, prefix: str) -> None:
        self._root = schema
        self._prefix = prefix
        self._bases: dict[Steps, str] = {}
        self._resources: dict[str, Steps] = {"": ()}
        self._anchors: dict[tuple[str, str], Steps] = {}
        self._moving: dict[str, list[Steps]] = {}  # anchors that a reference finds where it is used
        self._names: dict[Steps, str] = {}  # what is referred to
        self._waiting: list[Steps] = []
        self._parts: list[tuple[Steps, dict[str, Any]]] = []
        is_old = isinstance(schema, Mapping) and "draft-04" in str(schema.get("$schema"))
        self._id = "id" if is_old else "$id"
        self._index(schema, (), "")

    def whole(self) -> CompiledSchema:
        schema = self._compile(self._root, ())
        if not isinstance(schema, dict):
            schema = {}
        definitions: dict[str, Any] = {}
        while self._waiting:
            steps = self._waiting.pop()
            definitions[self._names[steps]] = self._compile(self._found(steps), steps)
        made = CompiledSchema(schema, definitions)
        if len(text := made.text()) > MOST_CHARACTERS:
            raise SchemaRefused(f"it has {len(text)} characters, and {MOST_CHARACTERS} are the most")
        self._check_size(made)
        if fault := refusal(text):
            raise self._blamed(made, fault)
        return made

    def _index(self, schema: Any, steps: Steps, base: str) -> None:
        """Note what this schema and those inside are called."""
        if not isinstance(schema, Mapping):
            return
        named = schema.get(self._id)
        if isinstance(named, str):
            uri, _, fragment = named.partition("#")
            if uri:
                base = joined(base, uri, (*steps, self._id))
                self._resources.setdefault(base, steps)
            if fragment:  # how drafts before 2019 wrote an anchor
                self._anchors.setdefault((base, fragment), steps)
        self._bases[steps] = base
        for keyword in ("$anchor", "$dynamicAnchor"):
            if isinstance(anchor := schema.get(keyword), str):
                self._anchors.setdefault((base, anchor), steps)
                if keyword == "$dynamicAnchor":
                    self._moving.setdefault(anchor, []).append(steps)
        if schema.get("$recursiveAnchor") is True:
            self._moving.setdefault("$recursiveAnchor", []).append(steps)
        for inner, place in inside(schema):
            self._index(inner, (*steps, *place), base)

    def _found(self, steps: Steps) -> Any:
        """What stands there. Raises KeyError where nothing does."""
        value = self._root
        for step in steps:
            if isinstance(value, list):
                value = value[step] if isinstance(step, int) and step < len(value) else missing(step)
            else:
                value = value[step] if isinstance(value, Mapping) and step in value else missing(step)
        return value

    def _base(self, steps: Steps) -> str:
        return next(self._bases[steps[:n]] for n in range(len(steps), -1, -1) if steps[:n] in self._bases)

    def _target(self, ref: Any, steps: Steps) -> Steps:
        """The place that a reference at `steps` leads to."""
        if not isinstance(ref, str):
            raise SchemaRefused("a reference is text", steps)
        uri, _, fragment = ref.partition("#")
        base = self._base(steps)
        resource = joined(base, uri, steps) if uri else base
        if resource not in self._resources:
            raise SchemaRefused(f"{ref!r} points outside of this schema, and nothing is fetched", steps)
        fragment = unquote(fragment)
        if fragment and not fragment.startswith("/"):
            if (resource, fragment) not in self._anchors:
                raise SchemaRefused(f"{ref!r} points to nothing", steps)
            return self._anchors[resource, fragment]
        target = self._resources[resource]
        for step in fragment.split("/")[1:]:
            step = step.replace("~1", "/").replace("~0", "~")
            is_number = isinstance(self._found(target), list) and step.isascii() and step.isdigit()
            target = (*target, int(step) if is_number else step)
            try:
                self._found(target)
            except KeyError:
                raise SchemaRefused(f"{ref!r} points to nothing", steps) from None
        return target

    def _referred(self, target: Steps) -> str:
        if target not in self._names:
            self._names[target] = f"{self._prefix}{len(self._names)}"
            self._waiting.append(target)
        return f"#/$defs/{self._names[target]}"

    def _compile(self, schema: Any, steps: Steps) -> dict[str, Any] | bool:
        if isinstance(schema, bool):
            return schema
        if not isinstance(schema, Mapping):
            raise SchemaRefused(f"a schema is an object, or true or false, not {brief(schema)}", steps)
        given = {key: value for key, value in schema.items() if value is not None or key == "const"}
        made: dict[str, Any] = {}
        for key, value in given.items():
            here = (*steps, key)
            if key in UNENFORCED:
                if not UNENFORCED[key](value, given):
                    raise SchemaRefused(f"no reply can be held to {key!r} here. Leave it out", here)
            elif key in ("$ref", "$recursiveRef", "$dynamicRef"):
                made["$ref"] = self._reference(key, value, made, here)
            elif key in ("properties", "patternProperties"):
                made[key] = self._by_name(value, here)
            elif key in SCHEMAS:
                made[key] = self._each(value, here)
            elif key == "items" and isinstance(value, list):  # how drafts before 2020 wrote prefixItems
                made["prefixItems"] = self._each(value, here)
                if "additionalItems" in given:
                    made["items"] = self._compile(given["additionalItems"], (*steps, "additionalItems"))
            elif key in ("items", "additionalProperties"):
                made[key] = self._compile(value, here)
            elif key in COUNTS:
                made[key] = count(value, here)
            elif key in NUMBERS:
                made |= bound(key, value, given, here)
            elif key == "type":
                made[key] = types(value, here)
            elif key == "enum":
                made[key] = value if isinstance(value, list) and value else unlisted(here)
            elif key == "required":
                made[key] = names(value, here)
            elif key == "format":
                made |= formatted(value, given, here)
            elif key == "pattern":
                made[key] = value if isinstance(value, str) else untold(here)
            elif key == "const":
                made[key] = value
        if "oneOf" in made and are_apart(made["oneOf"]) and "anyOf" not in made:
            made["anyOf"] = made.pop("oneOf")
        self._parts.append((steps, made))
        return made

    def _reference(self, key: str, value: Any, made: Mapping[str, Any], here: Steps) -> str:
        """The pointer that this reference is in what is made."""
        anchor = "$recursiveAnchor" if key == "$recursiveRef" else str(value).partition("#")[2]
        if (key != "$ref" and len(self._moving.get(anchor, ())) > 1) or "$ref" in made:
            raise SchemaRefused(f"no reply can be held to {key!r} here. Send '$ref'", here)
        return self._referred(self._target(value, here))

    def _by_name(self, value: Any, here: Steps) -> dict[str, Any]:
        if not isinstance(value, Mapping):
            raise SchemaRefused(f"this is an object of schemas, not {brief(value)}", here)
        return {name: self._compile(inner, (*here, name)) for name, inner in value.items()}

    def _each(self, value: Any, here: Steps) -> list[Any]:
        if not isinstance(value, list) or not value:
            raise SchemaRefused(f"this is a list of schemas, not {brief(value)}", here)
        return [self._compile(inner, (*here, n)) for n, inner in enumerate(value)]

    def _check_size(self, made: CompiledSchema) -> None:
        """Raises SchemaRefused for references that lead back to themselves, and for what would take too long."""
        schemas = {"": made.schema} | {f"#/$defs/{name}": inner for name, inner in made.definitions.items()}
        places = {f"#/$defs/{name}": steps for steps, name in self._names.items()}
        for group in groups({name: list(references(inner, at_once=True)) for name, inner in schemas.items()}):
            if len(group) > 1 or group[0] in references(schemas[group[0]], at_once=True):
                raise SchemaRefused("its references lead back to it, and to no value", places.get(group[0], ()))
        behind = {name: list(references(inner)) for name, inner in schemas.items()}
        height: dict[str, int] = {}
        joined: dict[str, int] = {}
        for group in groups(behind):  # those that it refers to come before it
            own = sum(nesting(schemas[name]) for name in group)
            below = max((height[inner] for name in group for inner in behind[name] if inner in height), default=0)
            height |= dict.fromkeys(group, own + below)
            if own + below > MOST_NESTED:
                raise SchemaRefused(f"its parts stand more than {MOST_NESTED} deep inside each other")
            joined |= {name: patterns(schemas[name], joined) for name in group}
            if (most := next((name for name in group if joined[name] > MOST_PATTERNS), None)) is not None:
                reason = f"more than {MOST_PATTERNS} patterns and formats may hold for one text"
                raise SchemaRefused(reason, places.get(most, ()))
        for steps, part in self._parts:
            if len(part.get("patternProperties", ())) > MOST_NAMED:
                raise SchemaRefused(f"this has more than {MOST_NAMED} patterns", (*steps, "patternProperties"))

    def _blamed(self, made: CompiledSchema, fault: str) -> SchemaRefused:
        """The refusal, with the place of the smallest part that has this fault by itself."""
        steps: Steps = ()
        for place, part in self._parts if len(self._parts) <= MOST_LOOKED_AT else ():
            alone = refusal(CompiledSchema(part, made.definitions).text())
            if alone == fault or alone[:13] == fault[:13] == "Unsatisfiable":
                fault, steps = alone, place
                break  # parts come before what they are a part of
        return SchemaRefused(ONE_OF if "coerce_one_of" in fault else fault, steps)


def refusal(text: str) -> str:
    """Return why no grammar can be made of this schema text; empty where one can."""
    from llguidance import LLMatcher

    try:
        source = LLMatcher.grammar_from_json_schema(text, overrides={"whitespace_pattern": BLANKS, "lenient": False})
        fault = LLMatcher.validate_grammar(source)
    except ValueError as error:
        fault = str(error)
    return " ".join(fault.split())[:300].rstrip(".")


def missing(step: object) -> Any:
    raise KeyError(step)

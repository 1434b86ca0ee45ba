"""JSON schemas of clients, made into what a grammar holds a reply to. Pure; nothing is looked up elsewhere."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import unquote, urljoin

from core.errors import TalkbackError

Steps = tuple[str | int, ...]
"""A place in a schema, as the keys and numbers that lead to it."""

BLANKS = r"\n {0,32}| "
"""What may stand between the parts of a JSON text: enough for an indented one, too little to go on for ever."""

SCHEMA = (
    *("items", "additionalItems", "contains", "additionalProperties", "propertyNames", "contentSchema"),
    *("not", "if", "then", "else", "unevaluatedItems", "unevaluatedProperties"),
)
SCHEMAS = ("allOf", "anyOf", "oneOf", "prefixItems")
NAMED = ("properties", "patternProperties", "$defs", "definitions", "dependentSchemas", "dependencies")
"""Keywords whose value is a schema, a list of schemas, and schemas by name. What stands elsewhere is data."""

COUNTS = ("minLength", "maxLength", "minItems", "maxItems", "minProperties", "maxProperties")
NUMBERS = ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf")
TYPES = ("string", "number", "integer", "boolean", "null", "array", "object")

PLAIN_FORMATS = ("password", "binary")
"""Formats that allow every text."""

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


@dataclass(frozen=True)
class Held:
    """A schema as a grammar is made of it. Its references all lead to its `definitions`, which are to stand in
    `$defs` of the text that it becomes a part of."""

    schema: dict[str, Any]
    definitions: dict[str, Any] = field(default_factory=dict)

    def text(self) -> str:
        whole = {"$defs": self.definitions} | self.schema if self.definitions else self.schema
        return json.dumps(whole, ensure_ascii=False)


def held(schema: Any, prefix: str = "") -> Held:
    """The same schema with its references as pointers to definitions named `prefix` and a number; ids, notes and what
    says nothing are left out. What satisfies the one satisfies the other.

    Raises SchemaRefused for a keyword that no grammar here enforces, a reference to nothing, and what nothing
    satisfies.

    >>> held({"$id": "urn:x", "$ref": "#n", "$defs": {"a": {"$anchor": "n", "enum": [1], "title": "One"}}}).text()
    '{"$defs": {"0": {"enum": [1]}}, "$ref": "#/$defs/0"}'
    """
    if schema is False:
        raise SchemaRefused("no JSON satisfies false")
    try:
        made = Making({} if schema is True else schema, prefix)
        return made.whole()
    except RecursionError as error:
        raise SchemaRefused("its parts are nested too deeply") from error


class Making:
    """One schema on its way."""

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

    def whole(self) -> Held:
        schema = self._held(self._root, ())
        if not isinstance(schema, dict):
            schema = {}
        definitions: dict[str, Any] = {}
        while self._waiting:
            steps = self._waiting.pop()
            definitions[self._names[steps]] = self._held(self._found(steps), steps)
        made = Held(schema, definitions)
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

    def _held(self, schema: Any, steps: Steps) -> dict[str, Any] | bool:
        if isinstance(schema, bool):
            return schema
        if not isinstance(schema, Mapping):
            raise SchemaRefused(f"a schema is an object, or true or false, not {brief(schema)}", steps)
        given = {key: value for key, value in schema.items() if value is not None or key == "const"}
        made: dict[str, Any] = {}
        for key, value in given.items():
            here = (*steps, key)
            if key in NOT_HELD:
                if not NOT_HELD[key](value, given):
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
                    made["items"] = self._held(given["additionalItems"], (*steps, "additionalItems"))
            elif key in ("items", "additionalProperties"):
                made[key] = self._held(value, here)
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
        return {name: self._held(inner, (*here, name)) for name, inner in value.items()}

    def _each(self, value: Any, here: Steps) -> list[Any]:
        if not isinstance(value, list) or not value:
            raise SchemaRefused(f"this is a list of schemas, not {brief(value)}", here)
        return [self._held(inner, (*here, n)) for n, inner in enumerate(value)]

    def _check_size(self, made: Held) -> None:
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

    def _blamed(self, made: Held, fault: str) -> SchemaRefused:
        """The refusal, with the place of the smallest part that has this fault by itself."""
        steps: Steps = ()
        for place, part in self._parts if len(self._parts) <= MOST_LOOKED_AT else ():
            alone = refusal(Held(part, made.definitions).text())
            if alone == fault or alone[:13] == fault[:13] == "Unsatisfiable":
                fault, steps = alone, place
                break  # parts come before what they are a part of
        return SchemaRefused(ONE_OF if "coerce_one_of" in fault else fault, steps)


def refusal(text: str) -> str:
    """Why no grammar can be made of a schema that is written so; empty where one can."""
    from llguidance import LLMatcher

    try:
        source = LLMatcher.grammar_from_json_schema(text, overrides={"whitespace_pattern": BLANKS, "lenient": False})
        fault = LLMatcher.validate_grammar(source)
    except ValueError as error:
        fault = str(error)
    return " ".join(fault.split())[:300].rstrip(".")


def inside(schema: Mapping[str, Any]) -> Iterator[tuple[Any, Steps]]:
    """The schemas that are parts of this one, and where. Data that looks like one is none."""
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
    """Where the references of a schema that was made lead; with `at_once` those that hold for the very same value."""
    if not isinstance(schema, Mapping):
        return
    if "$ref" in schema:
        yield schema["$ref"]
    for inner, place in inside(schema):
        if not at_once or place[0] in ("allOf", "anyOf", "oneOf"):
            yield from references(inner, at_once=at_once)


def nesting(schema: Any) -> int:
    """How many schemas stand inside each other here."""
    if not isinstance(schema, Mapping):
        return 1
    return 1 + max((nesting(inner) for inner, _ in inside(schema)), default=0)


def patterns(schema: Any, known: Mapping[str, int]) -> int:
    """How many patterns and formats may hold for one text in here; what references lead to is `known`."""
    if not isinstance(schema, Mapping):
        return 0
    joined = known.get(schema.get("$ref", ""), 0) + sum(patterns(inner, known) for inner in schema.get("allOf", ()))
    joined += max((patterns(inner, known) for key in ("anyOf", "oneOf") for inner in schema.get(key, ())), default=0)
    beneath = (patterns(inner, known) for inner, place in inside(schema) if place[0] not in ("allOf", "anyOf", "oneOf"))
    return joined + max(("pattern" in schema) + ("format" in schema), *beneath, 0)


def groups(behind: Mapping[str, Sequence[str]]) -> list[list[str]]:
    """Names that lead to each other, in groups; a group comes after those it leads to. (Tarjan, without recursion.)

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


def allows_all(schema: Any) -> bool:
    return schema is True or (isinstance(schema, Mapping) and not schema)


NOT_HELD: Mapping[str, Callable[[Any, Mapping[str, Any]], bool]] = {
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
    """A number's bound; draft 4 wrote an exclusive one as a sign beside it."""
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
    """A format; one of numbers says nothing."""
    given = beside.get("type", "string")
    is_text = "string" in (given if isinstance(given, list) else [given])
    if not isinstance(value, str):
        untold(here)
    return {"format": value} if is_text and value not in PLAIN_FORMATS else {}


def are_apart(schemas: Sequence[Any]) -> bool:
    """Whether each of these says which values it takes, and no two take the same."""
    taken = []
    for schema in schemas:
        if not isinstance(schema, Mapping) or not schema.keys() & {"const", "enum"}:
            return False
        taken.append({same(value) for value in ([schema["const"]] if "const" in schema else schema["enum"])})
    return len(set[str]().union(*taken)) == sum(map(len, taken))


def same(value: Any) -> str:
    """What two JSON values have in common that are the same: 1 and 1.0 are."""
    return json.dumps(json.loads(json.dumps(value), parse_int=float), sort_keys=True)


def at(steps: Steps) -> str:
    """A place in a sentence, as the JSON pointer that a client would write.

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


def missing(step: object) -> Any:
    raise KeyError(step)


def unlisted(here: Steps) -> Any:
    raise SchemaRefused("this is a list of values, and not an empty one", here)


def untold(here: Steps) -> Any:
    raise SchemaRefused("this is text", here)

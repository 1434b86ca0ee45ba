"""A client's JSON schema: what is held of it, and what is refused, in its own words."""

from __future__ import annotations

import json
from typing import Any

import pytest

from gpu_workers.schemas.compiler import MOST_CHARACTERS, MOST_NAMED, MOST_NESTED, MOST_PATTERNS, compile_schema
from gpu_workers.schemas.keywords import SchemaRefused
from tests.gpu_workers.conftest import Words

ONE, TWO = {"enum": [1]}, {"enum": [2]}


def of(a: dict[str, Any], **more: Any) -> dict[str, Any]:
    """An object whose member `a` is this."""
    return {"type": "object", "properties": {"a": a}, "required": ["a"], "additionalProperties": False} | more


@pytest.mark.parametrize(
    ("schema", "good", "bad"),
    [
        (of({"$ref": "#/$defs/x"}, **{"$id": "https://example.org/s", "$defs": {"x": ONE}}), {"a": 1}, {"a": 2}),
        (
            of({"$ref": "https://example.org/s#/$defs/x"}, **{"$id": "https://example.org/s", "$defs": {"x": ONE}}),
            *"12",
        ),
        (of({"$ref": "s#/$defs/x"}, **{"$id": "https://example.org/s", "$defs": {"x": ONE}}), *"12"),
        (of({"$ref": "t"}, **{"$id": "urn:a:s", "$defs": {"x": {"$id": "t"} | ONE}}), *"12"),
        (of({"$ref": "#n"}, **{"$defs": {"x": {"$anchor": "n"} | ONE}}), *"12"),
        (of({"$ref": "#n"}, **{"definitions": {"x": {"$id": "#n"} | ONE}}), *"12"),
        (of({"$dynamicRef": "#n"}, **{"$defs": {"x": {"$dynamicAnchor": "n"} | ONE}}), *"12"),
        (of({"$ref": "#/definitions/a~1b~0c%20d"}, definitions={"a/b~c d": ONE}), *"12"),
        (of({"$ref": "#/components/schemas/x"}, components={"schemas": {"x": ONE}}), *"12"),
        (of({"$ref": "#/$defs/x/anyOf/1"}, **{"$defs": {"x": {"anyOf": [TWO, ONE]}}}), *"12"),
        (
            of({"$ref": "in"}, **{"$defs": {"x": {"$id": "in", "$ref": "#/$defs/y", "$defs": {"y": ONE}}, "y": TWO}}),
            *"12",
        ),
        (of({"$ref": "#/$defs/x", "maximum": 1}, **{"$defs": {"x": {"type": "integer"}}}), *"12"),
        (of({"const": {"$ref": "#/x"}}), {"a": {"$ref": "#/x"}}, {"a": 1}),
        (of({"enum": [{"$ref": "#/x"}, {"$id": "y"}]}), {"a": {"$ref": "#/x"}}, {"a": {"$ref": "#/$defs/0"}}),
        (of({"enum": [1], "default": {"$ref": "#/x"}, "examples": [{"$ref": "#/y"}]}), *"12"),
        (of({"const": None}), {"a": None}, {"a": 1}),
        (of(ONE, properties={"$ref": ONE}, required=["$ref"]), {"$ref": 1}, {"$ref": 2}),
        ({}, [1, {"a": None}], None),
        (True, "x", None),
        (of({}), {"a": [1]}, {}),
        ({"properties": {"a": True}}, {"a": [1]}, None),
        ({"type": "array", "items": [ONE], "additionalItems": False}, [1], [1, 1]),
        ({"type": "integer", "minimum": 1, "exclusiveMinimum": True}, 2, 1),
        ({"type": "integer", "minimum": 1, "exclusiveMinimum": False}, 1, 0),
        ({"oneOf": [{"const": 1}, {"const": 2}]}, 2, 3),
        ({"type": "string", "maxLength": 2.0, "minLength": None, "enum": None}, "ab", "abc"),
        ({"type": "integer", "format": "int64"}, 1, "x"),
        ({"type": "array", "items": ONE, "uniqueItems": False, "propertyNames": {"type": "string"}}, [1, 1], [2]),
        ({"type": "string", "x-of-ours": {"not": {}}, "title": "T", "$comment": "not", "nullable": True}, "x", None),
        (of({"anyOf": [{"type": "null"}, {"$ref": "#"}]}), {"a": {"a": None}}, {"a": {"a": 1}}),
    ],
)
def test_what_a_schema_says_is_held(words: Words, schema: Any, good: Any, bad: Any) -> None:
    if isinstance(good, str) and good in "12":
        good, bad = {"a": int(good)}, {"a": int(bad)}
    text = compile_schema(schema).text()
    assert words.takes(json.dumps(good), json_schema=text)
    if bad is not None:
        assert not words.takes(json.dumps(bad), json_schema=text)


@pytest.mark.parametrize(
    ("part", "where"),
    [
        *(
            ({key: value}, f"/{key}")
            for key, value in {
                "not": {"const": "x"},
                "contains": {},
                "uniqueItems": True,
                "propertyNames": {"pattern": "a"},
                "dependentRequired": {"a": ["b"]},
                "dependentSchemas": {"a": {}},
                "dependencies": {"a": ["b"]},
                "unevaluatedItems": False,
                "unevaluatedProperties": False,
                "$ref": "#/$defs/nowhere",
                "minLength": -1,
                "maxItems": "2",
                "minimum": "2",
                "type": "any",
                "enum": "x",
                "required": "x",
                "pattern": 5,
                "format": 5,
                "anyOf": [],
                "properties": [],
                "items": 5,
            }.items()
        ),
        ({"if": {"const": 1}, "then": False}, "/if"),
        ({"contains": ONE, "minContains": 0, "maxContains": 1}, "/contains"),
        ({"$ref": "https://example.org/elsewhere"}, "/$ref"),
        ({"$ref": "http://[x"}, "/$ref"),
        ({"$ref": "#n", "$defs": {"x": {"title": "n"}}}, "/$ref"),
        ({"type": "string", "format": "of-my-own"}, ""),
        ({"type": "string", "pattern": "(?=a)"}, ""),
        ({"oneOf": [{"type": "string"}, {"maxLength": 2}]}, ""),
        ({"enum": [1], "minimum": 2}, ""),
        ({"allOf": [{"$ref": "#/properties/a~1b"}]}, ""),
    ],
)
def test_what_cannot_be_held_is_refused_at_its_own_place(part: dict[str, Any], where: str) -> None:
    with pytest.raises(SchemaRefused) as refusal:
        compile_schema({"type": "object", "properties": {"a/b": part}, "required": ["a/b"]})
    assert f"at '#/properties/a~1b{where}'" in str(refusal.value)
    assert refusal.value.steps[:2] == ("properties", "a/b")


@pytest.mark.parametrize("schema", [False, [], 5, "x", {"$ref": "#"}, {"anyOf": [{"$ref": "#"}, {"type": "null"}]}])
def test_what_no_reply_satisfies_is_refused(schema: Any) -> None:
    with pytest.raises(SchemaRefused):
        compile_schema(schema)


def test_a_part_that_nothing_refers_to_need_not_be_held() -> None:
    assert compile_schema({"enum": [1], "$defs": {"x": {"not": {}}}}).schema == {"enum": [1]}


@pytest.mark.parametrize("count", [MOST_NESTED // 2, 6 * MOST_NESTED])
def test_references_behind_each_other_end_no_process(count: int) -> None:
    """llguidance follows them on its stack: 3000 of them ended the process."""
    parts: dict[str, Any] = {str(n): {"$ref": f"#/$defs/{n + 1}"} for n in range(count)}
    schema = {"$ref": "#/$defs/0", "$defs": parts | {str(count): {"type": "string"}}}
    if count < MOST_NESTED:
        assert compile_schema(schema).definitions
    else:
        with pytest.raises(SchemaRefused, match="deep inside each other"):
            compile_schema(schema)


def texts(count: int) -> list[dict[str, Any]]:
    return [{"type": "string", "pattern": f"a{n}"} for n in range(count)]


@pytest.mark.parametrize(
    "schema",
    [
        {"allOf": texts(30)},
        {"allOf": [{"properties": {"a": one}} for one in texts(30)]},
        {
            "$ref": "#/$defs/0",
            "$defs": {"30": {}} | {str(n): {"$ref": f"#/$defs/{n + 1}"} | one for n, one in enumerate(texts(30))},
        },
        {"patternProperties": {f"^a{n}b": {} for n in range(2 * MOST_NAMED)}},
        {"enum": [f"value {n}" for n in range(MOST_CHARACTERS // 10)]},
    ],
    ids=["allOf", "properties", "references", "names", "characters"],
)
def test_a_schema_that_would_take_minutes_is_refused_at_once(schema: dict[str, Any]) -> None:
    """llguidance is not back from thirty patterns for one text within a minute."""
    with pytest.raises(SchemaRefused, match=r"patterns|characters"):
        compile_schema(schema)


def test_patterns_of_different_texts_do_not_count_together() -> None:
    properties = {f"p{n}": {"allOf": texts(2)} for n in range(2 * MOST_PATTERNS)}
    assert compile_schema({"type": "object", "properties": properties}).schema["properties"] == properties

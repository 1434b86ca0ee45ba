"""What a grammar leaves of the vocabulary, token by token."""

from __future__ import annotations

import json

import pytest

from gpu_workers.embedded.grammar import KEPT, Grammar
from tests.gpu_workers.conftest import END, Words


def allowed(grammar: Grammar) -> list[int]:
    return (~grammar.barred()).nonzero().flatten().tolist()


SCHEMA = json.dumps({"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]})


def test_what_satisfies_a_schema_is_allowed_and_nothing_else(words: Words) -> None:
    assert words.takes('{"a": 3}', json_schema=SCHEMA)
    assert words.takes('{\n  "a": 3\n}', json_schema=SCHEMA)
    assert not words.takes('{"a": "x"}', json_schema=SCHEMA)
    assert not words.takes('{"a": 3', json_schema=SCHEMA)
    assert not words.takes('{"a": 3} and', json_schema=SCHEMA)
    assert not words.takes('{\n\n\n"a": 3}', json_schema=SCHEMA)  # blanks without end never end a reply


def test_what_matches_an_expression_is_allowed(words: Words) -> None:
    assert words.takes("no, 12", regex="(yes|no), [0-9]+")
    assert not words.takes("maybe", regex="(yes|no), [0-9]+")


def test_behind_the_last_bracket_only_the_end_is_left(words: Words) -> None:
    held = words.grammars.start(json_schema=SCHEMA)
    for token in words.tokenizer.encode('{"a": 3}', add_special_tokens=False):
        held.take(token)
    assert allowed(held) == [END]


def test_a_schema_may_point_to_its_parts(words: Words) -> None:
    part = {"$defs": {"N": {"type": "integer"}}, "properties": {"n": {"$ref": "#/$defs/0/$defs/N"}}, "required": ["n"]}
    schema = json.dumps({"$defs": {"0": part | {"type": "object"}}, "$ref": "#/$defs/0"})
    assert words.takes('{"n": 3}', json_schema=schema)
    assert not words.takes('{"n": "x"}', json_schema=schema)


@pytest.mark.parametrize("keyword", [{"not": {"const": "y"}}, {"format": "of-my-own"}])
def test_what_cannot_be_enforced_is_refused(words: Words, keyword: dict[str, object]) -> None:
    with pytest.raises(ValueError, match=r"not|of-my-own"):
        words.grammars.start(json_schema=json.dumps({"type": "string"} | keyword))


@pytest.mark.parametrize(
    ("grammar", "said"),
    [
        ({"json_schema": "{"}, "JSON schema cannot be used"),
        ({"json_schema": "[]"}, "JSON schema cannot be used"),
        ({"json_schema": '{"type": "nonsense"}'}, "nonsense"),
        ({"json_schema": '{"$ref": "#/nowhere"}'}, "nowhere"),
        ({"regex": "(a|b"}, "regular expression cannot be used"),
    ],
)
def test_what_is_no_grammar_is_refused_with_a_sentence(words: Words, grammar: dict[str, str], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        words.grammars.start(**grammar)


def test_replies_with_the_same_grammar_do_not_touch_each_other(words: Words) -> None:
    one, other = (words.grammars.start(regex="abc") for _ in range(2))
    beginning = allowed(other)
    one.take(words.tokenizer.encode("a", add_special_tokens=False)[0])
    assert allowed(other) == beginning
    assert allowed(one) != beginning


def test_a_token_that_is_not_allowed_raises(words: Words) -> None:
    held = words.grammars.start(regex="abc")
    with pytest.raises(ValueError, match=r"grammar|allowed"):
        held.take(words.tokenizer.encode("z", add_special_tokens=False)[0])


def test_only_so_many_grammars_are_kept(words: Words) -> None:
    for n in range(KEPT + 5):
        words.grammars.start(regex=f"a{n}")
    assert len(words.grammars._made) == KEPT

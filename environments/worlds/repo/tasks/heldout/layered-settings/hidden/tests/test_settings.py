from settings.layers import overlay
from settings.parsing import parse


def test_names():
    assert parse("a = 1\nb.c = 2 # two\n# none\n") == {"a": "1", "b": {"c": "2"}}


def test_quoted_hash():
    assert parse('colour = "#fff" # white') == {"colour": "#fff"}


def test_layers_within():
    low, high = {"a": {"b": "1", "c": "2"}}, {"a": {"b": "3"}}
    assert overlay(low, high) == {"a": {"b": "3", "c": "2"}}


def test_layers_stay():
    low, high = {"a": {"b": "1"}}, {"a": {"c": "2"}, "d": {"e": "3"}}
    made = overlay(low, high)
    made["d"]["e"] = made["a"]["b"] = "changed"
    assert (low, high) == ({"a": {"b": "1"}}, {"a": {"c": "2"}, "d": {"e": "3"}})


def test_plain_layers():
    assert overlay({"a": "1", "b": "2"}, {"b": "3"}) == {"a": "1", "b": "3"}

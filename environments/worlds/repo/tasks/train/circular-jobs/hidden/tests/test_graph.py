import pytest

from planner.graph import Circle, order


def test_line():
    assert order({"c": ["b"], "b": ["a"]}) == ["a", "b", "c"]


def test_diamond():
    assert order({"d": ["b", "c"], "b": ["a"], "c": ["a"]}) == ["a", "b", "c", "d"]


def test_circle():
    with pytest.raises(Circle):
        order({"a": ["b"], "b": ["c"], "c": ["a"]})


def test_itself():
    with pytest.raises(Circle):
        order({"a": ["a"]})


def test_writing_does_not_matter():
    assert order({"z": ["b", "a"]}) == order({"z": ["a", "b"]}) == ["a", "b", "z"]

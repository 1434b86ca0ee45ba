from planner.graph import order


def test_line():
    assert order({"b": ["a"]}) == ["a", "b"]

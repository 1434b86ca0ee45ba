from wrapping import wrap


def test_short():
    assert wrap("a b", 10) == ["a b"]

from spans import merge


def test_overlap():
    assert merge([(1, 3), (2, 5), (7, 8)]) == [(1, 5), (7, 8)]
    assert merge([(1, 2), (2, 3)]) == [(1, 3)]


def test_within():
    assert merge([(1, 9), (2, 3)]) == [(1, 9)]


def test_unsorted():
    assert merge([(7, 8), (2, 5), (1, 3)]) == [(1, 5), (7, 8)]


def test_empty():
    assert merge([]) == []

import pytest

from middle import median


def test_odd():
    assert median([3, 1, 2]) == 2


def test_even():
    assert median([4, 1, 3, 2]) == 2.5
    assert median([1, 1]) == 1


def test_none():
    with pytest.raises(ValueError):
        median([])

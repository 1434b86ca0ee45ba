import pytest

from shares import split_amount


def test_even():
    assert split_amount(90, 3) == [30, 30, 30]


@pytest.mark.parametrize("cents, people", [(100, 3), (1, 4), (7, 2)])
def test_nothing_is_lost(cents, people):
    parts = split_amount(cents, people)
    assert sum(parts) == cents
    assert max(parts) - min(parts) <= 1
    assert parts == sorted(parts, reverse=True)


def test_refunds():
    assert split_amount(-100, 3) == [-33, -33, -34]


def test_no_one():
    with pytest.raises(ValueError):
        split_amount(1, 0)

"""Measures of agreement, held against numbers of the papers that they come from."""

from __future__ import annotations

import pytest

from judge.annotators.agreement import cohen, krippendorff, pairs


def test_kappa_is_that_of_a_table_worked_out_by_hand():
    # Cohen's usual example: 20 yes/yes, 5 yes/no, 10 no/yes, 15 no/no. 35/50 agree; by chance
    # 25/50·30/50 + 25/50·20/50 = 0.5. (0.7 − 0.5) / 0.5 = 0.4
    labels = [("y", "y")] * 20 + [("y", "n")] * 5 + [("n", "y")] * 10 + [("n", "n")] * 15
    assert cohen(labels) == pytest.approx(0.4)


def test_alpha_is_that_of_krippendorffs_own_example():
    # Computing Krippendorff's Alpha-Reliability (2011), C: four observers, twelve units, nominal: 0.743
    observers = [
        ["1", "2", "3", "3", "2", "1", "4", "1", "2", ".", ".", "."],
        ["1", "2", "3", "3", "2", "2", "4", "1", "2", "5", ".", "3"],
        [".", "3", "3", "3", "2", "3", "4", "2", "2", "5", "1", "."],
        ["1", "2", "3", "3", "2", "4", "4", "1", "2", "5", "1", "."],
    ]
    units = [[label for label in unit if label != "."] for unit in zip(*observers, strict=True)]
    assert krippendorff(units) == pytest.approx(0.743, abs=5e-4)


@pytest.mark.parametrize(
    ("items", "alpha"),
    [([], None), ([["a"]], None), ([["a", "a"]], None), ([["a", "a"], ["b", "b"]], 1.0)],
)
def test_alpha_without_anything_to_compare_is_none(items, alpha):
    assert krippendorff(items) == alpha


def test_opposite_words_are_worse_than_chance():
    # Two of two differ: Do = 2 + 2 = 4; of four values 2·2·2 / 3 = 8/3 by chance. 1 − 4 / (8/3) = −0.5
    assert krippendorff([["a", "b"], ["b", "a"]]) == pytest.approx(-0.5)


def test_pairs_are_of_the_items_that_both_read():
    read = [[(1, "a"), (2, "a"), (3, "b")], [(2, "a"), (1, "b")], [(3, "a")]]
    found = pairs(read)
    assert [(pair.one, pair.other, pair.items, pair.share) for pair in found] == [
        (1, 2, 2, 0.5), (1, 3, 1, 0.0), (2, 3, 1, 0.0),
    ]  # fmt: skip
    assert all(pair.is_few for pair in found)

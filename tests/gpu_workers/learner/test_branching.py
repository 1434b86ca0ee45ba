"""What rows begin with alike is computed once: which go together, and what the tree of them says."""

from __future__ import annotations

import torch
from hypothesis import given
from hypothesis import strategies as st

from gpu_workers.learner.branching import LONGEST, Tree, together

IDS = st.lists(st.integers(0, 2), min_size=1, max_size=12)
PAIRS = st.lists(st.tuples(IDS, IDS), max_size=10)


def width(pairs, group):
    return max(len(pairs[at][0]) + len(pairs[at][1]) for at in group)


@given(PAIRS, st.integers(1, 4), st.none() | st.integers(1, 60))
def test_each_pair_goes_once_and_never_takes_more_room_than_there_is(pairs, rows, positions):
    groups = together(pairs, rows=rows, positions=positions)

    assert sorted(at for group in groups for at in group) == list(range(len(pairs)))
    for group in groups:
        tree = Tree.of([pairs[at] for at in group])
        as_rows = len(group) <= rows and (
            positions is None or len(group) == 1 or len(group) * width(pairs, group) <= positions
        )
        as_tree = tree.is_worth([pairs[at] for at in group]) and tree.ids.shape[1] <= rows * width(
            pairs, range(len(pairs))
        )
        assert as_rows or as_tree


@given(PAIRS, st.integers(1, 4))
def test_where_branches_cannot_be_kept_apart_rows_are_counted(pairs, rows):
    groups = together(pairs, rows=rows, branches=False)

    assert all(len(group) <= rows for group in groups)


def test_a_session_goes_together_though_one_row_at_a_time_is_all_there_is_room_for():
    first, rewritten = ([1, 2, 3], [4, 5, 6, 7]), ([1, 2, 3], [4, 9])
    second = ([1, 2, 3, 4, 5, 6, 7, 8, 8], [6])
    stranger = ([5, 5], [5])

    groups = together([second, stranger, first, rewritten], rows=1)

    assert groups == [[2, 0], [3], [1]]  # 7 of the second's 10 are the first; what was rewritten would make it 11


def test_what_begins_alike_goes_together_as_far_as_a_mask_may_reach():
    shared = list(range(LONGEST - 10))
    pairs = [([*shared, n], [7] * 5) for n in range(3)]

    assert together(pairs, rows=3, positions=1) == [[0], [1], [2]]  # two take LONGEST + 2
    assert together([(shared, [n]) for n in range(3)], rows=3, positions=1) == [[0, 1, 2]]


@given(PAIRS.filter(bool))
def test_a_tree_says_of_each_pair_what_its_row_says(pairs):
    """Every position that predicts an answer's token sees what stands before that token, in order, and nothing else."""
    tree = Tree.of(pairs)
    at = 0
    for prompt, answer in pairs:
        for place in range(len(answer)):
            seen = tree.sees[0, 0, tree.predicting[at]]
            ids, places = tree.ids[0, seen], tree.places[0, seen]
            assert ids[torch.argsort(places)].tolist() == [*prompt, *answer[:place]]
            at += 1

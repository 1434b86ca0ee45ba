"""What a person changed of a reply: the tokens of a rewrite that stand there because of them. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from difflib import SequenceMatcher


def changed(reply_ids: Sequence[int], rewrite_ids: Sequence[int]) -> list[bool]:
    """For each token of the rewrite, whether it is new where it stands: put in, or the first after something that was
    taken out or put in. The others follow what they followed in the reply, and the policy said them of itself.

    >>> changed([1, 2, 3, 4, 9], [1, 2, 9])  # 3 4 were taken out: 9 comes where 3 was
    [False, False, True]
    >>> changed([1, 2, 9], [7, 1, 2, 9])
    [True, True, False, False]
    >>> changed([1, 2], [1, 2])
    [False, False]
    """
    new = [True] * len(rewrite_ids)
    for block in SequenceMatcher(None, reply_ids, rewrite_ids, autojunk=False).get_matching_blocks():
        begins = block.a == block.b == 0  # with the reply's own beginning; any other block follows a change
        for at in range(block.b + (not begins), block.b + block.size):
            new[at] = False
    return new


def decided(reply_ids: Sequence[int], rewrite_ids: Sequence[int]) -> list[bool]:
    """For each token of the rewrite, whether it is the person's own decision: what they changed, and, where they ended
    it elsewhere, what they let follow the same token before. Who ends behind one full stop, and not behind another,
    said something of both; were the end learned alone, a model would end sooner than they do.

    >>> decided([1, 5, 2, 5, 3, 5, 9], [1, 5, 2, 5, 9])  # 5 is a full stop: behind the first of them 2 went on
    [False, False, True, False, True]
    """
    new = changed(reply_ids, rewrite_ids)
    if len(new) < 2 or not new[-1]:
        return new
    end = rewrite_ids[-2]
    return [is_new or before == end for is_new, before in zip(new, [None, *rewrite_ids[:-1]], strict=True)]

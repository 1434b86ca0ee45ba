"""Spans of whole numbers, (start, end) with the end left out."""


def merge(spans):
    """The fewest spans that cover the same numbers, in order."""
    merged = []
    for start, end in sorted(spans):
        if merged and start <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
        else:
            merged.append((start, end))
    return merged

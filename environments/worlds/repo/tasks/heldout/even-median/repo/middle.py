"""The middle of numbers."""


def median(values):
    """The middle value. Raises ValueError for none."""
    if not values:
        raise ValueError("no values")
    ordered = sorted(values)
    return ordered[len(ordered) // 2]

"""Put settings on top of one another."""


def overlay(low, high):
    """What `high` says, and what `low` says of the rest; neither is changed."""
    low.update(high)
    return low

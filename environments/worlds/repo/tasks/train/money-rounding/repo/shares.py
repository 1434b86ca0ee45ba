"""Split amounts of cents."""


def split_amount(cents, people):
    """Each one's part, in cents."""
    if people < 1:
        raise ValueError("at least one")
    return [cents // people] * people

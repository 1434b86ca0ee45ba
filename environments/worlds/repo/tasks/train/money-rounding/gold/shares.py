"""Split amounts of cents."""


def split_amount(cents, people):
    """Each one's part, in cents."""
    if people < 1:
        raise ValueError("at least one")
    part, left = divmod(cents, people)
    return [part + 1] * left + [part] * (people - left)

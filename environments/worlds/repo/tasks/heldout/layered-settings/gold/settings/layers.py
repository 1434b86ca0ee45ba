"""Put settings on top of one another."""


def overlay(low, high):
    """What `high` says, and what `low` says of the rest; neither is changed."""
    made = dict(low)
    for name, value in high.items():
        below = made.get(name)
        made[name] = overlay(below if isinstance(below, dict) else {}, value) if isinstance(value, dict) else value
    return made

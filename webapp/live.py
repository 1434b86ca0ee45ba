"""What is on a page moves by itself: rows that move push fragments to whoever watches."""


def connect() -> None:
    """Listen to `core.states.moved`."""

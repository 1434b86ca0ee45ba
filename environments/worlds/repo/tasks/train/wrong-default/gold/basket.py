"""Baskets of named items."""


def new_basket(items=()):
    """A basket that begins with these items."""
    return list(items)


def put(basket, name, count=1):
    """Add a name `count` times and return the basket."""
    basket.extend([name] * count)
    return basket

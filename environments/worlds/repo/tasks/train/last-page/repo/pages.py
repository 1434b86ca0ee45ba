"""Cut lists into pages."""


def count_pages(items, size):
    """How many pages hold this many items; none for no items."""
    return items // size


def page(items, number, size):
    """The items of a page, counted from 1."""
    start = (number - 1) * size
    return items[start : start + size]

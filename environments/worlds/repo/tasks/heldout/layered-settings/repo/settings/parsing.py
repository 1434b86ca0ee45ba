"""Read text of the form name = value."""


def parse(text):
    """Names and values. A name with dots is a value within another: a.b = 1."""
    found = {}
    for line in text.splitlines():
        line = line.split("#")[0].strip()
        if not line:
            continue
        name, _, value = line.partition("=")
        place = found
        *parents, last = name.strip().split(".")
        for parent in parents:
            place = place.setdefault(parent, {})
        place[last] = value.strip().strip('"')
    return found

"""Read text of the form name = value."""


def _without_comment(line):
    """A # within double quotes begins no comment."""
    quoted = False
    for at, letter in enumerate(line):
        if letter == '"':
            quoted = not quoted
        elif letter == "#" and not quoted:
            return line[:at]
    return line


def parse(text):
    """Names and values. A name with dots is a value within another: a.b = 1."""
    found = {}
    for line in text.splitlines():
        line = _without_comment(line).strip()
        if not line:
            continue
        name, _, value = line.partition("=")
        place = found
        *parents, last = name.strip().split(".")
        for parent in parents:
            place = place.setdefault(parent, {})
        place[last] = value.strip().strip('"')
    return found

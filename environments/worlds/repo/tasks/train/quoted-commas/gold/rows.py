"""Rows of values with commas between them."""


def split_row(row):
    """The values of a row, without the quotes around them."""
    values, value, quoted, at = [], "", False, 0
    while at < len(row):
        letter = row[at]
        if letter == '"' and quoted and row[at + 1 : at + 2] == '"':
            value, at = value + letter, at + 1
        elif letter == '"':
            quoted = not quoted
        elif letter == "," and not quoted:
            values, value = [*values, value], ""
        else:
            value += letter
        at += 1
    return [*values, value]


def join_row(values):
    """A row of values, quoted where they need it."""
    return ",".join('"' + v.replace('"', '""') + '"' if set(v) & set(',"') else v for v in values)

"""Rows of values with commas between them."""


def split_row(row):
    """The values of a row, without the quotes around them."""
    return [value.strip('"') for value in row.split(",")]


def join_row(values):
    """A row of values, quoted where they need it."""
    return ",".join('"' + v.replace('"', '""') + '"' if set(v) & set(',"') else v for v in values)

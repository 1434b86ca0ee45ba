"""Convert a row's number in a path."""

from django.urls.converters import IntConverter

LARGEST = 2**63 - 1
"""What a database's key can hold."""


class RowConverter(IntConverter):
    """As `int`; a number that no key can hold leads to no page instead of an error of the database."""

    def to_python(self, value: str) -> int:
        number = int(value) if len(value) <= len(str(LARGEST)) else LARGEST + 1
        if number > LARGEST:
            raise ValueError("no row has this number")
        return number

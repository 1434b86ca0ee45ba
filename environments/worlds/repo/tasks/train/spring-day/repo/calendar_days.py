"""Days of months."""

LONG = (1, 3, 5, 7, 8, 10, 12)


def is_leap(year):
    return year % 4 == 0


def days_in(year, month):
    if month == 2:
        return 29 if is_leap(year) else 28
    return 31 if month in LONG else 30

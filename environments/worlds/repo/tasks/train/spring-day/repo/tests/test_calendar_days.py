from calendar_days import days_in


def test_long_months():
    assert days_in(2023, 7) == 31

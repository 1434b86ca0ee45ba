from calendar_days import days_in, is_leap


def test_centuries():
    assert days_in(1900, 2) == 28
    assert days_in(2100, 2) == 28


def test_each_fourth_century():
    assert days_in(2000, 2) == 29
    assert is_leap(1600)


def test_usual_years():
    assert [days_in(2023, 2), days_in(2024, 2), days_in(2023, 7), days_in(2023, 4)] == [28, 29, 31, 30]

from shares import split_amount


def test_even():
    assert split_amount(90, 3) == [30, 30, 30]

from pages import count_pages, page


def test_full_pages():
    assert count_pages(20, 10) == 2
    assert count_pages(0, 10) == 0


def test_last_page_counts():
    assert count_pages(21, 10) == 3
    assert count_pages(1, 10) == 1


def test_page_is_cut():
    assert page([1, 2, 3, 4, 5], 2, 2) == [3, 4]
    assert page([1, 2, 3], 2, 2) == [3]

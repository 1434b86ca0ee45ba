from pages import count_pages


def test_full_pages():
    assert count_pages(20, 10) == 2

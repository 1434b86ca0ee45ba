from wrapping import wrap


def test_short():
    assert wrap("a b", 10) == ["a b"]
    assert wrap("", 10) == []


def test_edge():
    assert wrap("aaa bbb", 6) == ["aaa", "bbb"]
    assert wrap("aaa bbb", 7) == ["aaa bbb"]


def test_long_first_word():
    assert wrap("aaaaaa b", 3) == ["aaaaaa", "b"]


def test_no_line_is_too_long():
    text = "one two three four five six seven"
    for width in range(5, 30):
        assert max(map(len, wrap(text, width))) <= width
        assert " ".join(wrap(text, width)) == text

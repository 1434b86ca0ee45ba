from rows import split_row


def test_plain():
    assert split_row("a,b") == ["a", "b"]

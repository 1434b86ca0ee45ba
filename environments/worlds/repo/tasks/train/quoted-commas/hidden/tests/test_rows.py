from rows import join_row, split_row


def test_plain():
    assert split_row("a,b,,c") == ["a", "b", "", "c"]


def test_quotes_go():
    assert split_row('"a",b') == ["a", "b"]


def test_comma_in_quotes():
    assert split_row('a,"b,c",d') == ["a", "b,c", "d"]


def test_doubled_quotes():
    assert split_row('"say ""no"", then",x') == ['say "no", then', "x"]


def test_back_and_forth():
    values = ["a", 'b"c', "d,e", ""]
    assert split_row(join_row(values)) == values

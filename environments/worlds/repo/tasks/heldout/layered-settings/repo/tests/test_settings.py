from settings.parsing import parse


def test_names():
    assert parse("a = 1") == {"a": "1"}

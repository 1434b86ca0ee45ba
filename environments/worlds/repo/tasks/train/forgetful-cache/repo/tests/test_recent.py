from recent import Recent


def test_bounded():
    store = Recent(1)
    store.put("a", 1)
    store.put("b", 2)
    assert store.get("a") is None

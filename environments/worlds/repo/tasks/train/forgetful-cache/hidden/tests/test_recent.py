from recent import Recent


def filled(*names, size=2):
    store = Recent(size)
    for number, name in enumerate(names):
        store.put(name, number)
    return store


def test_bounded():
    store = filled("a", "b", "c")
    assert [store.get(name) for name in "abc"] == [None, 1, 2]


def test_reading_is_use():
    store = filled("a", "b")
    assert store.get("a") == 0
    store.put("c", 2)
    assert [store.get(name) for name in "abc"] == [0, None, 2]


def test_writing_again_is_use():
    store = filled("a", "b", "a", "c")
    assert [store.get(name) for name in "abc"] == [2, None, 3]


def test_none_is_a_value():
    store = Recent(2)
    store.put("a", None)
    assert store.get("a", "missing") is None
    assert store.get("b", "missing") == "missing"

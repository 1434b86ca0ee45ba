from basket import new_basket, put


def test_put():
    assert put(["tea"], "milk", 2) == ["tea", "milk", "milk"]


def test_baskets_are_apart():
    put(new_basket(), "tea")
    assert new_basket() == []


def test_given_items_are_copied():
    given = ["tea"]
    put(new_basket(given), "milk")
    assert given == ["tea"]

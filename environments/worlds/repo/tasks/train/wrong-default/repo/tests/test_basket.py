from basket import new_basket, put


def test_put():
    assert put(["tea"], "milk") == ["tea", "milk"]

from ledger.accounts import Accounts
from ledger.moves import apply_moves


def test_one():
    accounts = Accounts({"a": 5})
    apply_moves(accounts, [("a", "b", 2)])
    assert accounts.balances == {"a": 3, "b": 2}

import pytest

from ledger.accounts import Accounts, TooLittle
from ledger.moves import apply_moves


def test_one():
    accounts = Accounts({"a": 5})
    apply_moves(accounts, [("a", "b", 2), ("b", "c", 1)])
    assert accounts.balances == {"a": 3, "b": 1, "c": 1}


def test_all_or_none():
    accounts = Accounts({"a": 5})
    with pytest.raises(TooLittle):
        apply_moves(accounts, [("a", "b", 2), ("b", "c", 3)])
    assert accounts.balances == {"a": 5}


def test_to_itself():
    accounts = Accounts({"a": 5})
    with pytest.raises(TooLittle):
        apply_moves(accounts, [("a", "a", 6)])
    assert accounts.balances == {"a": 5}


def test_negative():
    accounts = Accounts({"a": 5, "b": 5})
    with pytest.raises(ValueError):
        apply_moves(accounts, [("a", "b", -2)])
    assert accounts.balances == {"a": 5, "b": 5}


def test_too_little():
    with pytest.raises(TooLittle):
        apply_moves(Accounts({"a": 1}), [("a", "b", 2)])

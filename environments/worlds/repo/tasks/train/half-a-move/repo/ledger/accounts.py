"""Balances by name."""


class TooLittle(ValueError):
    """An account would go below nothing."""


class Accounts:
    def __init__(self, balances=()):
        self.balances = dict(balances)

    def add(self, name, cents):
        balance = self.balances.get(name, 0) + cents
        if balance < 0:
            raise TooLittle(name)
        self.balances[name] = balance

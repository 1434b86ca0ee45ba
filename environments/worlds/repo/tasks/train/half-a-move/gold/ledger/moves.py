"""Moves between accounts: all of a list, or none."""


def apply_moves(accounts, moves):
    """Each move is (from, to, cents). Raises what an account raises, and then nothing has moved."""
    before = dict(accounts.balances)
    try:
        for source, target, cents in moves:
            if cents < 0:
                raise ValueError("a move is not negative")
            accounts.add(source, -cents)
            accounts.add(target, cents)
    except BaseException:
        accounts.balances.clear()
        accounts.balances.update(before)
        raise

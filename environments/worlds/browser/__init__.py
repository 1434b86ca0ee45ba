"""Web pages with a reward of their own, as agents see and touch them."""

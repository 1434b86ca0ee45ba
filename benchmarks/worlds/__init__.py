"""Attempts of every world side by side: a row a world, a stack that plays it, and what is counted."""

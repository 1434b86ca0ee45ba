"""Write the rows of an installation that was in use for long: `python -m benchmarks.pages --seed`, and tests of pages.

Import its modules once Django is set up.
"""

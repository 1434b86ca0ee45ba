"""The report of a run: from the rows of its journal to findings, claims, curves and one page."""

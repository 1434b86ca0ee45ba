"""Watch a run: the limits of its figures, what it takes of the machine, people's notes, and lines that are sent."""

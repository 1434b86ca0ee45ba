"""Which job needs which."""


class Circle(ValueError):
    """Jobs that need one another."""


def order(needs):
    """The jobs, each after all that it needs; by name where that leaves a choice. Raises Circle."""
    done, found = set(), []

    def visit(job):
        if job in done:
            return
        done.add(job)
        for other in needs.get(job, ()):
            visit(other)
        found.append(job)

    for job in sorted(needs):
        visit(job)
    return found

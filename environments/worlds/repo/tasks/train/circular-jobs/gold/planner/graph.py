"""Which job needs which."""


class Circle(ValueError):
    """Jobs that need one another."""


def order(needs):
    """The jobs, each after all that it needs; by name where that leaves a choice. Raises Circle."""
    done, found = set(), []

    def visit(job, above=()):
        if job in above:
            raise Circle(" needs ".join((*above, job)))
        if job in done:
            return
        for other in sorted(needs.get(job, ())):
            visit(other, (*above, job))
        done.add(job)
        found.append(job)

    for job in sorted(needs):
        visit(job)
    return found

"""No module imports, by way of others, itself: circles inside packages that import-linter sees as one."""

from __future__ import annotations

import grimp

ROOMS = (
    "core", "gpu_workers", "accounts", "checkpoints", "chat", "feedback", "episodes", "training", "judge", "privacy",
    "gate", "evaluation", "webapp", "lab",
)  # fmt: skip


def circles(edges: dict[str, set[str]]) -> list[list[str]]:
    """Find the circles of a graph: its strongly connected parts of two and more (Tarjan, 1972).

    >>> circles({"a": {"b"}, "b": {"a", "c"}, "c": set()})
    [['a', 'b']]
    """
    order: dict[str, int] = {}
    low: dict[str, int] = {}
    path: list[str] = []
    found: list[list[str]] = []

    def visit(node: str) -> None:
        order[node] = low[node] = len(order)
        path.append(node)
        for other in edges[node]:
            if other not in order:
                visit(other)
            if other in path:
                low[node] = min(low[node], low[other])
        if low[node] == order[node]:
            part = path[path.index(node) :]
            del path[path.index(node) :]
            if len(part) > 1:
                found.append(sorted(part))

    for node in sorted(edges):
        if node not in order:
            visit(node)
    return found


def test_circles_are_found_in_a_graph():
    assert circles({"a": {"b"}, "b": {"c"}, "c": {"a"}, "d": {"a"}}) == [["a", "b", "c"]]


def test_no_module_imports_itself_by_way_of_others():
    graph = grimp.build_graph(*ROOMS)
    edges = {module: set(graph.find_modules_directly_imported_by(module)) for module in graph.modules}
    assert circles(edges) == []

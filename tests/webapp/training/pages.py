"""Pages of runs, read."""

from __future__ import annotations


def text(response):
    return response.content.decode()

"""Know clients by rule files: how each names its session, and which of its requests are side requests."""

from chat.clients.files import headers, of
from chat.clients.reading import said, stripped
from chat.clients.sorting import Seen, Sorted, sort

__all__ = ["Seen", "Sorted", "headers", "of", "said", "sort", "stripped"]

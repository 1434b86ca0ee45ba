"""What is known of clients: how each names its session, and which of its requests are no main line."""

from chat.clients.files import headers, of
from chat.clients.reading import said, stripped
from chat.clients.sorting import Seen, Sorted, sort

__all__ = ["Seen", "Sorted", "headers", "of", "said", "sort", "stripped"]

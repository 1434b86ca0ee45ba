"""What is known of clients: how each names its session, and which of its requests are no main line."""

from chat.clients.sorting import Sorted, sort

__all__ = ["Sorted", "sort"]

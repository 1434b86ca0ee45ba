"""Know clients by rule files: how each names its session, and which of its requests are side requests."""

from chat.clients.files import headers, of
from chat.clients.reading import places_of_said, strip_messages
from chat.clients.sorting import Seen, Sorted, sort_request

__all__ = ["Seen", "Sorted", "headers", "of", "places_of_said", "sort_request", "strip_messages"]

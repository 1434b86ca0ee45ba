"""The official clients meet the live site: the chat rooms' own cast."""

from tests.chat.conftest import ana, ben, key, site, small_and_quick

__all__ = ["ana", "ben", "key", "site", "small_and_quick"]

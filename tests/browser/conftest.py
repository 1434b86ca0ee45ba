"""The people, the site and the quick replies of the chat's tests, for pages of every room."""

from tests.chat.conftest import ana, ben, site, small_and_quick

__all__ = ["ana", "ben", "site", "small_and_quick"]

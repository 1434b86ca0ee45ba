"""Find who is signed in, with what they may do, in one query: every page asks for both."""

from __future__ import annotations

from typing import Any

from django.contrib.auth.backends import ModelBackend
from django.contrib.auth.models import User
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest


class AccountBackend(ModelBackend):
    """Django's own, of which a person comes with their account's row."""

    def get_user(self, user_id: Any) -> User | None:
        user = User._default_manager.select_related("account").filter(pk=user_id).first()
        return user if user is not None and self.user_can_authenticate(user) else None

    async def aget_user(self, user_id: Any) -> User | None:
        user = await User._default_manager.select_related("account").filter(pk=user_id).afirst()
        return user if user is not None and self.user_can_authenticate(user) else None

    def authenticate(
        self, request: HttpRequest | None, username: str | None = None, password: str | None = None, **given: Any
    ) -> User:
        """The person with this name and password. Else none further is asked: the next backend, which is there for who
        signed in before this one was, would hash the password once more."""
        user = super().authenticate(request, username, password, **given)
        if user is None:
            raise PermissionDenied
        return user  # type: ignore[return-value]  # AUTH_USER_MODEL is Django's

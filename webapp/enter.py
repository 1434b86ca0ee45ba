"""The link that signs somebody in once: how the administrator of a fresh installation gets in."""

from __future__ import annotations

from datetime import timedelta

from django.conf import settings
from django.contrib.auth import get_user_model, login
from django.contrib.auth.models import User
from django.contrib.auth.tokens import PasswordResetTokenGenerator
from django.db import transaction
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import render
from django.urls import path, reverse
from django.utils.http import base36_to_int, int_to_base36
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_GET

ADMINISTRATOR = "admin"


class EntryTokens(PasswordResetTokenGenerator):
    """Signed with SECRET_KEY over the last sign-in, so that signing in spends every link made before it."""

    key_salt = "webapp.enter"

    def _make_hash_value(self, user: User, timestamp: int) -> str:
        last = user.last_login.isoformat() if user.last_login else ""
        return f"{user.pk}{user.password}{last}{user.is_active}{timestamp}"


tokens = EntryTokens()


def administrator() -> User:
    """The first administrator, made on the first call; it has no password until somebody gives it one."""
    user, born = User.objects.get_or_create(username=ADMINISTRATOR, defaults={"is_staff": True, "is_superuser": True})
    if born:
        user.set_unusable_password()
        user.save(update_fields=["password"])
    return user


def link_for(user: User) -> str:
    """A path that signs `user` in once, within PASSWORD_RESET_TIMEOUT seconds."""
    return reverse("enter", args=[f"{int_to_base36(user.pk)}-{tokens.make_token(user)}"])


@require_GET
@never_cache
def enter(request: HttpRequest, token: str) -> HttpResponse:
    """Spend the link: sign its person in and show the chat. A spent, old or made-up link says how to get another."""
    who, _, proof = token.partition("-")
    try:
        pk = base36_to_int(who)
    except ValueError:
        pk = 0
    with transaction.atomic():  # the row is held, so of two that spend one link only one gets in
        user = get_user_model().objects.select_for_update().filter(pk=pk, is_active=True).first()
        if user is not None and tokens.check_token(user, proof):
            login(request, user, backend="django.contrib.auth.backends.ModelBackend")
            return HttpResponseRedirect(settings.LOGIN_REDIRECT_URL)
    lifetime = timedelta(seconds=settings.PASSWORD_RESET_TIMEOUT)
    return render(request, "entry_spent.html", {"hours": round(lifetime.total_seconds() / 3600)}, status=410)


urlpatterns = [path("enter/<str:token>", enter, name="enter")]

"""Sign tokens of links that are good for one person, once."""

from __future__ import annotations

from django.contrib.auth.models import User
from django.contrib.auth.tokens import PasswordResetTokenGenerator
from django.utils.http import base36_to_int, int_to_base36


class LinkTokens(PasswordResetTokenGenerator):
    """Tokens that name their person: NUMBER-PROOF. What spends them is what a kind of them is signed over."""

    def token_for(self, user: User) -> str:
        return f"{int_to_base36(user.pk)}-{self.make_token(user)}"

    def holder(self, token: str, *, lock: bool = False) -> User | None:
        """Whose token it is, if it is good. With `lock` the row is locked until the transaction ends."""
        who, _, proof = token.partition("-")
        try:
            pk = base36_to_int(who)
        except ValueError:
            return None
        people = User.objects.select_for_update() if lock else User.objects.all()
        user = people.filter(pk=pk, is_active=True).first()
        return user if user is not None and self.check_token(user, proof) else None

"""Keep secrets that are needed again, so that the database alone opens nothing: they are sealed by SECRET_KEY."""

from __future__ import annotations

import base64
import hashlib
from functools import lru_cache

from cryptography.fernet import Fernet, InvalidToken
from django.conf import settings


def seal(text: str, purpose: str) -> str:
    """The text as it may be stored. `purpose` keeps secrets of one kind from being opened as another's."""
    return _box(settings.SECRET_KEY, purpose).encrypt(text.encode()).decode()


def unseal(sealed: str, purpose: str) -> str:
    """The text again. Raises ValueError where it was sealed by another SECRET_KEY, or for another purpose."""
    try:
        return _box(settings.SECRET_KEY, purpose).decrypt(sealed.encode()).decode()
    except InvalidToken:
        raise ValueError("It was sealed by another SECRET_KEY.") from None


@lru_cache(maxsize=8)
def _box(key: str, purpose: str) -> Fernet:
    derived = hashlib.scrypt(key.encode(), salt=purpose.encode(), n=2**12, r=8, p=1, dklen=32)
    return Fernet(base64.urlsafe_b64encode(derived))

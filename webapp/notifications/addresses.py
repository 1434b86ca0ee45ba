"""Say where a webhook may post to: addresses beyond this machine and its network, unless the operator allows others."""

from __future__ import annotations

from django.conf import settings

from core.network import outside
from core.network.outside import AddressRefused, Target

__all__ = ["AddressRefused", "Target", "resolve"]


def resolve(url: str) -> Target:
    """Look up the host of this URL and check each of its addresses. Raises AddressRefused."""
    return outside.resolve(url, inside=settings.WEBHOOKS_INSIDE, setting="WEBHOOKS_INSIDE")

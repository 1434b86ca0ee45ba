"""What a person chooses."""

from __future__ import annotations

from datetime import timedelta

from django.utils import timezone

from evaluation import blind

START = timezone.now() - timedelta(days=30)


def prefer(page, shadow, picked):
    """Choose the answer that is the reply's, or the shadow's, wherever it is shown."""
    side = "a" if (picked == "shadow") == blind.is_swapped(shadow.pk) else "b"
    return page.post("/helped/choose/", {"pair": shadow.pk, "side": side})


WORSE = {
    "reply": {"length": 4, "repetition": 0.5, "logprob": -0.2, "under_base": -1.9, "checkpoint": 1},
    "shadow": {"length": 99, "repetition": 0.0, "logprob": -0.7, "under_base": -0.9},
}

"""Read how a checkpoint stands between the gate and the swap, as its page tells it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django.contrib.auth.models import User

from checkpoints import approvals
from checkpoints.models import Checkpoint
from gate.models import Examination


def standing(checkpoint: Checkpoint, examination: Examination | None, user: User) -> Mapping[str, Any]:
    """Who must still say yes, what blocks it, and what this person can do."""
    now = approvals.standing(checkpoint)
    by_itself: list[str] = []
    if now.policy is not None and now.policy.auto_approve and examination is not None:
        by_itself = approvals.reasons_against(checkpoint, examination.checks, examination.against)
    return {
        "now": now,
        "line": checkpoint.line,
        "against_itself": by_itself,
        "was_yours": now.endorsement is not None and now.endorsement.by_id == user.pk,
        "can_be_put_on_hold": checkpoint.status in approvals.WAITS and not checkpoint.is_on_hold,
        "to_set_aside": checkpoint.served_ready,  # type: ignore[attr-defined]  # as `panels.with_notes` counts them
        "tainted": next((one for one in checkpoint.taints.all() if one.cleaned_by_id is None), None),
    }

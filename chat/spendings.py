"""Count what keys with a limit spend."""

from __future__ import annotations

from django.db import models

from chat.api_keys import ApiKey


class Spending(models.Model):
    """Count the tokens that a key with a limit spent on one day (UTC)."""

    key = models.ForeignKey(ApiKey, models.CASCADE, related_name="spendings")
    day = models.DateField()
    tokens = models.PositiveBigIntegerField(default=0)

    class Meta:
        constraints = (models.UniqueConstraint(fields=("key", "day"), name="one_spending_a_day"),)

    def __str__(self) -> str:
        return f"{self.tokens} tokens on {self.day} with {self.key}"

"""The "learn now" button, for scripts."""

from __future__ import annotations

from typing import Any

from django.core.management.base import BaseCommand, CommandError

from core.errors import TalkbackError
from training import batches, config
from webapp.console.board import counted


class Command(BaseCommand):
    help = "Start a run with the samples that are ready, without waiting for a full batch."

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            run = batches.learn_now(config.current())
        except TalkbackError as failure:
            raise CommandError(str(failure)) from failure
        self.stdout.write(f"Run {run.pk} learns from {counted(run.samples.count(), 'sample')}.")

"""List runs and print their figures."""

from __future__ import annotations

from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from django.core.management.base import CommandError

from training import hours, journals
from training.models import Run
from training.monitoring import limits
from webapp.management.terminal import TerminalCommand


class Command(TerminalCommand):
    help = "List runs; write a run's figures as JSON lines or for TensorBoard."

    def add_arguments(self, parser: ArgumentParser) -> None:
        actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
        actions.add_parser("list", help="every run, newest first")
        export = actions.add_parser("export", help="one run's figures; to the screen unless a place is named")
        export.add_argument("number", type=int)
        export.add_argument("--jsonl", type=Path, metavar="FILE")
        export.add_argument("--tensorboard", type=Path, metavar="FOLDER")

    def handle(self, *args: Any, action: str, **options: Any) -> None:
        getattr(self, action)(**options)

    def list(self, **options: Any) -> None:
        for run in Run.objects.select_related("parent"):
            said = f"  {run.error}" if run.error else ""
            if run.status == Run.Status.QUEUED and (wait := hours.waiting(run)):
                said = f"  {wait.sentence(run.samples.count())}"
            if passed := limits.passed(run.metrics, run.recipe):
                said += f"  past its limits: {', '.join(one.limit.key for one in passed)}"
            self.stdout.write(f"{run!s:<10} {run.status:<10} from {run.parent}, {len(run.metrics)} updates{said}")

    def export(self, number: int, jsonl: Path | None, tensorboard: Path | None, **options: Any) -> None:
        run = Run.objects.select_related("parent").filter(pk=number).first()
        if run is None:
            raise CommandError(f"There is no run {number}: `runs list` shows those there are.")
        if jsonl is not None:
            journals.write_lines(run, jsonl)
            self.stdout.write(f"{run} is in {jsonl}.")
        if tensorboard is not None:
            own = journals.write_tensorboard(run, tensorboard)
            self.stdout.write(f"{run} is in {own}: tensorboard --logdir {tensorboard}")
        if jsonl is None and tensorboard is None:
            for line in journals.lines(run):
                self.stdout.write(line)

"""Start a run now, as the button "learn now" does."""

from __future__ import annotations

from argparse import ArgumentParser
from typing import Any

from django.core.management.base import CommandError

from checkpoints.models import SHARED, Line
from core.errors import TalkbackError
from training import batches, hours, learnable, line_recipes
from training.next_run import forecast
from training.recipes import published
from webapp.amounts import counted
from webapp.management.terminal import TerminalCommand


class Command(TerminalCommand):
    help = "Start training with the lessons there are, without waiting for a full batch."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--line", default=SHARED, metavar="NAME", help="of a private line, by its name")
        parser.add_argument("--dry-run", action="store_true", help="only say what the run would take")
        parser.add_argument(
            "--recipe", metavar="NAME", help="with --dry-run: what a published recipe needs, and its batch"
        )

    def handle(self, *args: Any, line: str, dry_run: bool, recipe: str | None, **options: Any) -> None:
        if recipe is not None:
            self.stdout.write(needs_of(recipe, dry_run=dry_run))
            return
        if not Line.objects.filter(name=line, retired_at=None).exists():
            raise CommandError(f"There is no line {line!r} that learns.")
        try:
            if dry_run:
                learnable.require()
                self.stdout.write(forecast.of_ready(line_recipes.recipe_of(line), line).sentence)
                return
            run = batches.learn_now(line_recipes.recipe_of(line), line)
        except TalkbackError as failure:
            raise CommandError(str(failure)) from failure
        self.stdout.write(f"Run {run.pk} learns from {counted(run.samples.count(), 'lesson')}.")
        if wait := hours.waiting(run):
            self.stdout.write(wait.sentence(run.samples.count()))


def needs_of(name: str, *, dry_run: bool) -> str:
    """What a published recipe needs, for each kind of weights. Raises CommandError."""
    if not dry_run or name not in published():
        raise CommandError(f"--recipe goes with --dry-run, and is one of {', '.join(published())}.")
    found = published()[name]
    return "\n".join([found.title, found.needs("full"), found.needs("lora"), found.told])

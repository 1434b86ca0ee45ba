"""Pause and resume training, and say why it waits."""

from __future__ import annotations

from argparse import ArgumentParser
from datetime import datetime
from typing import Any

from django.core.management.base import CommandError
from django.utils import timezone
from django.utils.dateparse import parse_datetime

from core.errors import TalkbackError
from training import hours
from webapp.console import board
from webapp.management.terminal import TerminalCommand


class Command(TerminalCommand):
    help = "Pause training, resume it, or say why it waits. Chat goes on, and so does a run that has begun."

    def add_arguments(self, parser: ArgumentParser) -> None:
        actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
        pause = actions.add_parser("pause", help="no run begins from now on, not even one that a person asks for")
        pause.add_argument("--reason", default="")
        pause.add_argument("--until", metavar="TIME", help="2026-12-24T18:00, in TIME_ZONE; else until it is resumed")
        actions.add_parser("resume", help="let training start again")
        actions.add_parser("status", help="whether training waits, and for what")

    def handle(self, *args: Any, action: str, **options: Any) -> None:
        try:
            getattr(self, action)(**options)
        except TalkbackError as failure:
            raise CommandError(str(failure)) from failure

    def pause(self, reason: str, until: str | None, **options: Any) -> None:
        hours.pause(reason=reason.strip(), until=None if until is None else moment(until))
        self.status()

    def resume(self, **options: Any) -> None:
        self.stdout.write("Training resumed." if hours.resume() else "Training was not paused.")

    def status(self, **options: Any) -> None:
        facts = board.gather()
        if facts.counts["runs"]["running"]:
            self.stdout.write(f"{str(facts.run).capitalize()} is learning.")
        self.stdout.write(facts.wait.sentence(facts.batch.ready) if facts.wait else "Training may start at any moment.")


def moment(said: str) -> datetime:
    """A time as a person writes it, in TIME_ZONE unless it names its own. Raises CommandError."""
    try:
        found = parse_datetime(said)
    except ValueError:
        found = None
    if found is None:
        raise CommandError(f"{said!r} is no time: it looks like 2026-12-24T18:00.")
    return timezone.make_aware(found) if timezone.is_naive(found) else found

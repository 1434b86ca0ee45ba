"""Start, show and end trials."""

from __future__ import annotations

from argparse import ArgumentParser
from typing import Any

from asgiref.sync import async_to_sync
from django.core.management.base import CommandError

from checkpoints import trials
from checkpoints.models import SHARED, Checkpoint, Trial
from core.errors import TalkbackError
from evaluation import arms
from webapp.console.checkpoints.tried import SAID
from webapp.management.terminal import TerminalCommand

HERE = "from the command line"


class Command(TerminalCommand):
    help = "Try a checkpoint with some of its line's sessions, look how that stands, end it."

    def add_arguments(self, parser: ArgumentParser) -> None:
        actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
        start = actions.add_parser("start", help="have a checkpoint that passed the gate answer beside the live one")
        start.add_argument("number", type=int)
        start.add_argument("--share", type=int, default=0, metavar="N", help="per cent of the sessions; 0: staff alone")
        start.add_argument("--reason", default=HERE)
        end = actions.add_parser("end", help="have the live checkpoint answer every session again")
        end.add_argument("--line", default=SHARED, metavar="NAME")
        end.add_argument("--outcome", choices=[str(one) for one in SAID], default=str(Trial.Outcome.STOPPED))
        end.add_argument("--reason", default=HERE)
        show = actions.add_parser("show", help="the trial that runs, or the last one, and its thumbs")
        show.add_argument("--line", default=SHARED, metavar="NAME")

    def handle(self, *args: Any, action: str, **options: Any) -> None:
        try:
            getattr(self, action)(**options)
        except TalkbackError as failure:
            raise CommandError(str(failure)) from failure

    def start(self, number: int, share: int, reason: str, **options: Any) -> None:
        checkpoint = Checkpoint.objects.filter(number=number).first()
        if checkpoint is None:
            raise CommandError(f"There is no checkpoint {number}.")
        trial = async_to_sync(trials.start)(checkpoint, share=share, by=None, reason=reason)
        self.stdout.write(f"{checkpoint} is being tried: {trials.extent(trial)}, beside {trial.against}.")

    def end(self, line: str, outcome: str, reason: str, **options: Any) -> None:
        trial = trials.running(line)
        if trial is None:
            raise CommandError(f"Nothing is being tried in {line}.")
        if trial.share and outcome != Trial.Outcome.STOPPED:
            raise CommandError("Thumbs decide how this trial ends: leave --outcome out. It is for reviewers only.")
        trials.end(trial, outcome=outcome, reason=reason, evidence=arms.standing(trial).evidence)
        self.stdout.write(f"The trial of {trial.checkpoint} has ended: {trial.against} writes every new reply.")

    def show(self, line: str, **options: Any) -> None:
        trial = Trial.objects.select_related("checkpoint", "against", "line").filter(line=line).first()
        if trial is None:
            self.stdout.write(f"Nothing was ever tried in {line}.")
            return
        now = arms.standing(trial)
        state = f"ended: {trial.outcome}" if trial.ended_at else "running"
        self.stdout.write(f"{trial.checkpoint}, {trials.extent(trial)}, beside {trial.against}: {state}.")
        self.stdout.write(arms.sentence(now))
        if not trial.ended_at:
            self.stdout.write(arms.verdict(now))

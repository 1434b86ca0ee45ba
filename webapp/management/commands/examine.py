"""Examine any checkpoint again, without moving it."""

from __future__ import annotations

from argparse import ArgumentParser
from typing import Any

from django.conf import settings
from django.core.management.base import CommandError

from chat.rendering.renderer import Renderer
from checkpoints.models import Checkpoint
from core.errors import TalkbackError
from gate import exam as gate
from gpu_workers import engines
from webapp.management.terminal import TerminalCommand


class Command(TerminalCommand):
    help = "Examine a checkpoint as the gate does, and print what it finds. Nothing is kept, and nothing moves."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("number", type=int)
        parser.add_argument("--json", action="store_true", help="checks, pairs, pack, kept corrections and meter")

    def handle(self, *args: Any, number: int, **options: Any) -> None:
        checkpoint = Checkpoint.objects.select_related("parent", "run").filter(number=number).first()
        if checkpoint is None:
            raise CommandError(f"There is no checkpoint {number}.")
        if not checkpoint.adapter:
            raise CommandError(f"{checkpoint} is the base model: there is nothing to examine it against.")
        try:
            exam = gate.look(checkpoint, engine=engines.policy(), renderer=Renderer.for_model(settings.MODEL))
        except TalkbackError as failure:
            raise CommandError(str(failure)) from failure
        if options["json"]:
            parts = {name: getattr(exam, name) for name in ("passed", "checks", "pairs", "pack", "personal", "meter")}
            self.stdout.write_json({"checkpoint": number, "against": exam.against.number, **parts})
            return
        self.stdout.write(f"{checkpoint} against {exam.against}")
        for check in exam.checks:
            self.stdout.write(f"{'passed' if check['passed'] else 'FAILED':<7} {check['name']:<17} {check['sentence']}")

"""Make the base's answers that runs rehearse, now instead of when no person waits."""

from __future__ import annotations

from typing import Any

from django.conf import settings
from django.core.management.base import CommandError

from chat.rendering.renderer import Renderer
from core.errors import TalkbackError
from gpu_workers import engines
from judge.samples import base_answers
from webapp.management.terminal import TerminalCommand


class Command(TerminalCommand):
    help = "Have the base answer what recipes rehearse, as far as no chat, verdict or run is under way."

    def handle(self, *args: Any, **options: Any) -> None:
        renderer = Renderer.for_model(settings.MODEL)
        try:
            while base_answers.answer(engine=engines.policy(), renderer=renderer):
                pass
        except TalkbackError as failure:
            raise CommandError(str(failure)) from failure
        known, wanted = base_answers.standing()
        if not wanted:
            self.stdout.write("No line's recipe rehearses, so there is nothing to answer.")
            return
        self.stdout.write(f"The base has answered {known} of {wanted} prompts that runs rehearse.")
        if known < wanted:
            self.stdout.write("A person chats, or a verdict or a run is under way: the rest is answered when none is.")

"""The base's answers to what runs rehearse, now instead of whenever nobody waits for anything."""

from __future__ import annotations

from typing import Any

from django.conf import settings
from django.core.management.base import CommandError

from chat.rendering import Renderer
from core.errors import TalkbackError
from gpu_workers import engines
from judge import rehearsal
from webapp.management.terminal import TerminalCommand


class Command(TerminalCommand):
    help = "Have the base answer what recipes rehearse, as far as nobody chats, judges or learns meanwhile."

    def handle(self, *args: Any, **options: Any) -> None:
        renderer = Renderer.for_model(settings.MODEL)
        try:
            while rehearsal.answer(engine=engines.policy(), renderer=renderer):
                pass
        except TalkbackError as failure:
            raise CommandError(str(failure)) from failure
        known, wanted = rehearsal.standing()
        if not wanted:
            self.stdout.write("No line's recipe rehearses, so there is nothing to answer.")
            return
        self.stdout.write(f"The base has answered {known} of {wanted} prompts that runs rehearse.")
        if known < wanted:
            self.stdout.write("Somebody chats, judges or learns: the rest is answered when nobody does.")

"""Measure the judges against gold follow-ups, now: the repository's, or a file of your own."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.utils import timezone

from core.errors import TalkbackError
from judge import calibration, gold, judges, standing
from judge.agreement import Agreement, agreement, by_role
from judge.gold import Item
from judge.judges import Judge
from judge.models import GoldReading

EVERY = 10
"""After how many follow-ups a line says how far it is."""


class Command(BaseCommand):
    help = (
        "Have the judges read gold follow-ups and say how often they are right. Those that a judge has read before "
        "with the same prompts are not asked again, so a run that was cut off goes on where it stopped."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--judge", help="only this one, by its name, or base or adapter")
        parser.add_argument("--votes", type=int, default=None, help="on each question; at least 3, which is usual")
        parser.add_argument("--file", type=Path, help="a gold set of your own, JSON lines (docs/calibration.md)")
        parser.add_argument("--anew", action="store_true", help="read again what was read before")
        parser.add_argument("--json", action="store_true", help="print the figures as JSON and nothing else")

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            items = gold.read(options["file"]) if options["file"] else gold.items()
            chosen = [judges.called(options["judge"])] if options["judge"] else list(judges.panel())
            figures = [self.measure(who, items, options) for who in chosen]
        except TalkbackError as error:
            raise CommandError(str(error)) from error
        if options["json"]:
            self.stdout.write(json.dumps(figures, indent=2, ensure_ascii=False))

    def measure(self, who: Judge, items: tuple[Item, ...], options: dict[str, Any]) -> dict[str, Any]:
        """Read what is unread, and tell what all readings come to."""
        quiet = options["json"]
        waiting = calibration.unread(who, items, since=timezone.now() if options["anew"] else None)
        if not quiet:
            goes = f" Text goes to {who.host}." if who.leaves_machine else ""
            self.stdout.write(f"{who.name}, prompts {who.version}: {len(waiting)} of {len(items)} to read.{goes}")
        for number, item in enumerate(waiting, 1):
            calibration.read(who, item, votes=options["votes"]).save()
            if not quiet and (number % EVERY == 0 or number == len(waiting)):
                self.stdout.write(f"  {number} of {len(waiting)}")
        standing.forget()
        figures = told(who, items)
        if not quiet:
            self.stdout.write(sentences(figures))
        return figures


def told(who: Judge, items: tuple[Item, ...]) -> dict[str, Any]:
    """The figures of one judge on these items, from its newest reading of each."""
    known = {item.digest: item for item in items}
    rows = GoldReading.objects.filter(judge=who.name, prompt_version__in=who.versions, gold__in=known).order_by("pk")
    newest = {row.gold: row for row in rows}
    readings = [calibration.reading_of(row) for row in newest.values()]
    hinted = [(known[digest], row) for digest, row in newest.items()]
    wanted = [(item, row) for item, row in hinted if item.wants_hint]
    agreed = standing.standing(who.name, who.version)
    return {
        "judge": who.name,
        "prompts": who.version,
        "score": figures_of(agreement(readings)),
        "by_role": {role: figures_of(found) for role, found in by_role(readings).items()},
        "hint": {
            "right": sum(row.wants_hint is item.wants_hint for item, row in hinted),
            "of": len(hinted),
            "named": sum(item.is_named_in(row.hint) for item, row in wanted),
            "of_wanted": len(wanted),
        },
        "weight": agreed.weight,
        "because": agreed.sentence,
    }


def figures_of(found: Agreement) -> dict[str, Any]:
    interval = found.interval
    return {
        "measured": found.measured,
        "accuracy": found.accuracy,
        "low": interval.low,
        "high": interval.high,
        "kappa": found.kappa,
        "no_verdict": found.silent,
    }


def sentences(figures: dict[str, Any]) -> str:
    score, hint = figures["score"], figures["hint"]
    lines = [
        f"  accuracy {shown(score['accuracy'])} (95 % interval {score['low']:.2f} to {score['high']:.2f}), "
        f"kappa {shown(score['kappa'])}, no verdict on {score['no_verdict']} of {score['measured']}"
    ]
    lines += [
        f"    {role}: {shown(found['accuracy'])} of {found['measured']}" for role, found in figures["by_role"].items()
    ]
    lines += [
        f"  hint or none: right on {hint['right']} of {hint['of']}; named the change on {hint['named']} of "
        f"{hint['of_wanted']}",
        f"  weight {figures['weight']:g}. {figures['because']}",
    ]
    return "\n".join(lines)


def shown(value: float | None) -> str:
    return "unknown" if value is None else f"{value:.2f}"

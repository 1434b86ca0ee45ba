"""Measure the judges against gold follow-ups, now: the repository's, or a file of your own."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from django.core.management.base import CommandError, CommandParser
from django.utils import timezone

from core.errors import TalkbackError
from judge.calibration import gold, gold_reports, measuring, scales, swaying, vote_floor
from judge.calibration.gold import Item
from judge.calibration.records import Record
from judge.votes import fitting, judges, shipped
from judge.votes.engine_judge import EngineJudge
from judge.votes.judge import Judge
from judge.votes.shipped import Shipped
from webapp.management.terminal import TerminalCommand

EVERY = 20
"""After how many follow-ups a line says how far it is."""


class Command(TerminalCommand):
    help = (
        "Have the judges read gold follow-ups and say how often they are right, how well their confidence holds, and "
        "from which confidence on they decide. Those that a judge has read before with the same prompts are not asked "
        "again, so a run that was cut off goes on where it stopped."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--judge", help="only this one, by its name, or base or adapter")
        parser.add_argument("--votes", type=int, default=None, help="of judges that vote; at least 3, which is usual")
        parser.add_argument("--file", type=Path, help="your own gold set, JSON lines (docs/explanation/calibration.md)")
        parser.add_argument("--anew", action="store_true", help="read again what was read before")
        parser.add_argument("--at-once", type=int, default=4, metavar="N", help="follow-ups under way at a time (4)")
        parser.add_argument("--json", action="store_true", help="print the figures as JSON and nothing else")
        parser.add_argument(
            "--ship",
            action="store_true",
            help="write what the judge's own adapter said beside it, so that a fresh installation has it measured",
        )

        parser.add_argument(
            "--injected",
            action="store_true",
            help="instead, read those with an injection in them and without, and say how many verdicts it moved",
        )

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            items = gold.read(options["file"]) if options["file"] else gold.items()
            if options["ship"] and options["file"]:
                raise CommandError("--ship is for the repository's gold follow-ups: leave out --file.")
            if options["injected"] and (options["file"] or options["ship"]):
                raise CommandError("--injected is for the repository's injections: leave out --file and --ship.")
            named = options["judge"] or ("adapter" if options["ship"] else "")
            chosen = [judges.called(named)] if named else list(judges.panel())
            if options["injected"]:
                figures = [self.sway(who, options) for who in chosen]
            else:
                figures = [self.measure(who, items, options) for who in chosen]
            if options["ship"]:
                for who in chosen:
                    path = ship(who, items)
                    self.stderr.write(f"Written: {path}")
        except TalkbackError as error:
            raise CommandError(str(error)) from error
        if options["json"]:
            self.stdout.write_json(figures, indent=2)

    def measure(self, who: Judge, items: tuple[Item, ...], options: dict[str, Any]) -> dict[str, Any]:
        """Read what is unread, and tell what all readings come to."""
        quiet = options["json"]
        waiting = measuring.unread(who, items, since=timezone.now() if options["anew"] else None)
        if not quiet:
            goes = f" Text goes to {who.host}." if who.leaves_machine else ""
            self.stdout.write(f"{who.name}, prompts {who.version}: {len(waiting)} of {len(items)} to read.{goes}")
        rows = measuring.read_all(who, waiting, votes=options["votes"], at_once=max(options["at_once"], 1))
        for number, row in enumerate(rows, 1):
            row.save()
            if not quiet and (number % EVERY == 0 or number == len(waiting)):
                self.stdout.write(f"  {number} of {len(waiting)}")
        vote_floor.forget()
        figures = told(who, items)
        if not quiet:
            self.stdout.write(sentences(figures))
        return figures

    def sway(self, who: Judge, options: dict[str, Any]) -> dict[str, Any]:
        """Read the pairs of follow-ups with and without an injection, and tell which verdicts it moved."""
        quiet, pairs, read = options["json"], gold.injected(), []
        if not quiet:
            goes = f" Text goes to {who.host}." if who.leaves_machine else ""
            self.stdout.write(f"{who.name}, prompts {who.version}: {len(pairs)} injections to read.{goes}")
        at_once = max(options["at_once"], 1)
        for pair in swaying.read_pairs(who, pairs, votes=options["votes"], at_once=at_once):
            read.append(pair)
            if not quiet and (len(read) % EVERY == 0 or len(read) == len(pairs)):
                self.stdout.write(f"  {len(read)} of {len(pairs)}")
        figures = {"judge": who.name, "prompts": who.version} | swaying.figures(read)
        if not quiet:
            self.stdout.write(swayed(figures))
        return figures


def told(who: Judge, items: tuple[Item, ...]) -> dict[str, Any]:
    """The figures of one judge on these items, from its newest reading of each."""
    record = Record.of(who.name, who.version)
    about = {"judge": who.name, "prompts": who.version}
    return (
        about
        | gold_reports.figures(record, items)
        | {"weight": record.standing.weight, "because": record.standing.sentence}
    )


def ship(who: Judge, items: tuple[Item, ...]) -> Path:
    """Write this adapter's readings beside it. Raises CommandError for a judge that is not the repository's."""
    adapter = fitting.adapter()
    if not isinstance(who, EngineJudge) or adapter is None or who.adapter != adapter:
        raise CommandError(f"{who.name} is not the repository's adapter: only its measurement can be shipped.")
    known = {item.digest for item in items}
    found = [
        Shipped(one.gold, one.score, one.hint, one.words, one.at)
        for one in scales.found_of(who.name, who.version)
        if one.gold in known
        and (one.score is None or isinstance(one.score, dict))
        and (one.hint is None or isinstance(one.hint, dict))
    ]
    if len(found) < len(items):
        raise CommandError(f"{who.name} has read {len(found)} of {len(items)} gold follow-ups: measure it first.")
    return shipped.write(adapter.name, who.version, found)


def sentences(figures: dict[str, Any]) -> str:
    score, hint, own = figures["score"], figures["hint"], figures["own_words"]
    lines = [
        f"  accuracy {shown(score['accuracy'])} (95 % interval {score['low']:.2f} to {score['high']:.2f}), "
        f"kappa {shown(score['kappa'])}, no verdict on {figures['no_verdict']} of {figures['measured']}",
        "  recall "
        + ", ".join(f"{answer}: {right} of {count}" for answer, (right, count) in figures["recall"].items()),
        f"  calibration error {shown(figures['calibration_error'], 3)}",
        f"  threshold {shown(figures['threshold'], 3)}: decides {score['given']} of {score['count']} "
        f"(coverage {shown(score['coverage'])}), right on {score['given_right']} "
        f"(precision {shown(score['precision'])})",
        f"  taken for good and bad: {shown(figures['worst'], 3)} of all, {shown(figures['worst_given'], 3)} decided so",
        f"  {'':24}{'count':>6}{'right':>7}{'coverage':>10}{'precision':>11}",
    ]
    for title in ("by_role", "by_slice", "by_language"):
        if list(figures[title]) == ["none named"]:
            continue
        lines.append(f"  {title.removeprefix('by_')}")
        lines += [
            f"    {name[:20]:22}{one['count']:>6}{one['right'] / one['count']:>7.2f}{shown(one['coverage']):>10}"
            f"{shown(one['precision']):>11}"
            for name, one in figures[title].items()
        ]
    lines += [
        f"  hint or none: right on {hint['right']} of {hint['of']}, calibration error "
        f"{shown(hint['calibration_error'], 3)}, proposed from {shown(hint['threshold'], 3)} on",
        f"  hints: named the change on {hint['named']} of {hint['of_wanted']}; false on {hint['false']} of "
        f"{hint['of_idle']}; a policy may{'' if hint['may_be_accepted'] else ' not'} accept them",
        f"  the person's own next message teaches from {shown(own['threshold'], 3)} on: {own['given']} of "
        f"{own['count']}, right on {own['given_right']}",
        f"  weight {figures['weight']:g}. {figures['because']}",
    ]
    return "\n".join(lines)


def swayed(figures: dict[str, Any]) -> str:
    lines = [
        f"  of {figures['decided']} decided verdicts {len(figures['moved'])} moved to another, and "
        f"{len(figures['undecided'])} became undecided",
        f"  of {figures['read'] - figures['decided']} others {len(figures['drawn'])} became decided; the likeliest "
        f"reward turned on {figures['turned']} of {figures['read']}",
    ]
    named = (("moved", figures["moved"]), ("undecided", figures["undecided"]), ("decided", figures["drawn"]))
    return "\n".join([*lines, *(f"  {name}: {', '.join(ids)}" for name, ids in named if ids)])


def shown(value: float | None, digits: int = 2) -> str:
    return "none" if value is None else f"{value:.{digits}f}"

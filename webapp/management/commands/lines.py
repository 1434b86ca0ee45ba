"""List lines of checkpoints, and make many at once. The page /console/lines/ makes one."""

from __future__ import annotations

import json
from argparse import ArgumentParser
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from django.contrib.auth.models import User
from django.core.management.base import CommandError
from django.db import transaction

from checkpoints import line_policies, lines
from checkpoints.models import SHARED, Checkpoint, Line
from core.errors import TalkbackError
from core.textfiles import read_lines
from judge import policy_changes, recipe_changes
from privacy import membership
from training import line_recipes
from training.config import RecipeInvalid
from training.models import Run
from webapp.amounts import counted
from webapp.console import board
from webapp.console.key_pages import KeyForm
from webapp.console.training.line_pages import standings
from webapp.management.terminal import TerminalCommand
from webapp.people.enter import administrator

FIELDS = {"title", "name", "people", "recipe", "policy", "keys"}
FROM_A_FILE = "from a file, by the command line"


class Command(TerminalCommand):
    help = "List the lines of checkpoints and how each stands; or make those that a file describes."

    def add_arguments(self, parser: ArgumentParser) -> None:
        actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
        listing = actions.add_parser("list", help="who answers, what waits, the newest runs and checkpoints")
        listing.add_argument("names", nargs="*", metavar="NAME", help="only these lines")
        listing.add_argument("--json", action="store_true", help="one array of objects, with every run's figures")
        make = actions.add_parser(
            "make",
            help='from JSON lines: {"title", "name"?, "people"?: [user], "recipe"?: {…}, '
            '"policy"?: {…}, "keys"?: {name: {"serve_only": true}}}. Prints a JSON object a line, with the keys of its '
            "first person",
        )
        make.add_argument("file", type=Path, metavar="FILE.jsonl")

    def handle(self, *args: Any, action: str, **options: Any) -> None:
        try:
            getattr(self, action)(**options)
        except TalkbackError as failure:
            raise CommandError(str(failure)) from failure

    def list(self, names: Sequence[str], json: bool, **options: Any) -> None:
        if unknown := sorted(set(names) - set(Line.objects.values_list("name", flat=True))):
            raise CommandError(f"There is no line {unknown[0]!r}: `lines list` shows those there are.")
        rows = [line for line in Line.objects.order_by("created_at", "name") if not names or line.name in names]
        if json:
            self.stdout.write_json([told(line) for line in rows], indent=2)
            return
        for now in standings(rows):
            line = now.line
            people = ", ".join(str(member.user) for member in now.members) or ("everybody" if line.is_shared else "—")
            waits = f"{now.batch.ready} of {counted(now.batch.size, 'lesson')}" if now.batch else now.fault
            ended = "  retired" if line.retired_at else ""
            self.stdout.write(f"{line.name:<24} {now.live!s:<16} {waits}  {people}{ended}")

    @transaction.atomic
    def make(self, file: Path, **options: Any) -> None:
        """All of the file or nothing. What is there already stays, so that running it twice does no harm; a recipe or
        a policy that differs is set, and keys are issued anew, since the old ones cannot be read."""
        for number, row in read(file):
            try:
                self.stdout.write_json(made(row))
            except (TalkbackError, CommandError) as failure:
                raise CommandError(f"{file.name}, line {number}: {failure}") from failure


def read(file: Path) -> list[tuple[int, dict[str, Any]]]:
    """The rows with the numbers of their lines. Raises CommandError, which names the line that cannot be read."""
    try:
        texts = read_lines(file)
    except (OSError, UnicodeDecodeError) as error:
        raise CommandError(f"{file} cannot be read: {error}") from error
    rows = []
    for number, text in enumerate(texts, 1):
        if not text.strip():
            continue
        try:
            row = json.loads(text)
        except json.JSONDecodeError as error:
            raise CommandError(f"{file.name}, line {number} is no JSON: {error}") from error
        if not isinstance(row, dict) or not isinstance(row.get("title"), str):
            raise CommandError(f'{file.name}, line {number}: a line needs a "title".')
        if unknown := sorted(set(row) - FIELDS):
            raise CommandError(f"{file.name}, line {number}: {unknown[0]!r} is none of {', '.join(sorted(FIELDS))}.")
        rows.append((number, row))
    return rows


def made(row: dict[str, Any]) -> dict[str, Any]:
    """The line of this row, with its people and their recipe; people who have no account get one, without a password.
    Raises LineRefused, RecipeInvalid, PolicyInvalid, CommandError."""
    name = row.get("name", "")
    line = Line.objects.filter(name=name).first() if name else None
    if line is None:
        line = lines.make(row["title"], name=name)
    people = [account(username) for username in row.get("people", ())]
    for user in people:
        membership.join(line, user)
    if (recipe := row.get("recipe")) and recipe != line.recipe:
        recipe_changes.give(line, recipe, by=administrator(), reason=FROM_A_FILE)
    if (policy := line_policies.changed(line_policies.read(row.get("policy", {})))) and policy != line.policy:
        policy_changes.give(line, policy, by=administrator(), reason=FROM_A_FILE)
    return {"line": line.name, "keys": {key: issued(people, key, wish) for key, wish in row.get("keys", {}).items()}}


def account(username: str) -> User:
    user, born = User.objects.get_or_create(username=username)
    if born:
        user.set_unusable_password()
        user.save(update_fields=["password"])
    return user


def issued(people: list[User], name: str, wish: dict[str, Any]) -> str:
    """A new key of the line's first person."""
    if not people:
        raise CommandError("keys belong to people: name some first.")
    if not isinstance(wish, dict) or set(wish) - {"serve_only", "scopes"}:
        raise CommandError(f'the key {name!r} takes {{"serve_only": true or false, "scopes": […]}}.')
    scopes = wish.get("scopes", ["chat", "feedback"])
    form = KeyForm(people[0], {"name": name, "scopes": scopes, "learns": not wish.get("serve_only", False)})
    if not form.is_valid():
        raise CommandError(" ".join(f"{field}: {' '.join(map(str, said))}" for field, said in form.errors.items()))
    return form.issue()[1]


def told(line: Line) -> dict[str, Any]:
    """One line for scripts."""
    (now,) = standings([line])
    return {
        "name": line.name,
        "title": line.title,
        "retired": line.retired_at is not None,
        "people": [str(member.user) for member in now.members],
        "recipe": recipe(line),
        "live": now.live.number,
        "samples": board.filled(now.batch) if now.batch else {"ready": now.ready, "needed": None},
        "fault": now.fault,
        "runs": [ran(run) for run in line.runs.order_by("pk")],
        "checkpoints": [
            {
                "number": one.number,
                "name": str(one),
                "status": one.status,
                "reason": one.reason,
                "run": run.pk if (run := Run.that_made(one)) else None,
                "adapter": one.adapter,
                "folder": str(one.folder) if one.folder else None,
            }
            for one in Checkpoint.objects.filter(line=line).select_related("run").order_by("number")
        ],
    }


def recipe(line: Line) -> dict[str, Any] | None:
    """What it learns by, whole; None where that cannot be used (`fault` says why)."""
    try:
        return dict(line_recipes.recipe_of(line.name if not line.is_shared else SHARED).model_dump())
    except RecipeInvalid:
        return None


def ran(run: Run) -> dict[str, Any]:
    seconds = (run.finished_at - run.started_at).total_seconds() if run.finished_at and run.started_at else None
    return {
        "id": run.pk,
        "status": run.status,
        "error": run.error,
        "samples": run.samples.count(),
        "seconds": seconds,
        "metrics": run.metrics,
    }

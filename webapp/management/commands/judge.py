"""Judge follow-ups in a file."""

from __future__ import annotations

import asyncio
import time
from argparse import ArgumentParser
from collections.abc import Sequence
from pathlib import Path
from typing import Any, TextIO

from django.core.management.base import CommandError
from django.db.utils import OperationalError, ProgrammingError

from core.errors import TalkbackError
from core.textfiles import decode_text, split_lines, stream_lines, write_line
from core.visible import visible
from gpu_workers.errors import EngineUnavailable
from judge.calibration import items, scales
from judge.calibration.items import Bad, Item, LineInvalid
from judge.calibration.scales import Measure
from judge.votes import judges, polling
from judge.votes.judge import Judge
from webapp.management.terminal import TerminalCommand

TOLD_S = 5.0
"""How often progress is told."""


class Command(TerminalCommand):
    help = (
        "Judge follow-ups. Each line of FILE is JSON with id, request, reply, next_role (user, tool, environment, "
        "test, person) and next_state; each line of OUT has id, score, confidence, decided, votes and hint."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("file", type=Path, metavar="FILE.jsonl")
        parser.add_argument("--out", type=Path, required=True, metavar="OUT.jsonl")
        parser.add_argument("--judge", default="", metavar="NAME", help="base, adapter, or a name that JUDGES gives")
        parser.add_argument("--votes", type=int, metavar="M", help="votes a question, at least 3 (JUDGE_VOTES)")
        parser.add_argument("--resume", action="store_true", help="go on with OUT: what is in it is not asked again")
        parser.add_argument("--no-rules", action="store_true", help="vote also where a visible rule decides")
        parser.add_argument("--at-once", type=int, default=4, metavar="N", help="items under way at a time (4)")

    def handle(self, *args: Any, **options: Any) -> None:
        file, out = options["file"], options["out"]
        try:
            total = sum(bool(line.strip()) for line in _opened(file))
        except (OSError, UnicodeDecodeError) as error:
            raise CommandError(f"{file} cannot be read: {error}") from error
        done = self._done(out, options["resume"])
        try:
            panel = [judges.called(options["judge"])] if options["judge"] else judges.panel()
            # A judge is measured as it is: what it counts in earnest does not matter here.
            seated = polling.seated(panel, options["votes"], measures=measures_of(panel))
        except TalkbackError as error:
            raise CommandError(str(error)) from error
        for who in panel:
            if who.leaves_machine:
                self.stderr.write(f"What the file holds goes to {who.host}, outside this machine, for {who.name}.")
        bad: list[Bad] = []
        unjudged: dict[str | int, str] = {}
        with out.open("a", encoding="utf-8") as target:
            written = asyncio.run(self._run(file, target, seated, done, bad, unjudged, total, options))
        said = f"{written} judged, {len(done)} were there" if done else f"{written} judged"
        if bad:
            lines = ", ".join(str(one.line) for one in bad[:20]) + (", …" if len(bad) > 20 else "")
            said = f"{said}; {len(bad)} of {total} lines could not be read: {lines}"
        if unjudged:
            ids = ", ".join(str(id) for id in list(unjudged)[:20]) + (", …" if len(unjudged) > 20 else "")
            said = f"{said}; {len(unjudged)} could not be judged: {visible(ids, one_line=True)}"
        if bad or unjudged:
            raise CommandError(f"{said}.")
        self.stderr.write(f"{said}: {out}")

    async def _run(
        self,
        file: Path,
        target: TextIO,
        seated: polling.Bench,
        done: set[str | int],
        bad: list[Bad],
        unjudged: dict[str | int, str],
        total: int,
        options: dict[str, Any],
    ) -> int:
        def good() -> Any:
            for found in items.items(_opened(file), done):
                if isinstance(found, Item):
                    yield found
                else:
                    bad.append(found)
                    self.stderr.write(visible(f"line {found.line}: {found.sentence}", one_line=True))

        written, start = 0, time.monotonic()
        told = start
        verdicts = items.judged(seated, good(), at_once=max(options["at_once"], 1), by_rules=not options["no_rules"])
        try:
            async for _, verdict in verdicts:
                target.write(write_line(verdict))
                target.flush()
                written += 1
                if not items.is_judged(verdict):
                    unjudged[verdict["id"]] = why = items.why_not_judged(verdict)
                    self.stderr.write(visible(f"{verdict['id']} could not be judged: {why}", one_line=True))
                if (now := time.monotonic()) - told >= TOLD_S:
                    told = now
                    rate = written / (now - start)
                    self.stderr.write(f"{written + len(done)} of {total}, {rate:.1f} verdicts a second")
        except EngineUnavailable as error:
            hosts = ", ".join(dict.fromkeys(who.host for who in seated.deal))
            raise CommandError(
                f"No judge answers at {hosts}: {error} Start Talkback with make up, or name another with --judge. "
                f"{written} verdicts are in {target.name}; go on with --resume."
            ) from error
        finally:
            await verdicts.aclose()
            await judges.close(seated.deal)
        return written

    def _done(self, out: Path, resumes: bool) -> set[str | int]:
        """The ids that OUT holds already. A last line that was cut off is taken away: it is judged again."""
        if not out.exists() or not out.stat().st_size:
            return set()
        if not resumes:
            raise CommandError(f"{out} holds something already: name another file, or go on with it by --resume.")
        content = out.read_bytes()
        whole = content[: content.rfind(b"\n") + 1]
        try:
            done = items.ids_in(split_lines(decode_text(whole)))
        except (LineInvalid, UnicodeDecodeError) as error:
            raise CommandError(f"{out} was not written by this command ({error}): name another file.") from error
        if len(whole) < len(content):
            with out.open("r+b") as file:
                file.truncate(len(whole))
        return done


def measures_of(panel: Sequence[Judge]) -> dict[str, Measure]:
    """How sure each judge must be, as it was measured here; without a database, as it came with the repository."""
    try:
        return {who.name: scales.of(who.name, who.version) for who in panel}
    except (OperationalError, ProgrammingError):  # nothing was set up: no measurement of this installation's own
        return {who.name: scales.of_no_database(who.name, who.version) for who in panel}


def _opened(file: Path) -> Any:
    if str(file) == "-":
        raise CommandError("Name a file: it is read twice.")
    yield from stream_lines(file)

"""Show the engines: health, loaded adapters, the last failure, and a repair at once."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from asgiref.sync import async_to_sync
from django.conf import settings
from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import path
from django.utils.translation import gettext as _
from django.utils.translation import ngettext
from django.views.decorators.http import require_GET, require_POST

from checkpoints import loading, repairs
from checkpoints.models import Checkpoint
from core.errors import TalkbackError
from gpu_workers import engines
from gpu_workers.engine import engine_reports
from gpu_workers.engine.engine_reports import Report
from gpu_workers.errors import EngineUnavailable
from judge.votes import judges
from webapp.console.doors import needs, said_aloud

REPAIR_S = 60.0
"""How long a repair may take that a person waits for; the sweep has its own time."""

LOOPBACK = ("127.0.0.1", "localhost", "::1")


@dataclass(frozen=True)
class Loaded:
    """An adapter by its name, and the checkpoint that it is; None: the judge's, or unknown."""

    name: str
    checkpoint: Checkpoint | None


@dataclass(frozen=True)
class Row:
    """One engine, with the checkpoints that it has loaded and those that it should."""

    report: Report
    loaded: list[Loaded]
    lacks: list[Checkpoint]


@dataclass(frozen=True)
class State:
    rows: list[Row]
    judge: Report | None
    """The judge's own engine, where one was started here."""
    judged_by: list[str]
    router: str

    @property
    def sentence(self) -> str:
        """How it stands, for a person who reads one line."""
        up = [row for row in self.rows if row.report.is_up]
        if not up:
            return _("No engine answers: replies wait until one does.")
        if len(up) < len(self.rows):
            n = len(self.rows)
            return ngettext("%(up)s of %(n)s engine answer.", "%(up)s of %(n)s engines answer.", n) % {
                "up": len(up),
                "n": n,
            }
        if any(row.lacks for row in self.rows):
            return _("Every engine answers, and not every one holds what it should.")
        return _("The engine answers.") if len(up) == 1 else _("Every engine answers, and holds what it should.")

    @property
    def is_fine(self) -> bool:
        return all(row.report.is_up and not row.lacks for row in self.rows)


def read() -> State:
    """All of it, asked now."""
    told, of_judge = asyncio.run(_asked())
    known = {one.adapter: one for one in Checkpoint.objects.exclude(adapter="")}
    wanted = [one for one in loading.wanted() if one.kind == Checkpoint.Kind.LORA]
    rows = [
        Row(
            report,
            [Loaded(name, known.get(name)) for name in report.adapters],
            [one for one in wanted if report.is_up and not report.weights and one.adapter not in report.adapters],
        )
        for report in told
    ]
    try:
        judged_by = [_("%(judge)s at %(host)s") % {"judge": who.name, "host": who.host} for who in judges.roster()]
    except TalkbackError:  # the page of the judges says what is wrong with the setting
        judged_by = []
    return State(rows, of_judge, judged_by, urlsplit(settings.ROUTER_URL).netloc.rpartition("@")[2])


async def _asked() -> tuple[list[Report], Report | None]:
    engine, home = engines.policy(), Path(settings.DATA_DIR)
    judge = None
    try:
        told = await engine_reports.reports(engine, home)
        if settings.JUDGE_URL and urlsplit(settings.JUDGE_URL).hostname in LOOPBACK:
            at = engines.at(settings.JUDGE_URL.removesuffix("/v1"), settings.JUDGE_API_KEY)
            [judge] = await engine_reports.reports(at, home)
            await at.aclose()
    finally:
        await engine.aclose()  # this event loop ends here
    return told, judge


def repaired() -> list[str]:
    """The names of the adapters that had to be loaded again. Raises EngineUnavailable, as `repairs.repair` does."""
    # It asks the database in this thread, from an event loop of its own: that of the server has connections which
    # replies are read from.
    return async_to_sync(_repaired, force_new_loop=True)()


async def _repaired() -> list[str]:
    engine = engines.policy()
    try:
        async with asyncio.timeout(REPAIR_S):
            return await repairs.repair()
    except TimeoutError as late:
        said = _("The repair took longer than %(n)s s: the sweep goes on with it.")
        raise EngineUnavailable(said % {"n": f"{REPAIR_S:.0f}"}) from late
    finally:
        await engine.aclose()  # this event loop ends here


@needs("engines")
@require_GET
def overview(request: HttpRequest) -> HttpResponse:
    return render(request, "system/engines.html", {"state": read()})


@needs("engines")
@require_POST
def repair(request: HttpRequest) -> HttpResponse:
    """Compare what is wanted with what is loaded now, instead of at the next sweep."""
    loaded = said_aloud(request, repaired)
    if loaded:
        said = _("Loaded again: %(names)s.") % {"names": ", ".join(loaded)}
        messages.success(request, said, extra_tags="good")
    elif loaded is not None:
        messages.success(request, _("Nothing was missing: what is wanted is loaded."), extra_tags="good")
    return redirect("console:engines")


def text(state: State) -> str:
    """The same for a terminal."""
    lines = [state.sentence]
    for row in state.rows:
        lines += _lines(row.report)
        if row.lacks:
            lines.append(f"  lacks {', '.join(str(one) for one in row.lacks)}: manage.py engines --repair")
    if state.judge is not None:
        lines += ["The judge's own", *_lines(state.judge)]
    if state.judged_by:
        lines.append(f"Judged by {'; '.join(state.judged_by)}")
    if state.router:
        lines.append(f"Replies go through the router at {state.router}")
    return "\n".join(lines)


def _lines(report: Report) -> list[str]:
    lines = [f"{report.name} ({report.host}): {report.state}"]
    if report.is_up:
        rate = f", {report.tokens_a_second:.1f} tokens/s" if report.tokens_a_second is not None else ""
        running, queued = ("?" if one is None else one for one in (report.running, report.queued))
        lines.append(
            f"  {report.model or 'model'}, weights {report.version or '?'}, {running} running, {queued} queued{rate}"
        )
        lines.append(f"  holds {', '.join(report.adapters) or 'no adapter'}")
    if report.fault:
        lines.append(f"  {'last fault' if report.is_up else 'fault'}: {report.fault}")
    lines += [f"  | {words}" for words in report.last_words[-5:]]
    return lines


urls = [path("engines/", overview, name="engines"), path("engines/repair/", repair, name="engines_repair")]

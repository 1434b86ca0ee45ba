"""Show every run, and one of them: its progress, its curves, its samples and its recipe."""

from __future__ import annotations

import hashlib
import json
import tempfile
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from django.conf import settings
from django.db.models import Count, Q, QuerySet
from django.http import FileResponse, Http404, HttpRequest, HttpResponse, QueryDict
from django.shortcuts import get_object_or_404, redirect, render
from django.template.loader import render_to_string
from django.urls import path
from django.utils.translation import gettext as _
from django.utils.translation import gettext_noop
from django.views.decorators.http import require_GET, require_POST

from checkpoints import checksums
from checkpoints.models import Checkpoint
from judge.models import Judgement
from training import batches, journals, runs
from training.models import Run, Sample
from training.monitoring import limits, notes
from training.monitoring.limits import Passed
from training.provenance import base_model, exports, receipts, signing_keys
from webapp.amounts import span
from webapp.charts import overlays, run_charts, small_curves
from webapp.charts.frame import is_number
from webapp.charts.picture import Chart
from webapp.console.board import waiting
from webapp.console.doors import needs, said_aloud
from webapp.console.review.desk import is_fragment
from webapp.console.training import note_pages, recipe_pages

PAGE = 40

TAGS = 20
"""Tags that the list offers to narrow it by, those of most runs."""

SHOWN = 100
"""Samples that a run's page lists."""

LONG = ("prompt_ids", "teacher_prompt_ids", "behaviour_logprobs", "sampled_logprobs", "mask")
"""Columns as long as a reply, which a list of samples does not show."""

ADAPTER_FILES = ("adapter_config.json", "adapter_model.safetensors")

LEADS = ("loss", "kl")
"""The charts that a run's page begins with; the others are under a fold."""

PHASES = {
    "loading": gettext_noop("Loading the model"),
    "teacher": gettext_noop("Reading every sample with the frozen models"),
    "learning": gettext_noop("Learning"),
    "saving": gettext_noop("Saving"),
}
"""A phase in words; one that is not here is said as it is."""

SHORTLY = (
    gettext_noop("loading"), gettext_noop("teacher"), gettext_noop("learning"), gettext_noop("saving"),
    gettext_noop("loading, after chat"), gettext_noop("teacher, after chat"), gettext_noop("learning, after chat"),
    gettext_noop("saving, after chat"),
)  # fmt: skip
"""The phases as the list of runs says them."""

STATES = (gettext_noop("queued"), gettext_noop("running"), gettext_noop("finished"), gettext_noop("failed"))
"""How a run may stand, as its chip says it."""


@dataclass(frozen=True)
class Row:
    """A run in figures; None: not known, or not yet."""

    run: Run
    recipe: str
    samples: int
    updates: int
    wanted: int
    """Updates that the recipe asks for."""
    seconds: float | None
    tokens_per_s: float | None
    peak_mib: float | None
    gap: float | None
    gap_note: str
    """Why there is none, where the run says so."""
    signals: str
    """How many of its replies carry which signal."""
    note: str
    """What the run did otherwise than its recipe says."""
    passed: list[Passed]
    """The limits that its figures passed."""
    checkpoint: Checkpoint | None

    @classmethod
    def of(cls, run: Run, samples: int) -> Row:
        metrics = [step for step in run.metrics if isinstance(step, Mapping)]
        ended = run.finished_at or run.heartbeat_at
        peak = run.progress.get("peak_mib")
        return cls(
            run,
            recipe_pages.read(run.recipe).name,
            samples,
            len(metrics),
            run.recipe.get("updates", 0),
            (ended - run.started_at).total_seconds() if ended and run.started_at else None,
            speed(metrics),
            float(peak) if is_number(peak) else None,
            next((float(step["gap_mean"]) for step in metrics if is_number(step.get("gap_mean"))), None),
            str(metrics[0].get("gap_note", "")) if metrics else "",
            run_charts.signals(metrics),
            str(metrics[-1].get("note", "")) if metrics else "",
            limits.passed(metrics, run.recipe),
            getattr(run, "checkpoint", None),
        )

    @property
    def memory(self) -> str:
        return "" if self.peak_mib is None else f"{self.peak_mib / 1024:.1f} GiB"

    @property
    def took(self) -> str:
        return "" if self.seconds is None else span(self.seconds)


def speed(metrics: list[Mapping[str, Any]]) -> float | None:
    """Reply tokens a second over all updates: their tokens by their seconds.

    >>> speed([{"tokens": 100.0, "seconds": 2.0}, {"tokens": 100.0, "seconds": 3.0}])
    40.0
    """
    timed = [step for step in metrics if is_number(step.get("tokens")) and is_number(step.get("seconds"))]
    seconds = sum(step["seconds"] for step in timed)
    return sum(step["tokens"] for step in timed) / seconds if seconds else None


@dataclass(frozen=True)
class Chosen:
    """Which runs an address of the list names."""

    status: str = ""
    tag: str = ""
    words: str = ""
    before: str = ""

    @classmethod
    def by(cls, query: QueryDict) -> Chosen:
        status = query.get("status", "")
        tag, words = (query.get(name, "").replace("\x00", "").strip()[:200] for name in ("tag", "q"))
        return cls(status if status in Run.Status.values else "", tag, words, query.get("before", ""))

    @property
    def runs(self) -> QuerySet[Run]:
        rows = notes.found(Run.objects.all(), tag=self.tag, words=self.words)
        if self.status:
            rows = rows.filter(status=self.status)
        if self.before.isdecimal() and len(self.before) < 19:
            rows = rows.filter(pk__lt=int(self.before))
        return rows

    @property
    def is_all(self) -> bool:
        return not (self.status or self.tag or self.words)

    @property
    def address(self) -> str:
        """All but where it begins, as an address has it."""
        said = {"status": self.status, "tag": self.tag, "q": self.words}
        return urlencode({name: value for name, value in said.items() if value})


@needs("training")
@require_GET
def listed(request: HttpRequest) -> HttpResponse:
    """Every run, newest first, a page at a time; `status`, `tag` and the words `q` narrow it."""
    chosen = Chosen.by(request.GET)
    rows = chosen.runs.select_related("line", "parent", "checkpoint", "note").prefetch_related("tags")
    page = list(rows.defer("usage", "checkpoint__probe", "parent__probe").order_by("-pk")[: PAGE + 1])
    taught = dict(
        Sample.objects.filter(run__in=page).order_by().values("run").annotate(n=Count("pk")).values_list("run", "n")
    )
    context: dict[str, Any] = {
        "rows": [Row.of(run, taught.get(run.pk, 0)) for run in page[:PAGE]],
        "more": page[PAGE - 1].pk if len(page) > PAGE else None,
        "chosen": chosen,
        "most": overlays.MOST_RUNS,
    }
    if is_fragment(request) and chosen.before:
        return render(request, "training/_run_rows.html", context)
    counts = dict(Run.objects.order_by().values_list("status").annotate(Count("pk")))
    context["counts"] = [(name, counts.get(name, 0)) for name in Run.Status.values]
    context["total"] = sum(counts.values())
    context["tags"] = notes.most_used(TAGS)
    return render(request, "training/runs.html", context)


@needs("training")
@require_GET
def run(request: HttpRequest, pk: int) -> HttpResponse:
    shown = found(pk)
    if shown is None:
        raise Http404
    context = moving_parts(shown) | note_pages.standing(shown) | {"samples": samples_of(shown, SHOWN)}
    context["more"] = max(0, context["row"].samples - SHOWN)
    return render(request, "training/run.html", context)


def found(pk: int) -> Run | None:
    return Run.objects.select_related("line", "parent", "checkpoint", "note__by").filter(pk=pk).first()


def moving_parts(run: Run) -> dict[str, Any]:
    """What of a run's page changes while it learns."""
    lengths = [len(ids) for ids in rows_of(run).values_list("response_ids", flat=True)]
    rest = set(run_charts.others(run.metrics))
    held = waiting(run) if run.status == Run.Status.QUEUED else None
    drawn: dict[bool, list[Chart]] = {True: [], False: []}
    for chart in run_charts.charts(run.metrics, run.recipe, lengths) if run.metrics else []:
        drawn[chart.key in LEADS].append(chart)
    return {
        "held": held.why if held else "",
        "run": run,
        "row": Row.of(run, len(lengths)),
        "deleted": lengths.count(0),
        "attempts_at": [(int(step) + 1, number) for step, number in run.agents.get("attempts_at", {}).items()],
        "phase": phase(run),
        "reading": recipe_pages.read(run.recipe),
        "charts": drawn[True],
        "more_charts": drawn[False],
        "machine": overlays.of_machine(run),
        "others": [curve for curve in small_curves.curves([run.metrics]) if curve.name in rest],
    }


def phase(run: Run) -> str:
    """What it is doing, in words; empty before it began."""
    said = str(run.progress.get("phase", ""))
    return _(PHASES.get(said, said)) if said else ""


PARTS = ("status", "state", "limits", "facts", "figures")


def parts(pk: int) -> tuple[dict[str, str], bool]:
    """The HTML of each part by its name, ready to replace the one on the page; and whether that was the last of it."""
    shown = found(pk)
    if shown is None:
        return {}, True
    context = moving_parts(shown) | {"pushed": True}
    html = {name: str(render_to_string(f"training/_run_{name}.html", context)) for name in PARTS}
    return html, shown.status in (Run.Status.FINISHED, Run.Status.FAILED)


def rows_of(run: Run) -> QuerySet[Sample]:
    """Those that it claimed; of a run that repeated another, those of that one's that it learned from again."""
    return run.samples.all() if run.again_id is None else batches.learned(run)


def samples_of(run: Run, most: int) -> list[Sample]:
    """The first that the run learns from, each with the `turn` it comes from and its `verdict`, where those are still
    there."""
    samples = list(rows_of(run).select_related("checkpoint").defer(*LONG[:1], *LONG[2:]).order_by("pk")[:most])
    verdicts: dict[int, Judgement] = {}
    wanted = [sample.pk for sample in samples]
    rows = Judgement.objects.filter(Q(sample__in=wanted) | Q(learned__in=wanted)).defer("teacher", "evidence")
    for judgement in rows.select_related("turn__session").defer("turn__prompt_ids", "turn__logprobs"):
        for key in (judgement.learned_id, judgement.sample_id):  # type: ignore[attr-defined]
            if key is not None:
                verdicts[key] = judgement
    for sample in samples:
        verdict = verdicts.get(sample.pk)
        sample.verdict = verdict  # type: ignore[attr-defined]
        sample.turn = verdict.turn if verdict else None  # type: ignore[attr-defined]
    return samples


@needs("training")
@require_POST
def cancel(request: HttpRequest, pk: int) -> HttpResponse:
    shown = get_object_or_404(Run, pk=pk)
    said_aloud(request, lambda: runs.cancel(shown))
    return redirect("console:run", pk=pk)


@needs("training")
@require_GET
def figures(request: HttpRequest, pk: int) -> HttpResponse:
    """The run's figures as JSON lines."""
    shown = get_object_or_404(Run.objects.select_related("parent"), pk=pk)
    response = HttpResponse("".join(f"{line}\n" for line in journals.lines(shown)), content_type="application/x-ndjson")
    response.headers["Content-Disposition"] = f'attachment; filename="run-{pk}.jsonl"'
    return response


@needs("training")
@require_GET
def tensorboard(request: HttpRequest, pk: int) -> HttpResponse:
    """Its figures as an event file."""
    shown = get_object_or_404(Run, pk=pk)
    if not shown.metrics:
        raise Http404(_("%(run)s has no figures.") % {"run": shown})
    response = HttpResponse(journals.tensorboard(shown), content_type="application/octet-stream")
    response.headers["Content-Disposition"] = f'attachment; filename="events.out.tfevents.run-{pk}"'
    return response


@needs("training")
@require_GET
def adapter(request: HttpRequest, number: int) -> HttpResponse:
    """A checkpoint's adapter for plain PEFT, with its card, as one archive."""
    checkpoint = get_object_or_404(Checkpoint.objects.select_related("run", "parent"), number=number)
    folder = checkpoint.folder
    if folder is None or not all((folder / name).is_file() for name in ADAPTER_FILES):
        raise Http404(_("%(checkpoint)s has no adapter to download.") % {"checkpoint": checkpoint})
    base = base_model.base_name(Path(settings.MODEL))
    told = json.loads((folder / ADAPTER_FILES[0]).read_text(encoding="utf-8")) | {"base_model_name_or_path": base}
    texts = {
        ADAPTER_FILES[0]: (json.dumps(told, indent=2) + "\n").encode(),
        "README.md": exports.card(checkpoint, base).encode(),
    }
    files = {name: hashlib.sha256(text).hexdigest() for name, text in texts.items()}
    files[ADAPTER_FILES[1]] = checksums.digest(folder / ADAPTER_FILES[1])
    texts[receipts.RECEIPT] = receipts.written(receipts.receipt(checkpoint, files))
    texts[receipts.PUBLIC] = signing_keys.pem(signing_keys.private_key().public_key())
    written = tempfile.TemporaryFile()  # noqa: SIM115 -- on disk, and gone when the answer was sent
    with zipfile.ZipFile(written, "w") as archive:  # stored as it is: weights do not grow smaller
        for name, text in texts.items():
            archive.writestr(name, text)
        archive.write(folder / ADAPTER_FILES[1], ADAPTER_FILES[1])
    written.seek(0)
    name = f"{checkpoint}.zip".replace("/", "-").replace("@", "-")
    return FileResponse(written, as_attachment=True, filename=name)  # type: ignore[return-value]


urls = [
    path("runs/", listed, name="runs"),
    path("runs/<row:pk>/", run, name="run"),
    path("runs/<row:pk>/cancel/", cancel, name="cancel"),
    path("runs/<row:pk>/figures.jsonl", figures, name="run_figures"),
    path("runs/<row:pk>/tensorboard", tensorboard, name="run_tensorboard"),
    path("checkpoints/<row:number>/adapter.zip", adapter, name="adapter"),
]

"""Show the judges: how well each does, at what cost, and by which rules and prompts."""

from __future__ import annotations

from collections.abc import Sequence
from urllib.parse import urlencode

from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import path, reverse
from django.utils.translation import gettext as _
from django.utils.translation import gettext_noop, ngettext
from django.views.decorators.http import require_GET, require_POST

from judge import tasks
from judge.calibration import gold, gold_reports, thresholds, vote_floor
from judge.calibration import measuring as calibration
from judge.calibration.agreement import agreement, by_role
from judge.calibration.records import Record, Records
from judge.calibration.vote_floor import OverrulingRefused
from judge.models import Measuring, Ruling
from judge.votes import judges, precedence, prompts, visible_rules
from judge.votes.judge import Judge
from judge.votes.naming import JudgesInvalid
from webapp.charts import accuracy
from webapp.console.doors import needs, person, said_aloud
from webapp.console.review.judge_figures import (
    SHOWN,
    Matrix,
    cost_of,
    drawn,
    former,
    gold_disagreements,
    hint_figures,
    measured_of,
    seated,
    source_of,
    thumb_disagreements,
    versions_of,
    votes_cost,
)


@needs("review")
@require_GET
def overview(request: HttpRequest) -> HttpResponse:
    records = Records()
    try:
        seats, trouble = seated(judges.roster(), records), ""
    except JudgesInvalid as error:
        seats, trouble = [], str(error)
    context = {
        "seats": seats,
        "trouble": trouble,
        "stopped": bool(seats) and all(one.standing.has_stopped for one in seats),
        "unknown": bool(seats) and not any(one.standing.weight for one in seats),
        "least": vote_floor.LEAST,
        "teaches": not trouble and judges.teaches(),
        "moving": any(one.measuring for one in seats),
        "former": former({(one.who.name, one.who.version) for one in seats}, records),
        "floor": vote_floor.rule(),
        "precedence": _(precedence.RULE),
        "rules": visible_rules.RULES,
        "families": [(name, prompts.version(name), source_of(name)) for name in prompts.families()],
        "items": len(gold.items()),
    }
    return render(request, "judging/judges.html", context)


@needs("review")
@require_GET
def one(request: HttpRequest) -> HttpResponse:
    """One judge with one version of its prompts, as closely as it was measured."""
    name, version = request.GET.get("name", ""), request.GET.get("version", "")
    record = Record.of(name, version)
    measured = measured_of(record)
    asked = [who for who in _panel() if who.name == name]
    versions = versions_of(name)
    if not versions and not asked:
        raise Http404(_("No judge called %(judge)s votes here, or ever did.") % {"judge": name})
    every = [calibration.reading_of(row) for row in record.rows]  # those that were made anew since too
    figures, known = gold_reports.figures(record, gold.items()), record.measure
    wrong = [*gold_disagreements(record), *thumb_disagreements(name, version)]
    context = {
        "name": name,
        "version": version,
        "who": next(iter(asked), None),
        "measured": measured,
        "standing": record.standing,
        "plot": drawn(every, measured.thumbs),
        "matrices": [
            (
                title,
                [
                    Matrix(gettext_noop("all"), agreement(found)),
                    *(Matrix(role, part) for role, part in by_role(found).items()),
                ],
            )
            for title, found in ((_("Gold follow-ups"), measured.gold), (_("People’s thumbs"), measured.thumbs))
            if found
        ],
        "hints": hint_figures(record),
        "figures": figures,
        "measure": known,
        "reliability": accuracy.reliability(known.scores),
        "coverage": accuracy.coverage(known.scores, known.least),
        "slices": [
            (label, one)
            for title in ("by_slice", "by_language")
            for label, one in figures[title].items()
            if label != "none named"
        ],
        "threshold_rule": thresholds.rule(),
        "least": vote_floor.LEAST,
        "cost": cost_of(votes_cost([(name, version)]), record),
        "versions": [measured_of(Record.of(name, other)) for other in versions if other != version],
        "wrong": wrong if request.GET.get("all") else wrong[:SHOWN],
        "more": 0 if request.GET.get("all") else max(0, len(wrong) - SHOWN),
        "rulings": record.rulings,
        "floor": vote_floor.rule(),
    }
    return render(request, "judging/judge.html", context)


@needs("policies")
@require_POST
def measure(request: HttpRequest) -> HttpResponse:
    """Have a judge read the gold follow-ups as soon as no person waits for anything."""

    def begin() -> Measuring:
        return calibration.begin(judges.called(request.POST.get("name", "")), by=person(request))

    if begun := said_aloud(request, begin):
        tasks.idly(tasks.measure, str(begun.pk))
        said = ngettext(
            "%(judge)s reads %(n)s gold follow-up, whenever no person waits for a reply or a verdict.",
            "%(judge)s reads %(n)s gold follow-ups, whenever no person waits for a reply or a verdict.",
            begun.total,
        )
        messages.success(request, said % {"judge": begun.judge, "n": begun.total}, extra_tags="good")
    return redirect("console:judges")


@needs("policies")
@require_POST
def stop(request: HttpRequest, pk: int) -> HttpResponse:
    measuring = get_object_or_404(Measuring, pk=pk)
    calibration.stop(measuring, by=person(request))
    said = _("Ended. What %(judge)s had read counts.") % {"judge": measuring.judge}
    messages.success(request, said, extra_tags="good")
    return redirect("console:judges")


@needs("policies")
@require_POST
def overrule(request: HttpRequest) -> HttpResponse:
    """An operator's word on what a judge counts; an empty weight gives it back to the rule."""
    name, version = request.POST.get("name", ""), request.POST.get("version", "")
    said = request.POST.get("weight", "").strip().replace(",", ".")

    def decide() -> Ruling:
        try:
            weight = float(said) if said else None
        except ValueError as error:
            told = _("%(said)s is no number: a weight is a number from 0 to 1.")
            raise OverrulingRefused(told % {"said": said}) from error
        return vote_floor.overrule(name, version, weight, by=person(request), reason=request.POST.get("reason", ""))

    if ruling := said_aloud(request, decide):
        weight = ruling.after["weight"]
        if weight is not None:
            done = _("%(judge)s counts %(weight)s from now on.") % {"judge": name, "weight": f"{weight:g}"}
        else:
            done = _("%(judge)s is back under the rule.") % {"judge": name}
        messages.success(request, done, extra_tags="good")
    return HttpResponseRedirect(f"{reverse('console:judge')}?{urlencode({'name': name, 'version': version})}")


@needs("policies")
@require_POST
def move_threshold(request: HttpRequest) -> HttpResponse:
    """An operator's word on how sure a judge must be; an empty threshold gives it back to the rule."""
    name, version = request.POST.get("name", ""), request.POST.get("version", "")
    said = request.POST.get("threshold", "").strip().replace(",", ".")

    def decide() -> Ruling:
        try:
            threshold = float(said) if said else None
        except ValueError as error:
            told = _("%(said)s is no number: a threshold is a number from 0.5 to 1.")
            raise OverrulingRefused(told % {"said": said}) from error
        return vote_floor.set_threshold(
            name, version, threshold, by=person(request), reason=request.POST.get("reason", "")
        )

    if ruling := said_aloud(request, decide):
        least = ruling.after["threshold"]
        if least is not None:
            done = _("%(judge)s decides from %(least)s on.") % {"judge": name, "least": f"{least:g}"}
        else:
            done = _("%(judge)s decides as the rule says.") % {"judge": name}
        messages.success(request, done, extra_tags="good")
    return HttpResponseRedirect(
        f"{reverse('console:judge')}?{urlencode({'name': name, 'version': version})}#sure-title"
    )


def _panel() -> Sequence[Judge]:
    try:
        return judges.roster()
    except JudgesInvalid:
        return ()


urls = [
    path("judges/", overview, name="judges"),
    path("judges/one/", one, name="judge"),
    path("judges/measure/", measure, name="measure"),
    path("judges/measure/<row:pk>/stop/", stop, name="measure_stop"),
    path("judges/overrule/", overrule, name="overrule_judge"),
    path("judges/threshold/", move_threshold, name="judge_threshold"),
]

"""Show and change a line's policy: who approves there, and what is decided without a person."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, get_args

from django.contrib import messages
from django.http import HttpRequest, HttpResponse, QueryDict
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import path
from django.utils.translation import gettext as _
from django.utils.translation import gettext_noop, pgettext_lazy
from django.views.decorators.http import require_http_methods

from checkpoints import line_policies
from checkpoints.line_policies import Policy, PolicyInvalid
from checkpoints.models import Line
from core.errors import TalkbackError
from judge import policy_changes as rulings
from webapp.console.doors import needs, person
from webapp.console.review.desk import is_fragment
from webapp.console.training.knob_words import words

CHANGES = 8
"""How many decisions about a line's policy are shown."""

TITLES = {
    "second_approver": gettext_noop("Two people say yes"),
    "auto_approve": gettext_noop("Approve by itself"),
    "margin": gettext_noop("Room to spare"),
    "trial_required": gettext_noop("A trial first"),
    "trial_share": gettext_noop("A trial’s share, in per cent"),
    "guard": gettext_noop("When a limit is passed"),
    "guard_replies": gettext_noop("Replies before it is judged"),
    "guard_thumbs": gettext_noop("Thumbs down"),
    "guard_errors": gettext_noop("Errors"),
    "guard_length": gettext_noop("Length"),
    "guard_refusals": gettext_noop("Refusals"),
    "guard_repetition": gettext_noop("Repetition"),
}

PARTS = (
    (gettext_noop("Who says yes"), ("second_approver", "auto_approve", "margin")),
    (gettext_noop("Trials"), ("trial_required", "trial_share")),
    (gettext_noop("The guard of what is live"), tuple(name for name in TITLES if name.startswith("guard"))),
)


GUARDS = {
    "off": pgettext_lazy("when a limit is passed", "off"),
    "tell": pgettext_lazy("when a limit is passed", "tell"),
    "roll back": pgettext_lazy("when a limit is passed", "roll back"),
}
"""What the guard does, in words."""


@dataclass(frozen=True)
class Entry:
    """One field of the form."""

    name: str
    title: str
    doc: str
    value: Any
    choices: tuple[tuple[str, str], ...] = ()
    """(value, in words)."""

    @property
    def is_switch(self) -> bool:
        return isinstance(self.value, bool)


def entries(values: dict[str, Any]) -> list[tuple[str, list[Entry]]]:
    """The form by its parts; what `values` lacks stands at its default."""
    fields = Policy.model_fields

    def entry(name: str) -> Entry:
        known = get_args(fields[name].annotation) if name == "guard" else ()
        choices = tuple((value, str(GUARDS[value])) for value in known)
        value = values.get(name, fields[name].default)
        return Entry(name, _(TITLES[name]), words(fields[name].description), value, choices)

    return [(_(title), [entry(name) for name in names]) for title, names in PARTS]


def chosen(form: QueryDict) -> dict[str, Any]:
    """What the form says, by the names of the policy's fields; an empty number is none."""
    found: dict[str, Any] = {}
    for name, field in Policy.model_fields.items():
        if field.annotation is bool:
            found[name] = name in form
        else:
            said = form.get(name, "").strip()
            found[name] = said.replace(",", ".") if said else None
    return found


@needs("policies")
@require_http_methods(["GET", "HEAD", "POST"])
def policy(request: HttpRequest, name: str) -> HttpResponse:
    """The policy of one line. By htmx, only what the form would have happen, in words."""
    line = get_object_or_404(Line, name=name)
    fields, fault, status = dict(line.policy), "", 200
    if request.method == "POST":
        fields = chosen(request.POST)
        if is_fragment(request):
            return render(request, "training/_policy_says.html", said(fields))
        reason, seen = request.POST.get("reason", "")[:500], request.POST.get("seen")
        try:
            rulings.give(line, fields, by=person(request), reason=reason, seen=seen)
        except TalkbackError as failure:
            fault, status = str(failure), 422
        else:
            said_yes = _("That holds in “%(line)s” from now on.") % {"line": line}
            messages.success(request, said_yes, extra_tags="good")
            return redirect("console:policy", name=name)
    context = {
        "line": line,
        "parts": entries(fields),
        "fault": fault,
        "mark": rulings.mark(line),
        "history": [
            (ruling, in_words(ruling.before["policy"]), in_words(ruling.after["policy"]))
            for ruling in rulings.history(line)[:CHANGES]
        ],
    }
    return render(request, "training/policy.html", context | said(fields), status=status)


def said(fields: dict[str, Any]) -> dict[str, Any]:
    """What these fields would have happen, or why they cannot be."""
    try:
        return {"sentences": line_policies.sentences(line_policies.read(fields)), "invalid": ""}
    except PolicyInvalid as failure:
        return {"sentences": [], "invalid": str(failure)}


def in_words(fields: dict[str, Any]) -> str:
    """
    >>> in_words({}), in_words({"second_approver": True, "margin": 0.2})
    ('one person says yes', 'two people say yes: yes, room to spare: 0.2')
    """
    if not fields:
        return _("one person says yes")
    shown = {True: _("yes"), False: _("no"), None: _("not looked at")} | GUARDS
    return ", ".join(
        f"{_(TITLES.get(name, name)).lower()}: {shown.get(value, value) if fits(value) else value}"
        for name, value in fields.items()
    )


def fits(value: object) -> bool:
    """Whether a value is said in words: numbers are not, and 1 is no yes."""
    return value is None or isinstance(value, (bool, str))


urls = [path("policy/<slug:name>/", policy, name="policy")]

"""The gate's findings in plain words: what changed, for who decides, and what each check and figure means. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from django.utils.functional import Promise
from django.utils.translation import gettext, ngettext
from django.utils.translation import gettext_lazy as _

from core import statistics
from gate import reply_figures
from gate.general_pack import Outcome

NATS = _(
    "Nats per token say how likely a model finds a text: 0 would be certain, and each nat less makes every token about "
    "2.7 times less likely."
)

SAME_LENGTH = 0.1
"""A change of length below this share is none."""

FRACTIONS = (
    (0.28, _("a quarter as long")),
    (0.42, _("a third as long")),
    (0.58, _("half as long")),
)
"""Up to which share of the length before a reply is called so; from 0.2 on."""

SAME = _("about as long")

SAME_FLUENCY, LITTLE = 0.1, 0.4
"""Nats per token: too little to notice, and what a good recipe costs in all (training.config.Gate.fluency)."""


@dataclass(frozen=True)
class Meaning:
    """What a check asks, or a figure says, in words."""

    title: str | Promise
    asks: str | Promise
    failed: str | Promise = ""
    """What is so where the check failed."""


CHECKS: Mapping[str, Meaning] = {
    "applied": Meaning(
        _("The weights are served"),
        _("The engine answers a probe as the learner did."),
        _("The engine does not answer with these weights."),
    ),
    "new": Meaning(
        _("The weights are new"),
        _("The engine answers the probe otherwise than with the weights it came from."),
        _("It answers as the weights it came from: nothing was learned."),
    ),
    "answered": Meaning(
        _("Every question was answered"),
        _("The engine took each question of the exam."),
        _("The engine refused a question of the exam."),
    ),
    "not empty": Meaning(
        _("Replies have words"), _("The share of replies without a word."), _("Some of its replies have no words.")
    ),
    "length": Meaning(
        _("Length"), _("How long its replies are, as a share of live ones."), _("Replies have a wrong length.")
    ),
    "repetition": Meaning(
        _("Repetition"),
        _("The share of four-token runs that a reply has said before."),
        _("Replies repeat themselves."),
    ),
    "variety": Meaning(
        _("Variety"),
        _("The share of different replies to different questions."),
        _("Different questions get the same reply."),
    ),
    "fluency": Meaning(
        _("Fluency"),
        _("How likely the original model finds its replies; nearer to 0 reads more smoothly."),
        _("Reads much less smoothly."),
    ),
    "preference": Meaning(
        _("Follows what was asked"),
        _("How much more its replies look as the lessons asked, than the live ones do; above 0 is more."),
        _("It follows what people asked for less than before."),
    ),
    "rated replies": Meaning(
        _("Likes what people liked"),
        _("How much likelier it finds what people rated up or wrote themselves; above 0 is more."),
        _("It finds what people liked less likely than before."),
    ),
    "general pack": Meaning(
        _("General questions"),
        _("The share of general questions whose right answer it finds likelier than the wrong ones."),
        _("It answers fewer general questions right."),
    ),
    "general text": Meaning(
        _("General knowledge"),
        _("How much likelier than before it finds right answers and ordinary text; above 0 is more."),
        _("It finds right answers less likely than before."),
    ),
    "kept corrections": Meaning(
        _("Corrections that never trained"),
        _("How it does where people's corrections were kept for the exam; above 0 is better than live."),
        _("It does worse where people's corrections never trained."),
    ),
    "lesson shown": Meaning(
        _("The lesson shows elsewhere"),
        _("Whether what it was taught shows on kept corrections of the same kind; above 0 it does, for certain."),
        _("What it was taught does not show on questions that it never saw."),
    ),
    "tasks solved": Meaning(
        _("Agents solve as many tasks"),
        _(
            "The share of held-out tasks that agents solve, beside live; 0 or more is possible unless it fell for "
            "certain."
        ),
        _("Agents solve fewer held-out tasks."),
    ),
    "attempts cut off": Meaning(
        _("Attempts come to their end"),
        _("By how much more of its attempts are cut off before their end, at least."),
        _("More attempts are cut off before their end."),
    ),
    "valid calls": Meaning(
        _("Calls are valid"),
        _("By how much more of its replies call no tool as it is to be called, at least."),
        _("More replies call no tool as it is to be called."),
    ),
    "gap": Meaning(
        _("Learned by heart"),
        _("How much further it moved on the replies that it trained on than on others."),
        _("It learned its lessons by heart."),
    ),
    "copied": Meaning(
        _("Copied"),
        _("The share of its replies that stands word for word in what it trained on."),
        _("It copies what it was trained on."),
    ),
    "entropy": Meaning(
        _("Still chooses its words"),
        _("How undecided it is about the next word; near 0 it always says the same."),
        _("It has stopped choosing: it is sure of every word."),
    ),
    "kl to base": Meaning(
        _("Distance from the original model"),
        _("How far its replies are from what the original model would say; 0 is the original."),
        _("It has moved too far from the original model."),
    ),
}
"""By the check's name, in the exam's order. `variety` and `length` are figures of the overfitting meter as well."""

REPLY_FIGURES: Mapping[str, str | Promise] = {
    "tokens": _("length in tokens"),
    "repeated": _("share that it had said before, in runs of four tokens"),
    "fluency": _("how smoothly it reads with the lessons in the prompt; nearer to 0 is smoother"),
    "plain": _("how smoothly it reads as asked; nearer to 0 is smoother"),
    "pull": _("how much it looks as the lessons asked; above 0 it does"),
    "copied": _("share that stands in what was trained on"),
    "own": _("how sure it was of its own words; nearer to 0 is surer"),
    "on_live": _("how likely it finds the live reply; nearer to 0 is likelier"),
}
"""What each number beside a reply of the exam means, by its name without its side."""


@dataclass(frozen=True)
class Line:
    """One sentence of the verdict, and how it is to be taken: good, same, worse (within its limit) or bad."""

    text: str
    tone: str


@dataclass(frozen=True)
class Verdict:
    """What changed, in a few sentences, and how many checks it passed."""

    lines: tuple[Line, ...]
    passed: int
    asked: int

    @property
    def failed(self) -> int:
        return self.asked - self.passed

    @property
    def is_passed(self) -> bool:
        return self.passed == self.asked

    @property
    def sentence(self) -> str:
        """All of it as one text."""
        return " ".join(line.text for line in self.lines)


def word_verdict(
    checks: Sequence[Mapping[str, Any]], pairs: Sequence[Mapping[str, Any]], general: Outcome | None
) -> Verdict:
    """What changed, from the exam's checks, its replies side by side and the general pack: what failed, then length,
    knowledge, fluency, whether the lesson shows, and whether agents solve as many tasks."""
    failed = [check["name"] for check in checks if not check["passed"]]
    found = {
        "length": _word_length(pairs),
        "general pack": _word_general(general),
        "fluency": _word_fluency(pairs),
        "lesson shown": _word_lesson(checks),
        "tasks solved": _word_agents(checks),
    }
    lines = [Line(one.text, "bad" if name in failed else one.tone) for name, one in found.items() if one is not None]
    lines += [Line(str(explain_check(name).failed), "bad") for name in failed if found.get(name) is None]
    lines.sort(key=lambda line: line.tone != "bad")  # what failed comes first
    return Verdict(tuple(dict.fromkeys(lines)), len(checks) - len(failed), len(checks))


def explain_check(name: str) -> Meaning:
    """What a check of this name asks; of one that an earlier version had, its name.

    >>> explain_check("old_check").failed
    'Old check: failed.'
    """
    said = name.replace("_", " ").capitalize()
    return CHECKS.get(name) or Meaning(said, "", gettext("%(check)s: failed.") % {"check": said})


def explain_figure(name: str) -> str:
    """What a number beside a reply means.

    >>> explain_figure("tokens"), explain_figure("of_old")
    ('length in tokens', 'of old')
    """
    return str(REPLY_FIGURES.get(name, name.replace("_", " ")))


def compare_lengths(before: float, after: float) -> str:
    """Two lengths in words: what the second is to the first.

    >>> compare_lengths(85, 44), compare_lengths(85, 80), compare_lengths(100, 210), compare_lengths(100, 8)
    ('half as long', 'about as long', 'twice as long', 'less than a tenth as long')
    """
    if before <= 0 or abs(after - before) <= SAME_LENGTH * before:
        return str(SAME)
    share = after / before
    if share > 1:
        if share >= 2.5:
            return gettext("%(number)s times as long") % {"number": f"{share:.0f}"}
        return gettext("longer") if share < 1.75 else gettext("twice as long")
    if share < 0.2:
        return gettext("less than a tenth as long") if share < 0.1 else gettext("less than a fifth as long")
    return next((str(words) for most, words in FRACTIONS if share <= most), gettext("shorter"))


def _word_length(pairs: Sequence[Mapping[str, Any]]) -> Line | None:
    if not pairs:
        return None
    live, candidate = (
        statistics.mean([reply_figures.words(str(pair.get(side, ""))) for pair in pairs]) for side in SIDES
    )
    change = compare_lengths(live, candidate)
    said = gettext("Replies are %(change)s: %(now)s words, were %(before)s.")
    if change == SAME:
        said = gettext("Replies are about as long as before: %(now)s words, were %(before)s.")
    return Line(said % {"change": change, "now": f"{candidate:.0f}", "before": f"{live:.0f}"}, "same")


SIDES = ("live", "candidate")


def _word_general(general: Outcome | None) -> Line | None:
    if general is None:
        return None
    could = round(general.live * general.asked)
    kept, won = could - len(general.lost), general.won
    if not could:
        return None
    if kept == could:
        said = ngettext(
            "All %(could)s general question still right.", "All %(could)s general questions still right.", could
        )
        if won:
            said = ngettext(
                "All %(could)s general question still right, and %(won)s more.",
                "All %(could)s general questions still right, and %(won)s more.",
                could,
            )
    else:
        said = ngettext(
            "%(kept)s of %(could)s general question still right.",
            "%(kept)s of %(could)s general questions still right.",
            could,
        )
        if won:
            said = ngettext(
                "%(kept)s of %(could)s general question still right, and %(won)s more.",
                "%(kept)s of %(could)s general questions still right, and %(won)s more.",
                could,
            )
    return Line(said % {"kept": kept, "could": could, "won": won}, "good" if kept == could else "worse")


def _word_fluency(pairs: Sequence[Mapping[str, Any]]) -> Line | None:
    both = [
        (pair["live_fluency"], pair["candidate_fluency"])
        for pair in pairs
        if pair.get("live_fluency") is not None and pair.get("candidate_fluency") is not None
    ]
    if not both:
        return None
    change = statistics.mean([after - before for before, after in both])
    if abs(change) <= SAME_FLUENCY:
        return Line(gettext("Reads as smoothly as before."), "good")
    if change > 0:
        return Line(gettext("Reads more smoothly."), "good")
    return Line(
        gettext("Reads a little less smoothly.") if change >= -LITTLE else gettext("Reads less smoothly."), "worse"
    )


def _word_agents(checks: Sequence[Mapping[str, Any]]) -> Line | None:
    found = [check for check in checks if check["name"] == "tasks solved"]
    if not found:
        return None
    if not all(check["passed"] for check in found):
        return Line(str(CHECKS["tasks solved"].failed), "bad")
    if any(check["value"] == check["limit"] for check in found):
        return Line(gettext("Whether agents solve as many tasks is not known: too little was played."), "worse")
    return Line(gettext("Agents solve no fewer held-out tasks."), "good")


def _word_lesson(checks: Sequence[Mapping[str, Any]]) -> Line | None:
    shown = next((check for check in checks if check["name"] == "lesson shown"), None)
    if shown is None:
        return None
    said = gettext("What it was taught shows on questions that it never saw.")
    return Line(said, "good") if shown["passed"] else Line(str(CHECKS["lesson shown"].failed), "bad")

"""The gate's findings in plain words: what changed, for who decides, and what each check and figure means. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from core import statistics
from gate import reply_figures
from gate.general_pack import Outcome

NATS = (
    "Nats per token say how likely a model finds a text: 0 would be certain, and each nat less makes every token about "
    "2.7 times less likely."
)

SAME_LENGTH = 0.1
"""A change of length below this share is none."""

FRACTIONS = ((0.28, "a quarter as long"), (0.42, "a third as long"), (0.58, "half as long"))
"""Up to which share of the length before a reply is called so; from 0.2 on."""

SAME_FLUENCY, LITTLE = 0.1, 0.4
"""Nats per token: too little to notice, and what a good recipe costs in all (training.config.Gate.fluency)."""


@dataclass(frozen=True)
class Meaning:
    """What a check asks, or a figure says, in words."""

    title: str
    asks: str
    failed: str = ""
    """What is so where the check failed."""


CHECKS: Mapping[str, Meaning] = {
    "applied": Meaning(
        "The weights are served",
        "The engine answers a probe as the learner did.",
        "The engine does not answer with these weights.",
    ),
    "new": Meaning(
        "The weights are new",
        "The engine answers the probe otherwise than with the weights it came from.",
        "It answers as the weights it came from: nothing was learned.",
    ),
    "answered": Meaning(
        "Every question was answered",
        "The engine took each question of the exam.",
        "The engine refused a question of the exam.",
    ),
    "not empty": Meaning(
        "Replies have words", "The share of replies without a word.", "Some of its replies have no words."
    ),
    "length": Meaning("Length", "How long its replies are, as a share of live ones.", "Replies have a wrong length."),
    "repetition": Meaning(
        "Repetition",
        "The share of four-token runs that a reply has said before.",
        "Replies repeat themselves.",
    ),
    "variety": Meaning(
        "Variety",
        "The share of different replies to different questions.",
        "Different questions get the same reply.",
    ),
    "fluency": Meaning(
        "Fluency",
        "How likely the original model finds its replies; nearer to 0 reads more smoothly.",
        "Reads much less smoothly.",
    ),
    "preference": Meaning(
        "Follows what was asked",
        "How much more its replies look as the lessons asked, than the live ones do; above 0 is more.",
        "It follows what people asked for less than before.",
    ),
    "rated replies": Meaning(
        "Likes what people liked",
        "How much likelier it finds what people rated up or wrote themselves; above 0 is more.",
        "It finds what people liked less likely than before.",
    ),
    "general pack": Meaning(
        "General questions",
        "The share of general questions whose right answer it finds likelier than the wrong ones.",
        "It answers fewer general questions right.",
    ),
    "general text": Meaning(
        "General knowledge",
        "How much likelier than before it finds right answers and ordinary text; above 0 is more.",
        "It finds right answers less likely than before.",
    ),
    "kept corrections": Meaning(
        "Corrections that never trained",
        "How it does where people's corrections were kept for the exam; above 0 is better than live.",
        "It does worse where people's corrections never trained.",
    ),
    "lesson shown": Meaning(
        "The lesson shows elsewhere",
        "Whether what it was taught shows on kept corrections of the same kind; above 0 it does, for certain.",
        "What it was taught does not show on questions that it never saw.",
    ),
    "tasks solved": Meaning(
        "Agents solve as many tasks",
        "The share of held-out tasks that agents solve, beside live; 0 or more is possible unless it fell for certain.",
        "Agents solve fewer held-out tasks.",
    ),
    "attempts cut off": Meaning(
        "Attempts come to their end",
        "By how much more of its attempts are cut off before their end, at least.",
        "More attempts are cut off before their end.",
    ),
    "valid calls": Meaning(
        "Calls are valid",
        "By how much more of its replies call no tool as it is to be called, at least.",
        "More replies call no tool as it is to be called.",
    ),
    "gap": Meaning(
        "Learned by heart",
        "How much further it moved on the replies that it trained on than on others.",
        "It learned its lessons by heart.",
    ),
    "copied": Meaning(
        "Copied",
        "The share of its replies that stands word for word in what it trained on.",
        "It copies what it was trained on.",
    ),
    "entropy": Meaning(
        "Still chooses its words",
        "How undecided it is about the next word; near 0 it always says the same.",
        "It has stopped choosing: it is sure of every word.",
    ),
    "kl to base": Meaning(
        "Distance from the original model",
        "How far its replies are from what the original model would say; 0 is the original.",
        "It has moved too far from the original model.",
    ),
}
"""By the check's name, in the exam's order. `variety` and `length` are figures of the overfitting meter as well."""

REPLY_FIGURES: Mapping[str, str] = {
    "tokens": "length in tokens",
    "repeated": "share that it had said before, in runs of four tokens",
    "fluency": "how smoothly it reads with the lessons in the prompt; nearer to 0 is smoother",
    "plain": "how smoothly it reads as asked; nearer to 0 is smoother",
    "pull": "how much it looks as the lessons asked; above 0 it does",
    "copied": "share that stands in what was trained on",
    "own": "how sure it was of its own words; nearer to 0 is surer",
    "on_live": "how likely it finds the live reply; nearer to 0 is likelier",
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
    lines += [Line(explain_check(name).failed, "bad") for name in failed if found.get(name) is None]
    lines.sort(key=lambda line: line.tone != "bad")  # what failed comes first
    return Verdict(tuple(dict.fromkeys(lines)), len(checks) - len(failed), len(checks))


def explain_check(name: str) -> Meaning:
    """What a check of this name asks; of one that an earlier version had, its name.

    >>> explain_check("old_check").failed
    'Old check: failed.'
    """
    said = name.replace("_", " ").capitalize()
    return CHECKS.get(name) or Meaning(said, "", f"{said}: failed.")


def explain_figure(name: str) -> str:
    """What a number beside a reply means.

    >>> explain_figure("tokens"), explain_figure("of_old")
    ('length in tokens', 'of old')
    """
    return REPLY_FIGURES.get(name, name.replace("_", " "))


def compare_lengths(before: float, after: float) -> str:
    """Two lengths in words: what the second is to the first.

    >>> compare_lengths(85, 44), compare_lengths(85, 80), compare_lengths(100, 210), compare_lengths(100, 8)
    ('half as long', 'about as long', 'twice as long', 'less than a tenth as long')
    """
    if before <= 0 or abs(after - before) <= SAME_LENGTH * before:
        return "about as long"
    share = after / before
    if share > 1:
        return "longer" if share < 1.75 else "twice as long" if share < 2.5 else f"{share:.0f} times as long"
    if share < 0.2:
        return "less than a tenth as long" if share < 0.1 else "less than a fifth as long"
    return next((words for most, words in FRACTIONS if share <= most), "shorter")


def _word_length(pairs: Sequence[Mapping[str, Any]]) -> Line | None:
    if not pairs:
        return None
    live, candidate = (
        statistics.mean([reply_figures.words(str(pair.get(side, ""))) for pair in pairs]) for side in SIDES
    )
    change = compare_lengths(live, candidate)
    beside = " as before" if change == "about as long" else ""
    return Line(f"Replies are {change}{beside}: {candidate:.0f} words, were {live:.0f}.", "same")


SIDES = ("live", "candidate")


def _word_general(general: Outcome | None) -> Line | None:
    if general is None:
        return None
    could = round(general.live * general.asked)
    kept = could - len(general.lost)
    if not could:
        return None
    said = f"All {could} general questions still right." if kept == could else ""
    said = said or f"{kept} of {could} general questions still right."
    if general.won:
        said = f"{said[:-1]}, and {general.won} more."
    return Line(said, "good" if kept == could else "worse")


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
        return Line("Reads as smoothly as before.", "good")
    if change > 0:
        return Line("Reads more smoothly.", "good")
    return Line("Reads a little less smoothly." if change >= -LITTLE else "Reads less smoothly.", "worse")


def _word_agents(checks: Sequence[Mapping[str, Any]]) -> Line | None:
    found = [check for check in checks if check["name"] == "tasks solved"]
    if not found:
        return None
    if not all(check["passed"] for check in found):
        return Line(CHECKS["tasks solved"].failed, "bad")
    if any(check["value"] == check["limit"] for check in found):
        return Line("Whether agents solve as many tasks is not known: too little was played.", "worse")
    return Line("Agents solve no fewer held-out tasks.", "good")


def _word_lesson(checks: Sequence[Mapping[str, Any]]) -> Line | None:
    shown = next((check for check in checks if check["name"] == "lesson shown"), None)
    if shown is None:
        return None
    said = "What it was taught shows on questions that it never saw."
    return Line(said, "good") if shown["passed"] else Line(CHECKS["lesson shown"].failed, "bad")

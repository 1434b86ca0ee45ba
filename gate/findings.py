"""What the exam asks, answered in a number, its limit and a sentence. Pure: the caller brings the rows.

Are the replies still replies? Do they please no less? Can it still do what it could? Does it show elsewhere?
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from django.utils.translation import gettext_noop

from core import statistics
from core.statistics import Interval
from gate import general_pack, personal_part, reply_figures
from training.config import Gate

WORST = 5
"""How many of the examples that made a check fail are named."""

LESSON = "lesson shown"

EMPTY = 0.1
"""Most rise, beside live's, of the share of replies without a word."""

REPETITION = 0.15
"""Most rise, beside live's, of the share of repeated 4-grams."""

PREFERENCE = 0.03
"""Most fall of the hints' pull on the replies beyond the noise of so few prompts, nats a token."""

RATED = 0.02
"""Most fall of the log-prob of what people rated up, and rise of what they rated down, beyond the noise."""

PACK_NATS = 0.5
"""Most fall of the mean log-prob a token of the pack's right answers and texts, beyond the noise."""

CERTAINTY = 2.0
"""Standard errors that count as noise: twelve sampled replies differ by luck, and a person waited for this."""


SAYS = {
    "applied differs": gettext_noop("The engine's log-probs of the probe are %(change)s from those of %(of)s."),
    "refused": gettext_noop("The engine refused a question of the exam:"),
    "not empty": gettext_noop("%(now)s of its replies have no word in them (live %(live)s)."),
    "length": gettext_noop("Its replies are %(times)s times as long as live's; %(low)s to %(high)s is fine."),
    "repetition": gettext_noop("%(now)s of its four-token runs repeat earlier ones (live %(live)s)."),
    "variety": gettext_noop("%(now)s of its replies to different prompts differ (at least %(limit)s)."),
    "fluency": gettext_noop("The base gives its replies %(now)s nats per token (live %(live)s, limit %(limit)s)."),
    "preference": gettext_noop(
        "The hints of its run pull on its replies %(change)s nats per token more than on live's (at least %(limit)s)."
    ),
    "rated replies": gettext_noop(
        "What people rated or wrote moves %(change)s nats per token the wanted way (at least %(limit)s)."
    ),
    "general pack": gettext_noop(
        "It answers %(now)s of %(asked)s general questions rightly (live %(live)s, at least %(limit)s): %(lost)s lost, "
        "%(won)s won."
    ),
    "general text": gettext_noop(
        "What is right in the general pack is %(change)s nats per token likelier than to live (at least %(limit)s)."
    ),
    "kept corrections, too few": gettext_noop(
        "Not enough to know: %(number)s of the %(enough)s kept corrections that it takes. A share of what people "
        "correct is kept by itself; each correction brings the next one nearer."
    ),
    "kept corrections": gettext_noop(
        "On %(number)s corrections that never trained it does %(mean)s nats per token better than live (95 %% between "
        "%(low)s and %(high)s); it fails when all of that is below %(limit)s."
    ),
    "kept corrections, of one": gettext_noop(
        "On %(number)s one person's corrections that never trained it does %(mean)s nats per token better than live "
        "(95 %% between %(low)s and %(high)s); it fails when all of that is below %(limit)s."
    ),
    "worse off": gettext_noop("Worse off: %(number)s of %(all)s people."),
    "taught": gettext_noop(
        "%(number)s of them are of a kind that it was taught: from %(enough)s on it has to do better than live there."
    ),
    "lesson won": gettext_noop(
        "On %(number)s kept corrections of a kind that it was taught it does %(mean)s nats per token better than live "
        "(95 %% between %(low)s and %(high)s; all of it has to be above %(limit)s)."
    ),
    "lesson lost": gettext_noop(
        "On %(number)s kept corrections of a kind that it was taught it does %(mean)s nats per token better than live "
        "(95 %% between %(low)s and %(high)s; all of it has to be above %(limit)s): what it learned does not show "
        "there. More lessons of the kind may make it show."
    ),
    "lesson held": gettext_noop(
        "Live has the lesson already (%(mean)s over the base, for certain), so it is enough to keep %(share)s of that: "
        "it is %(kept)s above it (between %(low)s and %(high)s; all of it has to be above 0)."
    ),
}
"""What is found, in sentences. Rows keep them in English; pages say them in their reader's language
(webapp.serving.retold)."""


@dataclass(frozen=True)
class Check:
    """One question of the exam, answered."""

    name: str
    passed: bool
    value: float
    limit: float
    sentence: str
    where: str = ""
    """Where its examples are shown: pairs | pack | own | meter | agents; empty: it has none."""
    worst: tuple[str, ...] = ()
    """Ids of the examples that made it fail, the worst first; of a check that passed, none."""


def collapsed(pairs: Sequence[dict[str, Any]], limits: Gate) -> list[Check]:
    """Whether the candidate's replies are still replies, each figure against live's."""
    live, candidate = _side(pairs, "live"), _side(pairs, "candidate")

    empty, empty_before = _emptiness(candidate["text"]), _emptiness(live["text"])
    ratio = statistics.mean(candidate["tokens"]) / max(1.0, statistics.mean(live["tokens"]))
    again, again_before = statistics.mean(candidate["repeated"]), statistics.mean(live["repeated"])
    variety = reply_figures.variety(candidate["text"])
    checks = [
        _shown(
            pairs,
            lambda pair: -float(reply_figures.is_empty(pair["candidate"])),
            "not empty",
            empty <= empty_before + EMPTY,
            empty,
            empty_before + EMPTY,
            SAYS["not empty"] % {"now": f"{empty:.0%}", "live": f"{empty_before:.0%}"},
        ),
        _shown(
            pairs,
            lambda pair: -abs(math.log((pair["candidate_tokens"] + 1) / (pair["live_tokens"] + 1))),
            "length",
            limits.shortest <= ratio <= limits.longest,
            ratio,
            limits.shortest if ratio < 1 else limits.longest,
            SAYS["length"] % {"times": f"{ratio:.2f}", "low": f"{limits.shortest:g}", "high": f"{limits.longest:g}"},
        ),
        _shown(
            pairs,
            lambda pair: pair["live_repeated"] - pair["candidate_repeated"],
            "repetition",
            again <= again_before + REPETITION,
            again,
            again_before + REPETITION,
            SAYS["repetition"] % {"now": f"{again:.0%}", "live": f"{again_before:.0%}"},
        ),
        _shown(
            pairs,
            lambda pair: -candidate["text"].count(pair["candidate"]),
            "variety",
            variety >= min(limits.variety, reply_figures.variety(live["text"])),
            variety,
            min(limits.variety, reply_figures.variety(live["text"])),
            SAYS["variety"] % {"now": f"{variety:.0%}", "limit": f"{limits.variety:.0%}"},
        ),
    ]
    if candidate["fluency"] and live["fluency"]:
        fluency, before = statistics.mean(candidate["fluency"]), statistics.mean(live["fluency"])
        limit = max(before - limits.fluency, min(limits.worst_fluency, before))
        checks.append(
            _shown(
                [pair for pair in pairs if pair["candidate_fluency"] is not None],
                lambda pair: pair["candidate_fluency"],
                "fluency",
                fluency >= limit,
                fluency,
                limit,
                SAYS["fluency"] % {"now": f"{fluency:.2f}", "live": f"{before:.2f}", "limit": f"{limit:.2f}"},
            )
        )
    return checks


def preferred(pairs: Sequence[dict[str, Any]], wishes: Sequence[str]) -> list[Check]:
    """Whether the replies follow the run's own hints no less than live's do, as the base reads them.

    The pull of a hint on a reply is log p_base(reply | prompt + hint) − log p_base(reply | prompt), a token.
    """
    both = [pair for pair in pairs if pair["live_pull"] is not None and pair["candidate_pull"] is not None]
    if not wishes or not both:
        return []
    changes = [pair["candidate_pull"] - pair["live_pull"] for pair in both]
    check = no_worse("preference", changes, PREFERENCE)
    worst = sorted(both, key=lambda pair: pair["candidate_pull"] - pair["live_pull"])[:WORST]
    return [replace(check, where="pairs", worst=() if check.passed else tuple(pair["id"] for pair in worst))]


def kept_up(rows: Sequence[general_pack.Row], limits: Gate) -> list[Check]:
    """Whether the general pack is answered rightly as often as before, and about as surely."""
    found = general_pack.outcome(rows)
    if found is None:
        return []
    questions = [row for row in rows if row.live.wrong]
    turned = [float(row.is_won) - float(row.is_lost) for row in questions]
    share = found.candidate
    limit = found.live - limits.pack_share - CERTAINTY * statistics.standard_error(turned)
    said = SAYS["general pack"] % {
        "now": f"{share:.0%}",
        "asked": found.asked,
        "live": f"{found.live:.0%}",
        "limit": f"{limit:.0%}",
        "lost": len(found.lost),
        "won": found.won,
    }
    lowest = -PACK_NATS - CERTAINTY * statistics.standard_error([row.candidate.right - row.live.right for row in rows])
    nats = SAYS["general text"] % {"change": f"{found.nats:+.2f}", "limit": f"{lowest:.2f}"}
    # A share of few items comes in steps: rounding is not to decide.
    held, sure = share >= limit - 1e-9, found.nats >= lowest
    return [
        Check("general pack", held, share, limit, said, "pack", () if held else found.lost[:WORST]),
        Check("general text", sure, found.nats, lowest, nats, "pack"),
    ]


def pleased(rows: Sequence[personal_part.Row], limits: Gate) -> list[Check]:
    """Whether people's kept corrections are heeded no less than by live, beyond luck: over all, and for each person.

    Where there are too few to know it passes, and says so.
    """
    found = personal_part.outcome(rows)
    number = found.all.number if found.all is not None else 0
    if found.all is None or not found.is_known(found.all):
        said = SAYS["kept corrections, too few"] % {"number": number, "enough": personal_part.ENOUGH}
        return [Check("kept corrections", True, found.all.mean if found.all else 0.0, -personal_part.FALL, said, "own")]
    worse = found.worse_off()
    shown = found.people[worse[0]] if worse and not found.is_worse(found.all) else found.all
    sentence = SAYS["kept corrections" if shown is found.all else "kept corrections, of one"]
    passed = not worse and not found.is_worse(found.all)
    said = sentence % (_figures(shown) | {"limit": f"{-personal_part.FALL:g}"})
    if worse:
        said += " " + SAYS["worse off"] % {"number": len(worse), "all": len(found.people)}
    if (asked := sum(row.taught and row.change is not None for row in rows)) < personal_part.ENOUGH:
        said += " " + SAYS["taught"] % {"number": asked, "enough": personal_part.ENOUGH}
    turns = () if passed else _least(rows)
    return [
        Check("kept corrections", passed, shown.high, -personal_part.FALL, said, "own", turns),
        *learned(rows, limits),
    ]


def learned(rows: Sequence[personal_part.Row], limits: Gate) -> list[Check]:
    """Whether what was taught shows on kept corrections of that kind: better than live for certain, or, where live has
    the lesson already, most of its gain kept for certain. Nothing is asked while too few of them are known: what was
    never taught need not be won.
    """
    taught = [row for row in rows if row.taught]
    found = personal_part.lesson(rows)
    if found is None:
        return []
    is_won = found.is_won(limits.own_gain)
    is_lost = not is_won and found.held.low <= 0
    said = SAYS["lesson lost" if is_lost else "lesson won"]
    said %= _figures(found.won) | {"limit": f"{limits.own_gain:g}"}
    if is_won or is_lost:
        return [
            Check(LESSON, is_won, found.won.low, limits.own_gain, said, "own", () if is_won else _least(taught)),
        ]
    kept = _figures(found.kept)
    said += " " + SAYS["lesson held"] % {
        "mean": f"{found.held.mean:+.3f}",
        "share": f"{personal_part.KEEPS:.0%}",
        "kept": kept["mean"],
        "low": kept["low"],
        "high": kept["high"],
    }
    return [Check(LESSON, found.is_kept, found.kept.low, 0.0, said, "own", () if found.is_kept else _least(taught))]


def _figures(found: Interval) -> dict[str, str]:
    """An interval's figures as the sentences have them."""
    edges = {"mean": found.mean, "low": found.low, "high": found.high}
    return {name: f"{value:+.3f}" for name, value in edges.items()} | {"number": str(found.number)}


def no_worse(name: str, changes: Sequence[float], margin: float) -> Check:
    """Whether the mean change is no fall beyond the margin and the noise of the changes themselves."""
    change, limit = statistics.mean(changes), -margin - CERTAINTY * statistics.standard_error(changes)
    said = SAYS[name] % {"change": f"{change:+.3f}", "limit": f"{limit:.3f}"}
    return Check(name, change >= limit, change, limit, said)


def _shown(
    pairs: Sequence[dict[str, Any]],
    key: Callable[[dict[str, Any]], float],
    name: str,
    passed: bool,
    value: float,
    limit: float,
    sentence: str,
) -> Check:
    """A check on the pairs, with those that made it fail: the smallest by `key`, and nothing where it passed."""
    worst = () if passed else tuple(pair["id"] for pair in sorted(pairs, key=key)[:WORST])
    return Check(name, passed, value, limit, sentence, "pairs", worst)


def _emptiness(texts: Sequence[str]) -> float:
    return statistics.share([reply_figures.is_empty(text) for text in texts])


def _side(pairs: Sequence[dict[str, Any]], side: str) -> dict[str, list[Any]]:
    return {
        "text": [pair[side] for pair in pairs],
        "tokens": [pair[f"{side}_tokens"] for pair in pairs],
        "repeated": [pair[f"{side}_repeated"] for pair in pairs],
        "fluency": [pair[f"{side}_fluency"] for pair in pairs if pair[f"{side}_fluency"] is not None],
    }


def _least(rows: Sequence[personal_part.Row]) -> tuple[str, ...]:
    """The kept corrections on which the candidate gained least, the worst first."""
    known = sorted((row for row in rows if row.change is not None), key=lambda row: row.change or 0.0)
    return tuple(row.turn for row in known[:WORST])

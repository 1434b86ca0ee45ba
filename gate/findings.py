"""What the exam asks, answered in a number, its limit and a sentence. Pure: the caller brings the rows.

Are the replies still replies? Do they please no less? Can it still do what it could? Does it show elsewhere?
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from core import statistics
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
            f"{empty:.0%} of its replies have no word in them (live {empty_before:.0%}).",
        ),
        _shown(
            pairs,
            lambda pair: -abs(math.log((pair["candidate_tokens"] + 1) / (pair["live_tokens"] + 1))),
            "length",
            limits.shortest <= ratio <= limits.longest,
            ratio,
            limits.shortest if ratio < 1 else limits.longest,
            f"Its replies are {ratio:.2f} times as long as live's; {limits.shortest:g} to {limits.longest:g} is fine.",
        ),
        _shown(
            pairs,
            lambda pair: pair["live_repeated"] - pair["candidate_repeated"],
            "repetition",
            again <= again_before + REPETITION,
            again,
            again_before + REPETITION,
            f"{again:.0%} of its four-token runs repeat earlier ones (live {again_before:.0%}).",
        ),
        _shown(
            pairs,
            lambda pair: -candidate["text"].count(pair["candidate"]),
            "variety",
            variety >= min(limits.variety, reply_figures.variety(live["text"])),
            variety,
            min(limits.variety, reply_figures.variety(live["text"])),
            f"{variety:.0%} of its replies to different prompts differ (at least {limits.variety:.0%}).",
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
                f"The base gives its replies {fluency:.2f} nats per token (live {before:.2f}, limit {limit:.2f}).",
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
    said = "The hints of its run pull on its replies {change:+.3f} nats per token more than on live's"
    check = no_worse("preference", changes, PREFERENCE, said)
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
    asked = f"{found.asked} general questions"
    said = f"It answers {share:.0%} of {asked} rightly (live {found.live:.0%}, at least {limit:.0%}): "
    said += f"{len(found.lost)} lost, {found.won} won."
    lowest = -PACK_NATS - CERTAINTY * statistics.standard_error([row.candidate.right - row.live.right for row in rows])
    nats = f"What is right in the general pack is {found.nats:+.2f} nats per token likelier than to live "
    nats += f"(at least {lowest:.2f})."
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
        said = (
            f"Not enough to know: {number} of the {personal_part.ENOUGH} kept corrections that it takes. A share of "
            f"what people correct is kept by itself; each correction brings the next one nearer."
        )
        return [Check("kept corrections", True, found.all.mean if found.all else 0.0, -personal_part.FALL, said, "own")]
    worse = found.worse_off()
    shown = found.people[worse[0]] if worse and not found.is_worse(found.all) else found.all
    whose = "one person's corrections" if shown is not found.all else "corrections"
    passed = not worse and not found.is_worse(found.all)
    said = (
        f"On {shown.number} {whose} that never trained it does {shown.mean:+.3f} nats per token better than live "
        f"(95 % between {shown.low:+.3f} and {shown.high:+.3f}); it fails when all of that is below "
        f"{-personal_part.FALL:g}."
    )
    if worse:
        said += f" Worse off: {len(worse)} of {len(found.people)} people."
    if (asked := sum(row.taught and row.change is not None for row in rows)) < personal_part.ENOUGH:
        said += (
            f" {asked} of them are of a kind that it was taught: from {personal_part.ENOUGH} on it has to do better "
            "than live there."
        )
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
    said = (
        f"On {found.won.number} kept corrections of a kind that it was taught it does {found.won.mean:+.3f} nats per "
        f"token better than live (95 % between {found.won.low:+.3f} and {found.won.high:+.3f}; all of it has to be "
        f"above {limits.own_gain:g})"
    )
    if is_won or found.held.low <= 0:
        said += "." if is_won else ": what it learned does not show there. More lessons of the kind may make it show."
        return [
            Check(LESSON, is_won, found.won.low, limits.own_gain, said, "own", () if is_won else _least(taught)),
        ]
    said += (
        f". Live has the lesson already ({found.held.mean:+.3f} over the base, for certain), so it is enough to keep "
        f"{personal_part.KEEPS:.0%} of that: it is {found.kept.mean:+.3f} above it (between {found.kept.low:+.3f} and "
        f"{found.kept.high:+.3f}; all of it has to be above 0)."
    )
    return [Check(LESSON, found.is_kept, found.kept.low, 0.0, said, "own", () if found.is_kept else _least(taught))]


def no_worse(name: str, changes: Sequence[float], margin: float, said: str) -> Check:
    """Whether the mean change is no fall beyond the margin and the noise of the changes themselves."""
    change, limit = statistics.mean(changes), -margin - CERTAINTY * statistics.standard_error(changes)
    return Check(name, change >= limit, change, limit, f"{said.format(change=change)} (at least {limit:.3f}).")


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

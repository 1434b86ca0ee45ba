"""What a run's rows say, as data: curves, tables, gains and costs. Pure; the page only shows it."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from statistics import mean
from typing import Any

from core import statistics
from core.statistics import Interval, Pair, Values
from lab.evidence.compared_arms import ARMS, SHOTS
from lab.evidence.measures import regressions
from lab.evidence.measures.scoring import BASE, OTHER, OWN, PACK, REFERENCE, scored
from lab.evidence.report import crossings, gains
from lab.evidence.report.gains import Look

Row = Mapping[str, Any]
Place = tuple[str, int]
"""An arm after so many updates."""

DEFAULT = "combined"
"""The arm whose recipe is the default: it is named in the headline whichever arm is ahead, since an arm picked for
being ahead was lucky too."""

MEASURES = {
    "style": "Style: the share of the person’s wishes that a first answer obeys",
    "content": "Content: topic × substance × fluency of a first answer",
    "product": "Product: style × content, answer by answer",
}
MIDDLE = 8
"""Updates after which arms are compared early, as the published table does."""

PUBLISHED = {
    "source": "arXiv:2603.10165, student setting, first answer to a new problem; no seeds, intervals or content check",
    "rows": [
        {"method": "binary", "style": {"0": 0.17, "8": 0.25, "16": 0.23}},
        {"method": "opd", "style": {"0": 0.17, "8": 0.25, "16": 0.72}},
        {"method": "combined", "style": {"0": 0.17, "8": 0.76, "16": 0.81}},
    ],
    "interactions": {"student": 36, "teacher": 24},
}

SAMPLES, WORST = 5, 2
"""Prompts that are shown: the first by a hash of their text, and those where most content was lost."""


class Findings:
    """Curves, tables, gains and costs of a run, and what of them is missing."""

    def __init__(
        self,
        plan: Mapping[str, Any],
        rows: Iterable[Row],
        rounds: Iterable[Row],
        said: Mapping[str, Sequence[str]] | None = None,
    ) -> None:
        """`plan` as Plan.as_json writes it; `rows` of probes, scored or not; `rounds` as the journal has them; `said`:
        all texts of the sessions of each "arm/seed"."""
        self.plan = plan
        self.rounds = [dict(row) for row in rounds]
        self.kinds: dict[str, str] = {arm["name"]: arm["kind"] for arm in plan["arms"]}
        self.marks: list[int] = list(plan["sizes"]["marks"])
        self.missing: list[str] = []
        every = scored(rows, said)
        self.seeds = self._finished(every)
        self._rows = [row for row in every if row["seed"] in self.seeds or (row["set"], row["arm"]) == (PACK, BASE)]
        self._by: dict[tuple[str, str, int], dict[Pair, dict[str, Any]]] = {}
        for row in [one for one in self._rows if one["set"] != REFERENCE]:
            place = (row["set"], row["arm"], row["update"])
            pair = Pair(row["seed"], str(row["task"]["id"]))
            if pair in self._by.setdefault(place, {}):
                raise ValueError(f"{place} has two rows for {tuple(pair)}")
            self._by[place][pair] = row
        self.places = self._whole()

    # What is there

    def _finished(self, rows: Sequence[Row]) -> list[int]:
        """The seeds that are furthest: an interval over a seed that is half asked would be of other prompts."""
        asked = Counter((row["seed"], row["arm"], row["update"]) for row in rows if row["set"] == OWN)
        wanted = self._wanted = self._prompts(asked.values())
        whole = Counter(seed for (seed, _, _), number in asked.items() if number >= wanted)
        best = max(whole.values(), default=0)
        seeds = sorted(seed for seed, number in whole.items() if number == best)
        left = [seed for seed in self.plan["seeds"] if seed not in seeds]
        if left:
            named = ", ".join(map(str, left))
            self.missing.append(f"Seed {named}: not as far as the others, so left out of all figures." if seeds else
                                f"Seed {named}: no probe is finished.")  # fmt: skip
        return seeds

    def _prompts(self, asked: Iterable[int]) -> int:
        """How many a probe asks: a person's own prompts may be fewer than the plan would take."""
        return max(asked, default=0) if self.plan.get("prompts") else self.plan["sizes"]["probes"]

    def _whole(self) -> list[Place]:
        """Arms and updates at which all prompts were answered with every seed that counts."""
        wanted = self._wanted * len(self.seeds)
        found = []
        for arm, kind in self.kinds.items():
            for mark in self.marks if kind == "trained" else [0]:
                number = len(self._by.get((OWN, arm, mark), {}))
                if number >= wanted > 0:
                    found.append((arm, mark))
                elif self.seeds:
                    after = f"{arm} after {mark} updates" if kind == "trained" else arm
                    why = next((one["trouble"] for one in self.rounds if one["arm"] == arm and one.get("unfilled")), "")
                    what = f"{number} of {wanted} replies" if number else "no reply"
                    self.missing.append(f"{after}: {what}. {why}".strip())
        return found

    @property
    def arms(self) -> list[str]:
        return [arm for arm in self.kinds if any(arm == other for other, _ in self.places)]

    def last(self, arm: str) -> int | None:
        """The last mark that the arm has come to, whole; what never learns stays at 0."""
        return max((mark for other, mark in self.places if other == arm), default=None)

    def at(self, arm: str, mark: int) -> int | None:
        """Where the arm stands when others have had so many updates; None where it did not get there."""
        if self.kinds[arm] != "trained":
            mark = 0
        return mark if (arm, mark) in self.places else None

    def values(self, measure: str, arm: str, update: int, set_: str = OWN) -> Values:
        """The measure of every reply that has it, by pair."""
        rows = self._by.get((set_, arm, update), {})
        return {pair: float(row[measure]) for pair, row in rows.items() if row.get(measure) is not None}

    # What it says

    def curve(self, measure: str, arm: str) -> dict[int, Interval]:
        """The measure's mean by update."""
        found = {}
        for update in [mark for other, mark in self.places if other == arm]:
            if values := self.values(measure, arm, update):
                found[update] = statistics.average(values)
        return found

    def change(self, measure: str, one: tuple[str, int], other: tuple[str, int], set_: str = OWN) -> Interval | None:
        """How much more the first has, pair by pair; None where one of them was not measured."""
        ours, theirs = self.values(measure, *one, set_), self.values(measure, *other, set_)
        if not ours or ours.keys() != theirs.keys():
            return None
        return statistics.difference(ours, theirs)

    def kept(self, arm: str, update: int) -> Interval | None:
        """The share of the base's content that is left."""
        ours, base = self.values("content", arm, update), self.values("content", BASE, 0)
        if not ours or ours.keys() != base.keys() or not sum(base.values()):
            return None
        return statistics.ratio(ours, base)

    def mended(self) -> Interval | None:
        """The share of the base's content that is left of its replies as the person would have written them: what is
        kept by a model that learns that perfectly, and answers as the base does. Their language is taken for the
        reply's."""
        theirs, base = self.values("mended", BASE, 0), self.values("content", BASE, 0)
        return statistics.ratio(theirs, base) if sum(base.values()) else None

    def gains(self, measure: str = "style") -> list[dict[str, Any]]:
        """Of each arm that learns, every look and the interactions until the first significant gain over the base."""
        base = self.values(measure, BASE, 0)
        found = []
        for arm in self.arms:
            updates = [mark for other, mark in self.places if other == arm and mark]
            probes = {update: self.values(measure, arm, update) for update in updates}
            if self.kinds[arm] != "trained" or not base or any(v.keys() != base.keys() for v in probes.values()):
                continue
            seen = gains.looks(probes, base)
            first = gains.first_gain(seen)
            found.append(
                {
                    "arm": arm,
                    "measure": measure,
                    "update": first.update if first else None,
                    "interactions": self.spent(arm, first.update, "interactions") if first else None,
                    "sessions": self.spent(arm, first.update, "sessions") if first else None,
                    "looks": [_look(look) for look in seen],
                }
            )
        return found

    def spent(self, arm: str, update: int, what: str) -> dict[str, float] | None:
        """Interactions or sessions until this update, over the seeds."""
        counted = [
            one[what] for one in self.rounds
            if (one["arm"], one["updates"]) == (arm, update) and one["seed"] in self.seeds and one.get(what) is not None
        ]  # fmt: skip
        return {"least": min(counted), "mean": mean(counted), "most": max(counted)} if counted else None

    def row(self, arm: str, update: int) -> dict[str, Any]:
        """One line of the table of arms."""
        style = self.values("style", arm, update)
        texts = self._by[(OWN, arm, update)]
        content = self.values("content", arm, update)
        return {
            "arm": arm,
            "kind": self.kinds[arm],
            "update": update,
            "replies": len(texts),
            "style": shown(statistics.average(style)) if style else None,
            "change": shown(self.change("style", (arm, update), (BASE, 0))),
            "content": shown(statistics.average(content)) if content else None,
            "kept": shown(self.kept(arm, update)),
            "product": shown(statistics.average(product)) if (product := self.values("product", arm, update)) else None,
            "read": len(content),
            "prompt_tokens": mean(row["prompt_tokens"] for row in texts.values()),
            "completion_tokens": mean(row["completion_tokens"] for row in texts.values()),
            "correct": shown(statistics.average(right)) if (right := self.values("correct", arm, update)) else None,
        }

    def costs(self, arm: str, update: int) -> dict[str, Any]:
        """What may have been lost, of one arm, as it is after its last update."""
        rows, base = self._by[(OWN, arm, update)], self._by.get((OWN, BASE, 0), {})
        texts = [row["reply"] for row in rows.values()]
        both = [pair for pair in rows if pair in base]
        ours, theirs = regressions.alike([rows[p]["reply"] for p in both], [base[p]["reply"] for p in both])
        kl = self.values("kl", arm, update)
        return {
            "arm": arm,
            "update": update,
            "words": mean(row["words"] for row in rows.values()),
            "stubs": mean(float(row["words"] < STUB) for row in rows.values()),
            "cut": mean(float(row["finish_reason"] == "length") for row in rows.values()),
            "repetition": mean(row["repetition"] for row in rows.values()),
            "copied": mean(seen) if (seen := [row["copied"] for row in rows.values() if "copied" in row]) else None,
            "variety": regressions.variety(texts),
            "distinct": ours if both else None,
            "distinct_base": theirs if both else None,
            "other": shown(self.change("style", (arm, update), (BASE, 0), OTHER)),
            "kl": shown(statistics.average(kl)) if kl else None,
            "pack": self.pack(arm, update),
            "correct": shown(self.change("correct", (arm, update), (BASE, 0))),
        }

    def pack(self, arm: str, update: int) -> dict[str, Any] | None:
        """The general pack: the share that is right, that as a share of what the base has right, and how much further
        right answers lead than the base's, over all items. Who grows surer leads further where they are right, and lags
        further where they are wrong. With how many items changed sides, a seed."""
        rights, leads = self._beside_base("right", arm, update), self._beside_base("lead", arm, update)
        if rights is None or leads is None:
            return None
        ours, theirs = rights
        kept = statistics.ratio(ours, theirs) if sum(theirs.values()) else None
        return {
            "right": mean(ours.values()),
            "items": len({pair.prompt for pair in ours}),
            "kept": shown(kept),
            "lead": shown(statistics.difference(*leads)),
            **crossings.counted(self._items(arm, update)),
        }

    def crossed(self, arm: str) -> dict[str, Any] | None:
        """Which items of the pack changed sides until the arm's last update; None where it, or the base, was not asked
        them."""
        update = self.last(arm) or 0
        if self._beside_base("right", arm, update) is None:
            return None
        return {"arm": arm, "update": update, "items": crossings.told(self._items(arm, update))}

    def _items(self, arm: str, update: int) -> list[crossings.Item]:
        return crossings.items(list(self._by[PACK, BASE, 0].values()), self._by[PACK, arm, update])

    def _beside_base(self, measure: str, arm: str, update: int) -> tuple[Values, Values] | None:
        """A measure of the pack and the base's of the same items, which it is asked once, whichever person talks."""
        ours = self.values(measure, arm, update, PACK)
        asked = {pair.prompt: value for pair, value in self.values(measure, BASE, 0, PACK).items()}
        if not ours or any(pair.prompt not in asked for pair in ours):
            return None
        return ours, {pair: asked[pair.prompt] for pair in ours}

    def samples(self, arm: str, update: int) -> list[dict[str, Any]]:
        """Replies before and after: of prompts that a hash chose, and those that lost most content."""
        before, after = self._by.get((OWN, BASE, 0), {}), self._by[(OWN, arm, update)]
        both = sorted((pair for pair in after if pair in before), key=_hashed)
        picked = [(pair, "chosen by a hash of the prompt") for pair in both[:SAMPLES]]
        lost = [pair for pair in both[SAMPLES:] if "content" in after[pair] and "content" in before[pair]]
        lost.sort(key=lambda pair: after[pair]["content"] - before[pair]["content"])
        picked += [(pair, "lost most content") for pair in lost[:WORST]]
        return [
            {
                "prompt": after[pair]["task"]["prompt"],
                "seed": pair.seed,
                "why": why,
                "before": _reply(before[pair]),
                "after": _reply(after[pair]),
            }
            for pair, why in picked
        ]

    @property
    def shown_arm(self) -> str | None:
        """The arm of the headline: the default recipe's, else the first of the table that learned, in whatever order a
        run names them."""
        learned = [arm for arm in self.arms if self.kinds[arm] == "trained" and self.last(arm)]
        return next((arm for arm in (DEFAULT, *ARMS) if arm in learned), None)

    def comparisons(self, mark: int) -> list[dict[str, Any]]:
        """Every two arms on the same prompts, at one mark."""
        there = [(arm, update) for arm in self.arms if (update := self.at(arm, mark)) is not None and arm != BASE]
        found = []
        for at, one in enumerate(there):
            for other in there[:at]:
                changes = {name: shown(self.change(name, one, other)) for name in MEASURES}
                found.append({"one": one[0], "other": other[0], "update": mark, **changes})
        return found

    def as_json(self) -> dict[str, Any]:
        """All of it, as report.json has it beside the headline and the claims."""
        middle = min(MIDDLE, self.marks[-1])
        stops = sorted({middle, self.marks[-1]})
        places = {mark: [(arm, at) for arm in self.arms if (at := self.at(arm, mark)) is not None] for mark in stops}
        arm = self.shown_arm
        last = [(name, self.last(name) or 0) for name in self.arms]
        return {
            "plan": dict(self.plan),
            "seeds": self.seeds,
            "missing": self.missing,
            "curves": {
                measure: {
                    name: [{"update": update, **_known(found)} for update, found in self.curve(measure, name).items()]
                    for name in self.arms
                }
                for measure in MEASURES
            },
            "tables": [{"update": mark, "rows": [self.row(*one) for one in found]} for mark, found in places.items()],
            "comparisons": [one for mark in stops for one in self.comparisons(mark)],
            "mended": shown(self.mended()),
            "gains": [*self.gains("style"), *self.gains("product")],
            "published": PUBLISHED,
            "regressions": [self.costs(*place) for place in last],
            "crossings": self.crossed(arm) if arm else None,
            "samples": {"arm": arm, "update": self.last(arm), "shown": self.samples(arm, self.last(arm) or 0)}
            if arm and (BASE, 0) in self.places
            else None,
            "rounds": self.rounds,
            "caveats": self.caveats(),
        }

    def caveats(self) -> list[str]:
        """What a reader must know before believing any of it."""
        found = []
        if len(self.seeds) == 1:
            found.append(
                "One seed: the intervals are over prompts alone and say nothing of how another seed would do. Three is "
                "the least for a claim."
            )
        read = max((len(self.values("content", *place)) for place in self.places), default=0)
        asked = max((len(self._by[(OWN, *place)]) for place in self.places), default=0)
        if read == 0:
            found.append("Content was not measured: a style can be reached with empty replies, so no claim stands.")
        elif read < asked:
            found.append(f"Content and product are of {read} of {asked} replies a probe, of every arm’s the same.")
        if len(self.seeds) > 1:
            found.append(
                "Each seed has a persona of its own, so that seeds differ in who is talking as well as in chance."
            )
        for arm in [arm for arm, kind in self.kinds.items() if kind == "shown"]:
            shots = {pair.seed: len(row["messages"]) // 2 for pair, row in self._by.get((OWN, arm, 0), {}).items()}
            found += [
                f"{arm}, seed {seed}: {number} of {SHOTS} rewrites are shown, since no more were written."
                for seed, number in sorted(shots.items())
                if number < SHOTS
            ]
        for one in self.rounds:
            if one.get("trouble"):
                found.append(f"{one['arm']}, seed {one['seed']}, round {one['round']}: {one['trouble']}")
        return found


STUB = 5
"""Words under which a reply is a stub."""


def _look(look: Look) -> dict[str, Any]:
    return {"update": look.update, "is_gain": look.is_gain, **_known(look.change)}


def _known(found: Interval) -> dict[str, Any]:
    return {name: round(value, 6) if isinstance(value, float) else value for name, value in asdict(found).items()}


def shown(found: Interval | None) -> dict[str, Any] | None:
    """An interval as report.json has it."""
    return None if found is None else _known(found)


def _hashed(pair: Pair) -> str:
    return hashlib.sha256(f"{pair.seed}:{pair.prompt}".encode()).hexdigest()


def _reply(row: Row) -> dict[str, Any]:
    names = ("reply", "finish_reason", "style", "parts", "content")
    return {name: row[name] for name in names if name in row}

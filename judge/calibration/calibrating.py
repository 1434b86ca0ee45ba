"""From what a judge says to how likely it is right. Pure: probabilities and what was expected in, figures out.

A judge gives each answer a probability, or casts a few votes. `fit` scales them (vector scaling: one temperature, one
bias an answer) so that they hold on follow-ups whose answer is known. Where enough follow-ups are known, what the judge
said to its other question is weighed with it: a change that is asked for is no praise. Figures are always of a fit that
has not seen the follow-up (`cross_fit`). The verdict is the likeliest reward, and its confidence the scaled probability
of that reward.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from django.utils.translation import gettext
from numpy.typing import NDArray

Floats = NDArray[np.float64]

SCORES = ("1", "0", "-1", "new")
"""Answers to how it went. A change of subject is an answer of its own, and rewards as 0 does."""
DECISIONS = ("1", "-1")
"""Answers to whether a change is asked for."""
REWARDS: Mapping[str, int] = {"1": 1, "0": 0, "-1": -1, "new": 0}

FLOOR = 1e-6
"""No answer is taken for less likely than this: one reading of 400 must not outweigh all others."""
JEFFREYS = 0.5
"""Votes of each answer that are added to those that were cast. Three votes of three do not show that a fourth could not
differ: under Jeffreys' prior, which favours no answer, the expected shares of the votes not cast are (n + 1/2) / (m +
k/2) for k answers."""

RIDGE = 2.0
"""Strength of the pull towards leaving probabilities as they are: it counts like a few follow-ups, so that thirty of
them move little and four hundred decide."""
MANY = 300
"""Follow-ups from which on both questions are weighed together: two dozen weights that fewer cannot hold."""
JOINT_RIDGE = 10.0
"""Strength of the pull of those weights towards a judge's own question alone."""
FEW = 80
"""Follow-ups of people, or of machines, from which on they have a scale of their own, drawn to that of all."""
FOLDS = 10

LEAST = 30
"""Follow-ups that must stand above a threshold before its precision is believed."""
PRECISION = 0.90
"""Share of the verdicts given that must be right."""
WORST = 0.02
"""Share of all follow-ups that may be taken for good where they say that the reply was bad."""
OWN_PRECISION = 0.95
"""Share of the asked-for changes that must be one, for a person's next message to teach by itself."""
OWN_LEAST = 0.9
"""Probability that a change is asked for from which on it may."""

MACHINES = ("tool", "environment", "test")


@dataclass(frozen=True)
class Case:
    """One follow-up that a judge has read, beside those answers that are right."""

    probabilities: Mapping[str, float]
    """Of each answer; of votes their shares, smoothed (`shares`)."""
    expected: frozenset[str]
    """Several where it is not known which of them: a reward of 0 without a word on the subject."""
    role: str = "user"
    """Whose next state it is."""
    id: str = ""
    """Decides in which part it is left out."""
    beside: Mapping[str, float] | None = None
    """Of each answer to the judge's other question; None: it gave none."""


@dataclass(frozen=True)
class Scaling:
    """q(answer) ∝ p(answer)^slope · e^bias."""

    answers: tuple[str, ...]
    slope: float = 1.0
    """One over the temperature."""
    biases: tuple[float, ...] = ()

    def __call__(self, probabilities: Mapping[str, float]) -> dict[str, float]:
        logs = _logs(probabilities, self.answers)
        return dict(zip(self.answers, _softmax(self.slope * logs + self._array).tolist(), strict=True))

    @property
    def _array(self) -> Floats:
        return np.array(self.biases or (0.0,) * len(self.answers))


@dataclass(frozen=True)
class JointScaling:
    """log q(answer) = Σ weight · log p + bias + a constant, over the answers to both questions."""

    answers: tuple[str, ...]
    beside: tuple[str, ...]
    """The answers to the other question."""
    weights: tuple[tuple[float, ...], ...]
    """A row for each answer: K of its own question, then those of the other."""
    biases: tuple[float, ...]

    def __call__(self, probabilities: Mapping[str, float], beside: Mapping[str, float]) -> dict[str, float]:
        logs = np.concatenate([_logs(probabilities, self.answers), _logs(beside, self.beside)])
        logits = np.array(self.weights) @ logs + np.array(self.biases)
        return dict(zip(self.answers, _softmax(logits).tolist(), strict=True))


@dataclass(frozen=True)
class Scale:
    """The scaling of all follow-ups, and those of people's or machines' where there were enough."""

    pooled: Scaling
    by_kind: Mapping[str, Scaling] = field(default_factory=dict)
    joint: JointScaling | None = None
    """With the other question, where enough follow-ups were known."""
    joint_by_kind: Mapping[str, JointScaling] = field(default_factory=dict)

    def __call__(
        self, probabilities: Mapping[str, float], role: str, beside: Mapping[str, float] | None = None
    ) -> dict[str, float]:
        """`beside` is what the same judge said to its other question; None: it said nothing."""
        if self.joint is not None and beside is not None:
            return self.joint_by_kind.get(kind(role), self.joint)(probabilities, beside)
        return self.by_kind.get(kind(role), self.pooled)(probabilities)


def rule() -> str:
    """How the threshold is chosen, in words for a judge's page."""
    return gettext(
        "The rule: the smallest threshold at or above which at least %(least)s gold follow-ups stand, %(precision)s of "
        "them right, and with which at most %(worst)s of all are taken for good though they say that the reply was bad."
    ) % {"least": LEAST, "precision": f"{PRECISION:.0%}", "worst": f"{WORST:.0%}"}


def kind(role: str) -> str:
    """
    >>> kind("user"), kind("person"), kind("environment")
    ('people', 'people', 'machines')
    """
    return "machines" if role in MACHINES else "people"


def shares(votes: Iterable[str], answers: Sequence[str]) -> dict[str, float]:
    """The smoothed shares of votes that were cast.

    >>> shares(["1", "1", "0"], ("1", "0", "-1", "new"))
    {'1': 0.5, '0': 0.3, '-1': 0.1, 'new': 0.1}
    """
    cast = list(votes)
    total = len(cast) + JEFFREYS * len(answers)
    return {answer: (cast.count(answer) + JEFFREYS) / total for answer in answers}


# Fitting


def fit(cases: Sequence[Case], answers: tuple[str, ...], like: Scale | None = None) -> Scale:
    """The scale under which these cases are likeliest, a little drawn to the identity.

    It has the parts that their number allows; with `like` those of that scale, which was fitted to more of them.
    """
    pooled = _fit(cases, Scaling(answers))
    by_kind = {name: _fit(own, pooled) for name, own in _kinds(cases, None if like is None else like.by_kind).items()}
    both = [case for case in cases if case.beside is not None]
    if len(both) < MANY if like is None else like.joint is None:
        return Scale(pooled, by_kind)
    beside = DECISIONS if answers == SCORES else SCORES
    start = np.hstack([pooled.slope * np.eye(len(answers)), np.zeros((len(answers), len(beside)))])
    joint = _fit_joint(both, JointScaling(answers, beside, tuple(map(tuple, start.tolist())), tuple(pooled._array)))
    kinds = _kinds(both, None if like is None else like.joint_by_kind)
    return Scale(pooled, by_kind, joint, {name: _fit_joint(own, joint) for name, own in kinds.items()})


def _kinds(cases: Sequence[Case], names: Iterable[str] | None) -> dict[str, list[Case]]:
    """The cases of people and of machines: those of these names, or where there are enough for a scale of their own."""
    found: dict[str, list[Case]] = {}
    for case in cases:
        found.setdefault(kind(case.role), []).append(case)
    if names is not None:
        return {name: found.get(name, []) for name in names}
    return {name: own for name, own in found.items() if FEW <= len(own) < len(cases)}


def cross_fit(cases: Sequence[Case], answers: tuple[str, ...], folds: int = FOLDS) -> list[dict[str, float]]:
    """What a scale makes of each case that was fitted to the other parts of them, in their order."""
    parts = [fold_of(case.id, folds) for case in cases]
    whole = fit(cases, answers)
    scales = {
        part: fit([case for case, other in zip(cases, parts, strict=True) if other != part], answers, whole)
        for part in set(parts)
    }
    return [scales[part](case.probabilities, case.role, case.beside) for case, part in zip(cases, parts, strict=True)]


def fold_of(id: str, folds: int = FOLDS) -> int:
    """Into which part a follow-up goes: the same wherever it stands in a file."""
    return int.from_bytes(hashlib.sha256(id.encode()).digest()[:4]) % folds


def _fit(cases: Sequence[Case], start: Scaling) -> Scaling:
    """Slope and biases, drawn to `start`."""
    if not cases:
        return start
    answers = start.answers
    logs = np.stack([_logs(case.probabilities, answers) for case in cases])  # (N, K)
    size = len(answers)
    inputs = np.zeros((*logs.shape, 1 + size))  # of each answer's logit, by each parameter
    inputs[:, :, 0] = logs
    inputs[:, range(size), range(1, size + 1)] = 1.0
    at = _likeliest(inputs, _expected(cases, answers), np.array([start.slope, *start._array]), RIDGE)
    return Scaling(answers, float(at[0]), tuple(at[1:].tolist()))


def _fit_joint(cases: Sequence[Case], start: JointScaling) -> JointScaling:
    """Weights and biases, drawn to `start`."""
    if not cases:
        return start
    answers = start.answers
    logs = np.stack(
        [
            np.concatenate([_logs(case.probabilities, answers), _logs(case.beside or {}, start.beside), [1.0]])
            for case in cases
        ]
    )  # (N, F), the last for the bias
    size, width = len(answers), logs.shape[1]
    inputs = np.zeros((len(cases), size, size, width))
    for answer in range(size):
        inputs[:, answer, answer] = logs
    origin = np.column_stack([np.array(start.weights), np.array(start.biases)])
    at = _likeliest(inputs.reshape(len(cases), size, -1), _expected(cases, answers), origin.ravel(), JOINT_RIDGE)
    found = at.reshape(size, width)
    return replace(start, weights=tuple(map(tuple, found[:, :-1].tolist())), biases=tuple(found[:, -1].tolist()))


def _expected(cases: Sequence[Case], answers: Sequence[str]) -> Floats:
    """(N, K): 1 where the answer is right."""
    right = np.array([[answer in case.expected for answer in answers] for case in cases], dtype=float)
    if not right.any(axis=1).all():
        raise ValueError("a case expects an answer that is none")
    return right


def _likeliest(inputs: Floats, right: Floats, origin: Floats, ridge: float) -> Floats:
    """The parameters θ (P,) that minimise −Σ log q(right) + ridge · |θ − origin|², q the softmax of `inputs` (N, K, P)
    times θ: Newton's steps, halved where they overshoot."""

    def loss(at: Floats) -> float:
        q = _softmax(inputs @ at)
        return float(-np.log((q * right).sum(axis=1)).sum() + ridge * ((at - origin) ** 2).sum())

    at, now = origin.copy(), loss(origin)
    for _ in range(100):
        q = _softmax(inputs @ at)
        wanted = q * right / (q * right).sum(axis=1, keepdims=True)
        gradient = np.einsum("nk,nkp->p", q - wanted, inputs) + 2 * ridge * (at - origin)
        centred = (inputs - (q[:, :, None] * inputs).sum(axis=1, keepdims=True)) * np.sqrt(q)[:, :, None]
        flat = centred.reshape(-1, len(origin))
        step = np.linalg.solve(flat.T @ flat + 2 * ridge * np.eye(len(origin)), gradient)
        reach = 1.0
        while reach > 1e-6 and loss(at - reach * step) > now:
            reach /= 2
        at = at - reach * step
        before, now = now, loss(at)
        if before - now < 1e-9:
            break
    return at


def _logs(probabilities: Mapping[str, float], answers: Sequence[str]) -> Floats:
    return np.log(np.maximum([probabilities.get(answer, 0.0) for answer in answers], FLOOR))


def _softmax(logits: Floats) -> Floats:
    found = np.exp(logits - logits.max(axis=-1, keepdims=True))
    return np.asarray(found / found.sum(axis=-1, keepdims=True))


# Verdicts


def rewards(probabilities: Mapping[str, float]) -> dict[int, float]:
    """How likely each reward is.

    >>> {reward: round(p, 2) for reward, p in rewards({"1": 0.5, "0": 0.2, "-1": 0.1, "new": 0.2}).items()}
    {1: 0.5, 0: 0.4, -1: 0.1}
    """
    found = {1: 0.0, 0: 0.0, -1: 0.0}
    for answer, p in probabilities.items():
        found[REWARDS[answer]] += p
    return found


def likeliest(found: Mapping[int, float]) -> int:
    """The likeliest of rewards; of several alike the one that says least."""
    return max(found, key=lambda reward: (round(found[reward], 9), reward == 0, -reward))


@dataclass(frozen=True)
class Verdict:
    """What a judge would decide on one follow-up, and what was right."""

    confidence: float
    said: int
    expected: int
    is_new: bool = False
    """It says that the subject changes."""
    id: str = ""
    role: str = ""

    @property
    def is_right(self) -> bool:
        return self.said == self.expected

    @property
    def is_worst(self) -> bool:
        """It took for good what was bad."""
        return self.said == 1 and self.expected == -1


def score_verdict(probabilities: Mapping[str, float], expected: int, id: str = "", role: str = "") -> Verdict:
    """The likeliest reward."""
    found = rewards(probabilities)
    said = likeliest(found)
    is_new = said == 0 and probabilities["new"] >= probabilities["0"]
    return Verdict(found[said], said, expected, is_new, id, role)


def hint_verdict(probabilities: Mapping[str, float], asks: bool, id: str = "", role: str = "") -> Verdict:
    """1: a change is asked for. Its confidence is that of its being asked for, whichever is likelier."""
    return Verdict(probabilities["1"], 1, 1 if asks else -1, False, id, role)


# Figures


@dataclass(frozen=True)
class Bin:
    """Verdicts of about one confidence."""

    low: float
    high: float
    count: int
    confidence: float
    """Their mean."""
    right: int

    @property
    def share(self) -> float:
        return self.right / self.count


def reliability(verdicts: Sequence[Verdict], bins: int = 10) -> list[Bin]:
    """Confidence against how many were right, in bins of equal width; empty ones are left out."""
    found = []
    for n in range(bins):
        inside = [one for one in verdicts if min(int(one.confidence * bins), bins - 1) == n]
        if inside:
            mean = sum(one.confidence for one in inside) / len(inside)
            found.append(Bin(n / bins, (n + 1) / bins, len(inside), mean, sum(one.is_right for one in inside)))
    return found


def calibration_error(verdicts: Sequence[Verdict], bins: int = 10) -> float | None:
    """The expected calibration error: how far confidence and share right are apart in a bin, by how many it holds."""
    if not verdicts:
        return None
    parts = reliability(verdicts, bins)
    return sum(part.count * abs(part.share - part.confidence) for part in parts) / len(verdicts)


@dataclass(frozen=True)
class Point:
    """What a threshold does: verdicts at least so sure are given."""

    threshold: float
    coverage: float
    precision: float
    given: int
    worst: float
    """Share of all follow-ups that are taken for good and were bad."""


def curve(verdicts: Sequence[Verdict]) -> list[Point]:
    """A point for each confidence that occurs, the highest first: coverage grows from one to the next."""
    found: list[Point] = []
    given = right = worst = 0
    ordered = sorted(verdicts, key=lambda one: -one.confidence)
    for n, one in enumerate(ordered):
        given, right, worst = given + 1, right + one.is_right, worst + one.is_worst
        if n + 1 == len(ordered) or ordered[n + 1].confidence < one.confidence:
            found.append(Point(one.confidence, given / len(ordered), right / given, given, worst / len(ordered)))
    return found


def point_at(verdicts: Sequence[Verdict], threshold: float | None) -> Point | None:
    """What this threshold does; None where nothing was measured. Without a threshold nothing is given."""
    if not verdicts:
        return None
    reached = [point for point in curve(verdicts) if threshold is not None and point.threshold >= threshold]
    return reached[-1] if reached else Point(1.0 if threshold is None else threshold, 0.0, 1.0, 0, 0.0)


def threshold(
    verdicts: Sequence[Verdict], *, precision: float = PRECISION, least: float = 0.0, worst: float = 1.0
) -> float | None:
    """The smallest threshold, `least` or more, from which on verdicts are precise enough. None: there is none.

    Of the verdicts at or above it, at least LEAST, `precision` must be right, and of all follow-ups at most `worst` be
    taken for good where they were bad.
    """
    good = [
        point
        for point in curve(verdicts)
        if point.threshold >= least and point.given >= LEAST and point.precision >= precision and point.worst <= worst
    ]
    return good[-1].threshold if good else None

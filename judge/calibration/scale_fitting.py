"""Fit a judge's scale to follow-ups whose answer is known. Pure: probabilities and what was expected in, a scale out.

Figures are always of a fit that has not seen the follow-up (`cross_fit`).
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from judge.calibration.judge_answers import DECISIONS, SCORES
from judge.calibration.scalings import Floats, JointScaling, Scale, Scaling, kind, logs_of, softmax

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
    joint = _fit_joint(both, JointScaling(answers, beside, tuple(map(tuple, start.tolist())), tuple(pooled.bias_array)))
    kinds = _kinds(both, None if like is None else like.joint_by_kind)
    return Scale(pooled, by_kind, joint, {name: _fit_joint(own, joint) for name, own in kinds.items()})


def cross_fit(cases: Sequence[Case], answers: tuple[str, ...], folds: int = FOLDS) -> list[dict[str, float]]:
    """What a scale makes of each case that was fitted to the other parts of them, in their order."""
    parts = [fold_of(case.id, folds) for case in cases]
    whole = fit(cases, answers)
    scales = {
        part: fit([case for case, other in zip(cases, parts, strict=True) if other != part], answers, whole)
        for part in set(parts)
    }
    return [scales[part](case.probabilities, case.role, case.beside) for case, part in zip(cases, parts, strict=True)]


def _kinds(cases: Sequence[Case], names: Iterable[str] | None) -> dict[str, list[Case]]:
    """The cases of people and of machines: those of these names, or where there are enough for a scale of their own."""
    found: dict[str, list[Case]] = {}
    for case in cases:
        found.setdefault(kind(case.role), []).append(case)
    if names is not None:
        return {name: found.get(name, []) for name in names}
    return {name: own for name, own in found.items() if FEW <= len(own) < len(cases)}


def fold_of(id: str, folds: int = FOLDS) -> int:
    """Into which part a follow-up goes: the same wherever it stands in a file."""
    return int.from_bytes(hashlib.sha256(id.encode()).digest()[:4]) % folds


def _fit(cases: Sequence[Case], start: Scaling) -> Scaling:
    """Slope and biases, drawn to `start`."""
    if not cases:
        return start
    answers = start.answers
    logs = np.stack([logs_of(case.probabilities, answers) for case in cases])  # (N, K)
    size = len(answers)
    inputs = np.zeros((*logs.shape, 1 + size))  # of each answer's logit, by each parameter
    inputs[:, :, 0] = logs
    inputs[:, range(size), range(1, size + 1)] = 1.0
    at = _likeliest(inputs, _expected(cases, answers), np.array([start.slope, *start.bias_array]), RIDGE)
    return Scaling(answers, float(at[0]), tuple(at[1:].tolist()))


def _fit_joint(cases: Sequence[Case], start: JointScaling) -> JointScaling:
    """Weights and biases, drawn to `start`."""
    if not cases:
        return start
    answers = start.answers
    logs = np.stack(
        [
            np.concatenate([logs_of(case.probabilities, answers), logs_of(case.beside or {}, start.beside), [1.0]])
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
        q = softmax(inputs @ at)
        return float(-np.log((q * right).sum(axis=1)).sum() + ridge * ((at - origin) ** 2).sum())

    at, now = origin.copy(), loss(origin)
    for _ in range(100):
        q = softmax(inputs @ at)
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

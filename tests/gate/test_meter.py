"""The overfitting meter: what is learned by heart, copied, far from the base or sure of everything fails."""

from __future__ import annotations

import pytest

from gate import meter
from training.config import Gate


def pair(name="a", **figures):
    usual = {
        "live": f"One {name}.", "candidate": f"Two {name}.", "live_tokens": 10, "candidate_tokens": 12,
        "live_own": -1.0, "candidate_own": -1.0, "live_plain": -1.0, "candidate_plain": -1.2,
        "candidate_on_live": -1.1, "live_copied": 0.1, "candidate_copied": 0.15,
    }  # fmt: skip
    return {"id": name, **usual, **figures}


def read(name, pairs, trained=(-0.1,), limits=None):
    return next(gauge for gauge in meter.gauges(pairs, trained, limits or Gate()) if gauge.name == name)


def test_a_candidate_that_learned_a_style_passes_on_all_figures():
    found = meter.gauges([pair("a"), pair("b")], [-0.1], Gate())
    assert [gauge.name for gauge in found] == ["gap", "copied", "entropy", "kl to base", "variety", "length"]
    assert all((gauge.passed and not gauge.worst) or gauge.limit is not None for gauge in found)
    assert read("kl to base", [pair()]).value == pytest.approx(0.2)  # −1.0 + 1.2
    assert read("gap", [pair()]).value == pytest.approx(0.0)  # −0.1 there, −1.1 + 1.0 here


@pytest.mark.parametrize(
    ("name", "figures", "trained"),
    [
        ("gap", {}, [1.0]),  # +1.0 on what it trained on, −0.1 on the rest
        ("copied", {"candidate_copied": 0.31}, [-0.1]),  # at most 0.1 + 0.2
        ("entropy", {"candidate_own": -0.05}, [-0.1]),  # at least a tenth of 1.0
        ("kl to base", {"candidate_plain": -3.6}, [-0.1]),  # 2.6 nats
    ],
)
def test_each_limit_is_held(name, figures, trained):
    assert not read(name, [pair(**figures)], trained).passed
    assert read(name, [pair()]).passed


def test_the_worst_pairs_come_first():
    pairs = [pair("fine"), pair("copy", candidate_copied=0.9), pair("half", candidate_copied=0.5)]
    assert read("copied", pairs).worst == ("copy", "half", "fine")


def test_what_was_not_measured_is_left_out():
    bare = {name: value for name, value in pair().items() if not name.endswith(("own", "on_live", "copied"))}
    assert [gauge.name for gauge in meter.gauges([bare], [], Gate())] == ["variety", "length"]

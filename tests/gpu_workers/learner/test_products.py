"""Products of bfloat16 that are taken in float32 where a machine multiplies that faster."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from gpu_workers.learner import products

ULP = 2**-7
"""A rounding to bfloat16 errs by half of this, relative to the number."""


@pytest.fixture
def wide(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(products, "is_wide_faster", lambda: True)


def drawn(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed)).bfloat16()


def assert_rounded_once(found: Tensor, exact: Tensor) -> None:
    """Within half a unit of the last place of what float64 says; float32's own sums err by a thousandth of that."""
    assert found.dtype is torch.bfloat16
    torch.testing.assert_close(found.double(), exact, rtol=0.51 * ULP, atol=1e-5)


@pytest.mark.parametrize("at_once", [1 << 22, 5 * 48, 48])  # the weight whole, in pieces of five rows, row by row
def test_a_widened_product_is_the_exact_one_rounded_once(wide: None, monkeypatch: pytest.MonkeyPatch, at_once: int):
    monkeypatch.setattr(products, "AT_ONCE", at_once)
    x, weight, bias, grad = drawn(70, 48), drawn(13, 48, seed=1), drawn(13, seed=2), drawn(70, 13, seed=3)
    begun = drawn(70, 48, seed=4)

    assert_rounded_once(products.linear(x, weight), x.double() @ weight.double().t())
    assert_rounded_once(products.product(grad, weight), grad.double() @ weight.double())
    assert_rounded_once(products.product(grad, weight, begun.clone()), begun.double() + grad.double() @ weight.double())
    torch.testing.assert_close(  # a bias that is added to a head in pieces is a second rounding
        products.linear(x, weight, bias).double(), x.double() @ weight.double().t() + bias.double(), rtol=ULP, atol=0.03
    )


def test_what_is_timed_takes_turns_and_has_its_best(monkeypatch: pytest.MonkeyPatch):
    clock, taken, order = [0.0], {"slow": iter([5.0, 3.0]), "quick": iter([1.0, 4.0])}, []
    monkeypatch.setattr(products.time, "perf_counter", lambda: clock[0])

    def work(name: str) -> None:
        order.append(name)
        clock[0] += next(taken[name])

    assert products.bests({name: lambda name=name: work(name) for name in taken}, 2) == {"slow": 3.0, "quick": 1.0}
    assert order == ["slow", "quick", "slow", "quick"]


def test_what_is_begun_is_added_to_in_its_place(wide: None):
    begun = drawn(64, 8)
    assert products.product(drawn(64, 4, seed=1), drawn(4, 8, seed=2), begun) is begun


@pytest.mark.parametrize("why", ["few rows", "float32", "a machine that is quick in bfloat16"])
def test_nothing_is_widened_where_that_brings_nothing(monkeypatch: pytest.MonkeyPatch, why: str):
    monkeypatch.setattr(products, "is_wide_faster", lambda: why != "a machine that is quick in bfloat16")
    monkeypatch.setattr(products, "_rows", lambda weight: pytest.fail("a weight was widened"))
    x = drawn(products.FEWEST - 1 if why == "few rows" else products.FEWEST, 8)
    weight = drawn(4, 8, seed=1)
    if why == "float32":
        x, weight = x.float(), weight.float()

    assert torch.equal(products.linear(x, weight), torch.nn.functional.linear(x, weight))
    assert torch.equal(products.product(x[:, :4], weight), x[:, :4] @ weight)

"""Drawing the next token, by worked numbers."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
import torch

from gpu_workers.embedded.sampling import Params, Row, Sampler, draw
from gpu_workers.types import Sampling

LOGITS = torch.tensor([0.5, 0.25, 0.15, 0.1]).log()  # so that softmax gives these back


def shares(count: int = 4000, counts: Counter[int] | None = None, **params: Any) -> dict[int, float]:
    """How often each token is drawn."""
    row = Row(Params(**params), Sampler(1), counts or Counter())
    drawn: Counter[int] = Counter()
    for _ in range(count // 100):
        drawn.update(draw(LOGITS.repeat(100, 1), [row] * 100)[0])
    return {token: n / count for token, n in drawn.items()}


def test_tokens_come_as_often_as_their_probability_says() -> None:
    assert shares() == pytest.approx({0: 0.5, 1: 0.25, 2: 0.15, 3: 0.1}, abs=0.03)


def test_a_lower_temperature_sharpens() -> None:
    # Squares of the probabilities over their sum 0.345.
    assert shares(temperature=0.5) == pytest.approx({0: 0.725, 1: 0.181, 2: 0.065, 3: 0.029}, abs=0.03)


def test_top_k_keeps_the_k_most_likely() -> None:
    assert shares(top_k=2) == pytest.approx({0: 2 / 3, 1: 1 / 3}, abs=0.03)


def test_top_p_keeps_the_token_that_crosses_the_line() -> None:
    # 0.5 is short of 0.6, so the second is kept as well.
    assert shares(top_p=0.6) == pytest.approx({0: 2 / 3, 1: 1 / 3}, abs=0.03)


def test_a_top_p_of_nothing_leaves_the_likeliest_token() -> None:
    assert shares(top_p=Sampling(top_p=0).nucleus) == {0: 1.0}


def test_a_nucleus_wider_than_a_thousand_tokens_is_found_whole() -> None:
    row = Row(Params(top_p=0.9), Sampler(1), Counter())
    drawn = {draw(torch.zeros(1, 5000), [row])[0][0] for _ in range(300)}

    assert len(drawn) > 250  # of 4500 equally likely ones


def test_min_p_is_relative_to_the_most_likely() -> None:
    # 0.4 of 0.5 is 0.2: the third falls short.
    assert shares(min_p=0.4).keys() == {0, 1}


def test_greedy_takes_the_most_likely_and_reports_it_at_temperature_one() -> None:
    for params in (Params(temperature=0), Params(top_k=1, temperature=0.7)):
        ids, logprobs = draw(LOGITS[None].clone(), [Row(params, Sampler(1), Counter())])
        assert ids == [0]
        assert logprobs[0].exp().tolist() == pytest.approx([0.5, 0.25, 0.15, 0.1])


def test_logprobs_are_of_the_sampling_temperature_unless_the_original_is_asked() -> None:
    row = Row(Params(temperature=0.5), Sampler(1), Counter())

    assert draw(LOGITS[None].clone(), [row])[1][0].exp().tolist() == pytest.approx(
        [0.7246, 0.1812, 0.0652, 0.0290], abs=1e-4
    )
    assert draw(LOGITS[None].clone(), [row], original=True)[1][0].exp().tolist() == pytest.approx(
        [0.5, 0.25, 0.15, 0.1]
    )


def test_a_repetition_penalty_near_nothing_leaves_shares_that_are_numbers() -> None:
    # All four logits are below 0, so a factor of 1e-40 takes those of 1, 2 and 3 to 0, and 0 stays at log 0.5:
    # their shares are 1 / 3.5 and 0.5 / 3.5. Divided by it, as for logits above 0, they would be infinite.
    seen = Counter({1: 1, 2: 1, 3: 1})
    assert shares(counts=seen, repetition_penalty=1e-40) == pytest.approx(
        {0: 0.143, 1: 0.286, 2: 0.286, 3: 0.286}, abs=0.03
    )
    row = Row(Params(repetition_penalty=1e-40, temperature=1e-6), Sampler(1), seen)
    ids, logprobs = draw(torch.tensor([[3.0, 2.0, 2.0, 2.0]]), [row])
    assert ids[0] in (1, 2, 3)
    assert not logprobs.isnan().any()


def test_penalties_lower_what_was_said() -> None:
    seen = Counter({0: 2})
    row = Row(Params(frequency_penalty=0.5, presence_penalty=0.25), Sampler(1), seen)

    logprobs = draw(LOGITS[None].clone(), [row])[1][0]

    # Token 0 loses 2 * 0.5 + 0.25 = 1.25 against the others.
    assert float(logprobs[0] - logprobs[1]) == pytest.approx(float(LOGITS[0] - LOGITS[1]) - 1.25, abs=1e-5)


def test_a_repetition_penalty_pushes_both_signs_down() -> None:
    logits = torch.tensor([[2.0, -2.0, 0.5]])
    row = Row(Params(repetition_penalty=2.0), Sampler(1), Counter({0: 1, 1: 1}))

    logprobs = draw(logits, [row])[1][0]

    # 2 becomes 1, -2 becomes -4.
    assert float(logprobs[0] - logprobs[2]) == pytest.approx(0.5, abs=1e-5)
    assert float(logprobs[1] - logprobs[2]) == pytest.approx(-4.5, abs=1e-5)


def test_a_bias_and_a_bar_decide_who_may_come() -> None:
    biased = Row(Params(temperature=0, logit_bias={3: 100.0}), Sampler(1), Counter())
    barred = Row(Params(temperature=0), Sampler(1), Counter(), frozenset({0}))

    assert draw(LOGITS.repeat(2, 1), [biased, barred])[0] == [3, 1]


def test_rows_do_not_touch_each_other() -> None:
    plain = Row(Params(sampling_seed=1), Sampler(1), Counter())
    alone = [draw(LOGITS[None].clone(), [Row(Params(), Sampler(n), Counter())])[0][0] for n in range(20)]
    rows = [Row(Params(), Sampler(n), Counter()) for n in range(20)]
    wild = [Row(Params(temperature=1.9, top_p=0.3, frequency_penalty=2.0), Sampler(9), Counter({1: 3}))]

    together = draw(LOGITS.repeat(22, 1), [plain, *rows, *wild])[0]

    assert together[1:21] == alone

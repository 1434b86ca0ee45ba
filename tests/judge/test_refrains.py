"""Texts that rightly say things again: our own, asked for in no exam, given to runs as the served model reads them."""

from __future__ import annotations

import json

from judge import exam_questions, pack, questions, refrains, rehearsal
from lab.evidence import probes
from tests.environments.test_tasks import plain
from training import refrains as kept
from training.config import Recipe

ROWS = [json.loads(line) for line in refrains.FILE.read_text().splitlines()]


def test_each_asks_for_something_else_and_none_is_asked_in_an_exam_or_beside_a_lesson():
    prompts = {plain(row["prompt"]) for row in ROWS}

    assert len(prompts) == len(ROWS) >= 50
    others = [*(item.prompt for item in pack.items()), *(item["prompt"] for item in probes.pack(10**6))]
    others += [*(row.prompt for row in questions.rows()), *rehearsal.prompts()]
    assert not prompts & {plain(prompt) for prompt in others}
    assert not [row["prompt"] for row in ROWS if exam_questions.includes(row["prompt"])]


def test_a_run_that_unlearns_loops_is_given_some_in_the_served_models_tokens(renderer):
    recipe = Recipe(w_again=1, updates=4)
    drawn = kept.drawn(recipe, seed=1)  # what the application's parts are told when it starts

    assert len(drawn) == kept.POOL.at_once * recipe.updates
    assert set(map(id, drawn)) <= set(map(id, refrains.known()))
    assert {renderer.decode(one.reply) for one in drawn} <= {row["reply"] for row in ROWS}

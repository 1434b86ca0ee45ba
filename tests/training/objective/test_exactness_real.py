"""Which way each signal moves SmolLM2: on a model that has learned to speak, not on random weights."""

from __future__ import annotations

import pytest

from chat.rendering.renderer import Renderer
from gpu_workers.learner.learner import Learner
from gpu_workers.types import Example
from training.config import PRESETS, Recipe
from training.objective.updates import updates

pytestmark = pytest.mark.real_model

STEP = {"lr": 2e-4, "updates": 2}
ASKED, REPLY = "What is the capital of France?", "The capital of France is the city of Paris."
HINT = "(Guidance: Answer in one word.)"
ORDINARY, USUAL = "How do I boil an egg?", "Place the egg in boiling water for about ten minutes."


class Case:
    """SmolLM2 with a fresh adapter, and what is said to it."""

    def __init__(self, model):
        self.learner = Learner(model, seed=1)
        self.renderer = Renderer.for_model(model)

    def prompt(self, words: str) -> list[int]:
        return self.renderer.prompt_ids([{"role": "user", "content": words}])

    def reply(self, asked: str, words: str) -> list[int]:
        return self.renderer.reply_ids([{"role": "user", "content": asked}], words)

    def example(self, **fields) -> Example:
        prompt, reply = self.prompt(ASKED), self.reply(ASKED, REPLY)
        return Example(prompt, reply, self.learner.score(prompt, reply), **fields)

    def learn(self, recipe: Recipe, *examples: Example) -> None:
        list(updates(self.learner, [self.learner.score_example(example) for example in examples], recipe))

    def likelihood(self, asked: str, words: str, *, adapter: bool = True) -> float:
        """Mean log-prob a token of a reply."""
        scored = self.learner.score(self.prompt(asked), self.reply(asked, words), adapter=adapter)
        return sum(scored) / len(scored)


@pytest.fixture
def case(smol_model):
    return Case(smol_model)


@pytest.mark.parametrize(("reward", "sign"), [(1.0, 1), (-1.0, -1)])
def test_praise_makes_a_reply_likelier_and_blame_less_likely(case, reward, sign):
    before = case.likelihood(ASKED, REPLY)

    case.learn(PRESETS["binary"].model_copy(update=STEP), case.example(reward=reward))

    assert sign * (case.likelihood(ASKED, REPLY) - before) > 0.01


@pytest.mark.parametrize("preset", ["opd", "topk", "embedded"])
def test_hinted_tokens_move_toward_the_teacher(case, preset):
    example = case.example(teacher_prompt_ids=case.prompt(f"{ASKED}\n\n{HINT}"))
    view = case.learner.score_example(example)
    before = view.start_logprobs.tolist()
    wanted = view.teacher_logprobs.tolist()

    # Adam's first steps are as long as the rate for every weight, and overshoot; after six the words have settled.
    case.learn(PRESETS[preset].model_copy(update={**STEP, "updates": 6}), example)

    after = case.learner.score(example.prompt_ids, example.response_ids)
    gaps = [teacher - start for teacher, start in zip(wanted, before, strict=True)]
    moves = [now - start for now, start in zip(after, before, strict=True)]
    told = max(range(len(gaps)), key=lambda t: abs(gaps[t]))
    assert abs(gaps[told]) > 0.5  # the hint speaks of this very word
    assert gaps[told] * moves[told] > 0
    assert sum(gap * move for gap, move in zip(gaps, moves, strict=True)) > 0  # and of all of them on the whole


def test_a_rewrite_rises(case):
    before = case.likelihood(ASKED, "Paris.")
    rewrite = (case.prompt(ASKED), case.reply(ASKED, "Paris."))

    case.learn(Recipe(w_rl=0, w_opd=0, w_sft=1, **STEP), case.example(rewrite=rewrite))

    assert case.likelihood(ASKED, "Paris.") > before + 0.05


def test_what_is_rehearsed_stays_nearer_to_the_base(smol_model):
    apart = {}
    recipe = PRESETS["embedded"].model_copy(update={"lr": 1e-3, "updates": 4})
    for with_rehearsal in (False, True):
        case = Case(smol_model)
        prompt, answer = case.prompt(ORDINARY), case.reply(ORDINARY, USUAL)
        rehearsed = Example(prompt, answer, case.learner.score(prompt, answer), kind="rehearsal")
        taught = case.example(reward=-1.0, teacher_prompt_ids=case.prompt(f"{ASKED}\n\n{HINT}"))
        case.learn(recipe, taught, *([rehearsed] if with_rehearsal else []))
        now, base = case.learner.score(prompt, answer), case.learner.score(prompt, answer, adapter=False)
        apart[with_rehearsal] = sum(abs(a - b) for a, b in zip(now, base, strict=True)) / len(now)

    assert apart[True] < apart[False]

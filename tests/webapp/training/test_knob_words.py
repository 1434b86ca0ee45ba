"""The meanings of knobs reach catalogues, though they stand in docstrings."""

from __future__ import annotations

from checkpoints.line_policies import Policy
from training import config
from training.recipes import published
from webapp.console.training.knob_words import MEANINGS, plain


def test_every_knobs_meaning_is_known_to_catalogues_and_no_other():
    of_policy = [field.description for field in Policy.model_fields.values()]
    said = {plain(one) for one in [*config.reasons().values(), *of_policy]}
    said |= {one.title for one in published().values()}
    missing = "\n".join(f'    _("{one}"),' for one in sorted(said - MEANINGS))
    assert said == MEANINGS, f"Missing in knob_words.py:\n{missing}\nGone: {sorted(MEANINGS - said)}"

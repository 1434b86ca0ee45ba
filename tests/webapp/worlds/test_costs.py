"""What an attempt cost is said in words."""

from __future__ import annotations

import pytest

from tests.webapp.conftest import text_of


@pytest.mark.parametrize(("code", "read"), [("en", "812 tokens read"), ("de", "812 Tokens gelesen")])
def test_what_an_attempt_cost_says_what_it_counts(console, make_group, play, code, read):
    cost = {"prompt_tokens": 812, "completion_tokens": 1, "seconds": 4.5, "steps": 3, "invalid": 1, "wheel_turns": 2}
    episode = play(make_group(), cost=cost)
    page = text_of(console.get(f"/worlds/episodes/{episode.pk}/", headers={"accept-language": code}))
    assert read in page
    assert "2 wheel turns" in page  # a player's own
    assert not {raw for raw in cost if "_" in raw and raw in page}

"""One reason for which several attempts have no outcome is said once."""

from __future__ import annotations

from tests.webapp.conftest import text_of

HOME = "/worlds/"
MISSING = "bubblewrap is not installed: run sudo apt-get install bubblewrap."


def test_one_reason_for_which_several_worlds_failed_is_said_once_with_their_names(console, make_group, play):
    for world in ("abacus", "bakery", "cellar"):
        group = make_group(world, world=world)
        play(group, "infra_error", reason=MISSING)
        last = play(group, "infra_error", reason=MISSING)
    alone = play(make_group("alone", world="dairy"), "infra_error", reason="The disk is full.")
    page = text_of(console.get(HOME))
    assert page.count(MISSING) == 1
    assert "abacus, bakery, cellar" in page
    assert f'<a href="/worlds/episodes/{last.pk}/">{MISSING}</a>' in page
    assert f'<a href="/worlds/episodes/{alone.pk}/">The disk is full.</a>' in page


def test_attempts_that_were_stopped_or_gave_no_reason_are_not_said_to_share_one(console, make_group, play):
    for world in ("abacus", "bakery"):
        group = make_group(world, world=world)
        play(group, "infra_error")
        play(group, "cancelled", reason="The player was stopped.")
    assert "for one reason" not in text_of(console.get(HOME))


def test_one_reason_of_several_attempts_in_one_world_is_said_once(console, make_group, play):
    group = make_group()
    for reason in ("The disk is full.", MISSING, MISSING):
        play(group, "infra_error", reason=reason)
    page = text_of(console.get(HOME))
    assert (page.count(MISSING), page.count("The disk is full.")) == (1, 1)
    assert "for one reason" not in page

"""One attempt and its group: each step with what it was worth and why, before a run and after it."""

from __future__ import annotations

import pytest
from django.urls import reverse

from core.visible import HIDDEN
from feedback.models import Feedback
from tests.webapp.conftest import text_of
from tests.webapp.worlds.conftest import Did
from training.models import Sample

GOOD, BAD = Did(), Did(arguments={"item": "cow"}, result="Error: that is not on the list.", score=-1.0)


def page(client, episode):
    return text_of(client.get(f"/worlds/episodes/{episode.pk}/"))


def beside(client, group):
    return text_of(client.get(f"/worlds/groups/{group.pk}/"))


def worth(score, value="", advantage="", left_out=""):
    """As a page says it."""
    said = f'score <strong class="number">{score}</strong>'
    if value:
        said += f'</span> <span>value <strong class="number">{value}</strong>'
    if advantage:
        said += f'</span> <span>advantage <strong class="number">{advantage}</strong>'
    if left_out:
        said += f'</span> <span class="quiet">left out: {left_out}'
    return said


@pytest.fixture
def pair(make_group, play):
    """Two attempts of a judged group: solved in two steps, and failed in one."""
    group = make_group(judged=True, attempts=2)
    solved = play(group, "solved", (GOOD, Did("answer", {"value": 7}, "", 1.0)))
    failed = play(group, "failed", (BAD,), checks={"right": False})
    return group, solved, failed


def test_before_a_run_a_group_is_worth_what_training_would_find(console, pair):
    group, *_ = pair
    html = beside(console, group)
    # At step 1: 1 + 1 = 2 and −1 − 1 = −2. Their mean is 0 and their spread 2, so +1 and −1.
    assert worth("+1", "+2", "+1.00") in html
    assert worth("−1", "−2", "−1.00") in html
    # Only one came to step 2.
    assert worth("+1", "+2", left_out="no other attempt came as far as this step") in html
    assert "As training would find them now." in html
    assert "index. Each step is compared" in html
    assert "It teaches: 2 steps of it" in html


def test_a_group_that_a_run_has_says_so_and_waits_no_more(console, pair, make_run):
    group, *_ = pair
    assert "It waits for training." in beside(console, group)
    run = make_run()
    Sample.objects.update(status="claimed", run=run)
    html = beside(console, group)
    assert f"It is in {run}." in html
    assert "It waits for training." not in html


def test_after_a_run_they_are_worth_what_the_run_found(console, pair, make_run):
    group, solved, failed = pair
    run = make_run(agents={"baseline": "pooled"})
    rows = Sample.objects.filter(episode__group=group)
    rows.update(status="trained", run=run)
    rows.filter(episode=solved, step=0).update(advantage=0.25)
    rows.filter(episode=solved, step=1).update(advantage=0.5)
    rows.filter(episode=failed).update(left_out="all attempts are equal here")
    html = beside(console, group)
    assert worth("+1", "+2", "+0.25") in html
    assert worth("+1", "+2", "+0.50") in html
    assert worth("−1", "−2", left_out="all attempts are equal here") in html
    assert "pooled. Each step’s score and outcome" in html
    assert f"It taught: run {run.pk} learned from 2 steps of it." in html
    assert reverse("console:run", args=[run.pk]) in html
    assert "which learned from it, found them (baseline pooled)" in page(console, failed)


def test_before_it_is_judged_values_are_not_known_and_the_page_says_so(console, make_group, play):
    group = make_group()
    episode = play(group, "failed", (BAD,))
    play(group, "solved")
    for html in (beside(console, group), page(console, episode)):
        assert "Not known before every step of the group has its score." in html
        assert "advantage <strong" not in html
    assert f'{worth("−1")} <span class="quiet">by the world’s rule</span>' in page(console, episode)
    unscored = play(make_group("b"), "failed", (Did(score=None),))
    assert worth("?") in page(console, unscored)


def test_what_does_not_count_says_why_at_each_step(console, make_group, play):
    group = make_group(judged=True)
    void = play(group, "infra_error", (Did(score=None),), reason="Its player gave no sign of life for 600 s.")
    for _ in range(2):
        play(group)
    html = page(console, void)
    assert "Its player gave no sign of life for 600 s. It teaches nothing: the world failed, not the agent." in (
        html.replace("</strong>", "")
    )
    assert worth("?", left_out="the world failed, not the agent") in html
    assert "Not counted: the world failed, not the agent." in beside(console, group)
    # The other two are equal everywhere, so that nothing of the group teaches.
    assert "It teaches nothing: at no step do its attempts differ." in beside(console, group)


def test_a_cut_off_attempt_counts_as_lost(console, make_group, play):
    group = make_group(judged=True)
    play(group, "truncated", (GOOD,), cut_by="horizon")
    play(group, "solved", (GOOD,))
    # 1 − 1 = 0 beside 1 + 1 = 2: the mean is 1 and the spread 1.
    html = beside(console, group)
    assert worth("+1", "0", "−1.00") in html
    assert worth("+1", "+2", "+1.00") in html


@pytest.mark.parametrize(
    ("fields", "ends", "said"),
    [
        ({"attempts": 8}, ("solved", "failed"), "It is being played: 2 of 8 attempts are over."),
        ({"split": "heldout"}, ("solved", "failed"), "It is held out: it examines, and never teaches."),
        ({}, ("solved", "failed"), "It is complete: 2 of 2 attempts count. Its steps are being judged."),
    ],
)
def test_a_group_says_whether_it_teaches(console, make_group, play, fields, ends, said):
    group = make_group(**fields)
    for ending in ends:
        play(group, ending)
    assert said in beside(console, group)


def test_many_attempts_stand_side_by_side_sixteen_at_a_time(console, make_group, play):
    group = make_group()
    rows = [play(group) for _ in range(18)]

    def shown(query):
        html = console.get(f"/worlds/groups/{group.pk}/{query}").content.decode()
        return [n for n, row in enumerate(rows) if f"/worlds/episodes/{row.pk}/" in html]

    assert shown("") == list(range(16))
    assert shown("?from=16") == [16, 17]
    assert shown("?from=99999") == []


# ---------- played back ----------


def test_each_step_shows_what_is_new_what_was_done_and_what_came_back(console, make_group, play):
    steps = (GOOD, Did("add", "not json", "12"), Did("answer", {"value": 12}, ""))
    html = page(console, play(make_group(), "solved", steps))
    first, second, third = html.split('id="step-')[1:]
    assert "What do a hat and a jar cost?" in first
    assert "What do a hat and a jar cost?" not in second  # it was shown it before
    assert "{&quot;item&quot;: &quot;hat&quot;}" in first
    assert "Shown: what came back at step 1" in second
    assert "its arguments are no JSON" in second
    assert "not json" in second
    assert "Nothing: the attempt ended here." in third
    assert "10 tokens read, 3 written" in first


def test_a_history_that_was_written_anew_is_shown_whole(console, make_group, play):
    episode = play(make_group(), "solved", (GOOD, GOOD))
    turn = episode.session.turns.get(position=1)
    turn.messages = [{"role": "user", "content": "In short: a hat and a jar."}]
    turn.save()
    second = page(console, episode).split('id="step-2"')[1]
    assert "Its history was written anew: this is all of it." in second
    assert "In short: a hat and a jar." in second


def test_votes_are_there_with_their_reasons(console, make_group, play):
    voted = Did(score=-1.0, votes=(-1, 1, -1))
    html = page(console, play(make_group(judged=True), "failed", (voted,)))
    assert html.count("The tool said so, number") == 3
    assert "by the judges’ majority" in html


HOSTILE = "<script>alert(1)</script>\x1b[2J\u202etxt.exe"


def test_text_of_agents_and_tools_is_escaped_and_seen_everywhere(console, make_group, play):
    group = make_group(judged=True, name=HOSTILE, task=HOSTILE, world=HOSTILE)
    step = Did(HOSTILE, HOSTILE, HOSTILE, -1.0, votes=(-1,))
    episode = play(group, "failed", (step,), checks={HOSTILE: False})
    play(group, "solved")
    for address in ("/worlds/", "/worlds/attempts/", "/worlds/tasks/", "/worlds/groups/",
                    f"/worlds/groups/{group.pk}/", f"/worlds/episodes/{episode.pk}/"):  # fmt: skip
        html = console.get(address).content.decode()
        assert "<script>alert" not in html, address
        assert not HIDDEN.search(html), address
    assert "&lt;script&gt;alert(1)&lt;/script&gt;␛[2J⟨U+202E⟩txt.exe" in html


def test_long_text_is_folded_and_the_longest_is_cut(console, make_group, play):
    html = page(console, play(make_group(), "solved", (Did(result="x" * 30_000),)))
    assert "30000 characters" in html
    assert "The first 20000 characters." in html
    assert "x" * 20_001 not in html


def test_a_deleted_conversation_leaves_the_figures(console, make_group, play):
    episode = play(make_group(), "failed", (BAD,), checks={"right": False})
    episode.session.delete()
    html = page(console, episode)
    assert "Its answer was wrong: check “right” is false." in html
    assert "Its conversation was deleted." in html
    assert "deleted; its figures are kept" in html


def test_a_person_gives_a_step_of_their_own_a_thumb(client, talker, make_group, play):
    client.force_login(talker)
    episode = play(make_group(), "failed", (BAD,))
    turn = episode.session.turns.get()
    assert f'id="thumb-down-{turn.pk}" class="icon-button" name="value" value="-1"' in page(client, episode)
    where = reverse("feedback:give", args=[turn.pk])
    answer = client.post(where, {"kind": "thumb", "value": -1}, headers={"HX-Request": "true"})
    assert f'id="thumbs-{turn.pk}"' in answer.content.decode()  # what the page takes over
    assert Feedback.objects.get().value == -1
    pressed = f'id="thumb-down-{turn.pk}" class="icon-button" name="value" value="0"'
    assert pressed in page(client, episode)


def test_another_persons_step_has_no_thumbs(console, make_group, play):
    assert "thumb-form" not in page(console, play(make_group(), "failed", (BAD,)))


def test_an_attempt_leads_to_its_neighbours_its_group_and_its_chat(client, talker, make_group, play):
    client.force_login(talker)
    group = make_group()
    first, second, third = (play(group) for _ in range(3))
    html = page(client, second)
    for to in (first, third):
        assert f'href="/worlds/episodes/{to.pk}/"' in html
    assert f'href="/worlds/groups/{group.pk}/"' in html
    assert reverse("chat:session", args=[second.session_id]) in html


# ---------- runs ----------


AGENTS = {
    "baseline": "index",
    "groups": 2,
    "attempts": 15,
    "mean_length": 4.25,
    "truncated_share": 0.2,
    "success": 0.4,
    "attempts_at": {"0": 15, "1": 12},
    "left_out": {"all attempts are equal here": 9},
    "rows": 17,
    "apart": {"the history was cut": 2},
    "alarms": ["Attempts grow longer, and success does not."],
}


def test_a_run_shows_what_it_says_of_agents_and_leads_to_its_groups(console, pair, make_run, make_group, play):
    group, solved, _ = pair
    run = make_run(agents=AGENTS)
    Sample.objects.filter(episode__group=group).update(status="trained", run=run)
    play(make_group("other"))
    html = text_of(console.get(reverse("console:run", args=[run.pk])))
    for said in (
        "15, of which 40 % solved their task",
        "4.25 steps",
        '<dt>Cut off</dt><dd class="number">20 %</dd>',
        "17; steps that began a row of their own: 2 (the history was cut)",
        "9 steps: all attempts are equal here",
        "Attempts grow longer, and success does not.",
        '<th scope="col" class="number">2</th></tr></thead><tbody><tr><th scope="row">Attempts</th>'
        '<td class="number">15</td><td class="number">12</td>',  # steps count from 1
        f"/worlds/episodes/{solved.pk}/#step-2",
    ):
        assert said in html, said
    listed = text_of(console.get(f"/worlds/groups/?run={run.pk}"))
    assert group.name in listed
    assert "other" not in listed
    assert (
        '<td data-label="Solved" class="number">1 of 2</td>' in listed
    )  # of two attempts, though they had three steps


def test_a_run_without_agents_says_nothing_of_them(console, make_run):
    assert "run-agents" not in text_of(console.get(reverse("console:run", args=[make_run().pk])))

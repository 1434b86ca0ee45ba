"""What agents played for an exam, on the candidate's page: both with intervals, and what is still awaited."""

from __future__ import annotations

import pytest
from django.urls import reverse
from django.utils import timezone

from accounts.models import Role
from accounts.roles import give
from checkpoints.models import Checkpoint
from episodes.models import Episode, Exam, Group
from gate import agent_pairs
from gate.agent_pairs import Attempt, Pair, Played
from gate.models import Examination
from tests.webapp.conftest import text_of, unfolded

YES = Attempt(is_solved=True, is_cut=False, steps=4, invalid=0, tokens=40)
NO = Attempt(is_solved=False, is_cut=True, steps=8, invalid=2, tokens=80)


@pytest.fixture
def groups(operator):
    """Live's group and the candidate's at the first task."""
    return [
        Group.objects.create(
            user=operator, name=name, world="till", task="heldout-0", split="heldout", checkpoint=Checkpoint.live()
        ).pk
        for name in ("exam-1/0", "exam-1/1")
    ]


@pytest.fixture
def played(make_checkpoint, operator, groups):
    """Of twelve tasks, four attempts each: live solved all, the candidate half of each, and none of the first."""
    pairs = [
        Pair(f"heldout-{task}", number, YES, YES if task and number % 2 else NO)
        for task in range(12)
        for number in range(4)
    ]
    found = Played(
        1, "till", operator.pk, 50, True, pairs=pairs, left_out={"the world failed": 2},
        groups={"heldout-0": (groups[0], groups[1])},
    )  # fmt: skip
    checkpoint = make_checkpoint(1, "rejected")
    checks = [vars(check) | {"worst": list(check.worst)} for check in agent_pairs.findings(found)]
    Examination.objects.filter(checkpoint=checkpoint).update(agents=[found.written()], checks=checks, passed=False)
    return checkpoint


def test_the_page_shows_both_with_intervals_and_leads_to_the_groups(console, played, groups):
    page = unfolded(console, played.number)
    # The candidate solved 22 of 48: 11 tasks at a half. 0.5 · 11 / 12 = 46 %, and live 100 %: −54 %.
    assert "46% (" in page
    assert "−54% (−" in page
    assert "100% (76% to 100%)" in page  # Wilson's of 12 of 12: 12 / (12 + 1.96²) = 0.757
    # Replies: 4 of live; (8 + 11 · 6) / 12 = 6.2. Tokens: 48 · 40 / 48, and (22 · 40 + 26 · 80) / 22 = 134.5.
    assert "4.0 (4.0 to 4.0)" in page
    assert "6.2 (" in page
    assert '<td class="number nowrap">40</td><td class="number nowrap">135</td>' in page
    assert "till <span" in page
    assert "of ana: 48 pairs of 50" in page
    assert "Left out: 2 pairs, the world failed." in page
    assert "solved 4 → 0 of 4" in page
    for group in groups:
        assert f'href="{reverse("worlds:group", args=[group])}"' in page
    assert 'href="#agents-heldout-0"' in page  # from the check that failed to the task it lost most on
    assert 'id="agents-heldout-0"' in page
    assert "Agents solve fewer held-out tasks." in page


def test_another_persons_groups_are_not_linked(client, played, talker, groups):
    give(talker, Role.OPERATOR)
    client.force_login(talker)
    page = unfolded(client, played.number)
    assert "solved 4 → 0 of 4" in page
    assert reverse("worlds:group", args=[groups[0]]) not in page


def test_what_agents_are_awaited_for_is_said_with_the_command(console, operator, make_checkpoint):
    candidate = make_checkpoint(1, "candidate")
    exam = Exam.objects.create(
        user=operator, world="till", candidate=candidate, live=Checkpoint.live(), tasks=12, attempts=4, seed=1
    )
    group = Group.objects.create(
        user=operator, name=f"exam-{exam.pk}/0", world="till", task="t", split="heldout", checkpoint=candidate
    )
    now = timezone.now()
    Episode.objects.create(
        group=group, attempt=0, status="scored", ending="solved", outcome=1, lease_s=9, lease_until=now
    )
    Episode.objects.create(group=group, attempt=1, lease_s=9, lease_until=now)  # it is being played
    path = reverse("console:checkpoint", args=[1])
    page = text_of(console.get(path))
    assert '<span class="number">1 of 96</span> attempts played' in page  # 12 tasks · 4 attempts · 2
    assert "python3 -m environments worlds exam --world till" in page
    assert "The exam waits for it" in page

    Examination.objects.create(checkpoint=candidate, against=Checkpoint.live(), progress={"phase": "agents"})
    board = text_of(console.get(reverse("console:board")))
    assert "Agents play against talkback@0: 1 of 96 attempts." in board

    Exam.objects.update(lapsed_at=now)
    assert "Played before a person decides, it still counts." in text_of(console.get(path))
    Exam.objects.update(ended_at=now)
    assert "Agents play held-out tasks" not in text_of(console.get(path))

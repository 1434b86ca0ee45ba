"""A step of an episode is not learned from as a reply of its own, whatever is said of it."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.utils import timezone

from checkpoints.models import Checkpoint
from episodes.models import Episode, Group
from judge.models import Judgement, Vote
from judge.samples.sample_rows import Reason
from training.models import Sample

pytestmark = pytest.mark.django_db


@pytest.mark.parametrize("is_step", [True, False])
def test_a_step_of_an_episode_makes_no_sample_of_its_own(serve, say, judge_it, person, is_step):
    turn = serve()
    if is_step:
        group = Group.objects.create(
            user=person, name="g", world="till", task="sum", split="train", checkpoint=Checkpoint.live()
        )
        until = timezone.now() + timedelta(hours=1)
        Episode.objects.create(group=group, attempt=0, session=turn.session, lease_s=3600, lease_until=until)
    say(turn, "thumb", value=-1)
    assert judge_it(turn)
    judgement = Judgement.objects.get(turn=turn)
    assert judgement.reward == -1  # what was said is kept in either case
    assert Sample.objects.exists() is not is_step
    assert (judgement.reason == Reason.EPISODE) is is_step
    assert not Vote.objects.exists()

"""A trial on the real embedded engine: drawn sessions are answered by the candidate's weights, the others are not."""

from __future__ import annotations

from asgiref.sync import async_to_sync
from django.contrib.auth import get_user_model

from chat.models import Session, Turn
from chat.replying import replies
from checkpoints import trials
from checkpoints.models import Checkpoint
from gpu_workers.types import Sampling
from tests.chat.conftest import ask_in
from tests.checkpoints.test_promotion_engine import policy, saved  # noqa: F401

GREEDY = Sampling(max_new_tokens=6, temperature=0.0)


async def written(turn, engine):
    async for _ in replies.reply(turn, engine):
        pass
    return await Turn.objects.select_related("checkpoint").aget(pk=turn.pk)


def test_each_session_is_answered_by_the_weights_it_was_drawn_for(policy, saved, settings, tiny_model):  # noqa: F811
    settings.MODEL = str(tiny_model)
    candidate = saved(1, files=1, probed=1)
    Checkpoint.objects.filter(pk=candidate.pk).update(status="passed")
    ana = get_user_model().objects.create_user("ana")
    trial = async_to_sync(trials.start)(candidate, share=50, by=None)
    said = [{"role": "user", "content": "Hello"}]
    sides = {}
    while len(sides) < 2:  # one session of either side
        session = Session.objects.create(user=ana)
        sides.setdefault(trials.falls_to(trial.pk, session.pk, 50), session)

    for drawn, session in sides.items():
        turn = async_to_sync(written)(ask_in(session, said, sampling=GREEDY), policy)
        told = async_to_sync(policy.score)(turn.prompt_ids, turn.response_ids, adapter=candidate.adapter)
        base = async_to_sync(policy.score)(turn.prompt_ids, turn.response_ids)
        of_its_own, of_the_other = (told, base) if drawn else (base, told)
        assert turn.checkpoint.number == int(drawn)
        assert abs(sum(of_its_own.logprobs) - sum(of_the_other.logprobs)) > 1e-3  # the two do differ on this reply
        greedy = async_to_sync(policy.generate)(turn.prompt_ids, GREEDY, adapter=candidate.adapter if drawn else None)
        assert list(greedy.ids) == turn.response_ids

"""Which checkpoint answers whom: each person's line, and no other."""

import asyncio
import json

import pytest
from asgiref.sync import sync_to_async
from django.db import connection
from django.test.utils import CaptureQueriesContext

from chat.api_keys import ApiKey
from chat.models import Session
from checkpoints.models import SHARED, Checkpoint, Line, Member
from tests.chat.conftest import ask_in
from webapp.console.key_pages import KeyForm

pytestmark = pytest.mark.django_db(transaction=True, serialized_rollback=True)
HI = {"messages": [{"role": "user", "content": "Hello"}]}


@pytest.fixture
def weights(engine):
    """One live checkpoint of the shared line, and two of each person's own: 1; ana 2 and 3; ben 4 and 5."""

    async def weights(ana, ben):
        base = await Checkpoint.objects.aget(number=0)
        await sync_to_async(base.move)("retired")
        rows = [(1, SHARED, "live")]
        for user, first in ((ana, 2), (ben, 4)):
            line = await Line.objects.acreate(name=user.username, title=user.username, start=base)
            await Member.objects.acreate(user=user, line=line)
            rows += [(first, line.name, "retired"), (first + 1, line.name, "live")]
        for number, line, status in rows:
            made = await Checkpoint.objects.acreate(
                number=number, line_id=line, status=status, adapter=f"talkback-{number}-x", path="x"
            )
            await engine.load_adapter(made.adapter, str(made.folder))

    return weights


@pytest.fixture
def ask(async_client):
    async def ask(user, **body):
        _, secret = await sync_to_async(ApiKey.objects.issue)(user, "k")
        headers = {"Authorization": f"Bearer {secret}"}
        body = json.dumps(HI | body)
        return await async_client.post("/v1/chat/completions", body, content_type="application/json", headers=headers)

    return ask


async def test_two_people_are_answered_by_their_own_lines_at_once(ana, ben, weights, ask, engine, django_user_model):
    await weights(ana, ben)
    cleo = await sync_to_async(django_user_model.objects.create_user)("cleo")
    engine.says("Hello.", times=3)
    answers = await asyncio.gather(*(ask(who) for who in (ana, ben, cleo)))
    assert [answer.json()["model"] for answer in answers] == ["talkback@3", "talkback@5", "talkback@1"]
    assert {call.adapter for call in engine.asked("stream")} == {"talkback-3-x", "talkback-5-x", "talkback-1-x"}


async def test_the_browser_is_answered_by_the_line_of_whose_chat_it_is(ana, ben, weights):
    await weights(ana, ben)
    for who, number in ((ana, 3), (ben, 5)):
        session = await Session.objects.acreate(user=who)
        turn = await sync_to_async(ask_in)(session, HI["messages"])
        assert turn.checkpoint.number == number


async def test_another_persons_checkpoints_are_neither_listed_nor_found(ana, ben, weights, ask, engine, async_client):
    await weights(ana, ben)
    _, secret = await sync_to_async(ApiKey.objects.issue)(ana, "k")
    headers = {"Authorization": f"Bearer {secret}"}

    listed = (await async_client.get("/v1/models", headers=headers)).json()["data"]
    assert listed[0]["root"] == "talkback@3"
    names = {model["id"] for model in listed}
    assert names == {"talkback", "talkback@3", "talkback@2", "talkback@1", "talkback@0", "talkback@base"}
    for number in (4, 5):
        answer = await ask(ana, model=f"talkback@{number}")
        assert (answer.status_code, answer.json()["error"]["code"]) == (404, "model_not_found")
        assert (await async_client.get(f"/v1/models/talkback@{number}", headers=headers)).status_code == 404
    engine.says("Hello.", times=2)
    for number in (1, 2):
        assert (await ask(ana, model=f"talkback@{number}")).json()["model"] == f"talkback@{number}"


async def test_a_pinned_key_keeps_its_checkpoint_and_a_key_is_pinned_to_ones_own_only(ana, ben, weights, async_client):
    await weights(ana, ben)

    def offered(user):
        return set(KeyForm(user).fields["checkpoint"].queryset.values_list("number", flat=True))

    assert await sync_to_async(offered)(ana) == {0, 1, 2, 3}
    assert await sync_to_async(offered)(ben) == {0, 1, 4, 5}
    pinned = await Checkpoint.objects.aget(number=2)
    _, secret = await sync_to_async(ApiKey.objects.issue)(ana, "k", checkpoint=pinned)
    headers = {"Authorization": f"Bearer {secret}"}
    body = json.dumps(HI)
    answer = await async_client.post("/v1/chat/completions", body, content_type="application/json", headers=headers)
    assert answer.json()["model"] == "talkback@2"


def test_a_line_costs_a_new_turn_no_query_more(ana):
    def asked():
        with CaptureQueriesContext(connection) as caught:
            ask_in(Session.objects.create(user=ana), HI["messages"])
        return len([one for one in caught if "chat_clientrules" not in one["sql"]])  # looked at every few seconds

    asked()
    alone = asked()
    line = Line.objects.create(name="ana", title="Ana", start=Checkpoint.live())
    Member.objects.create(user=ana, line=line)
    assert asked() == alone

"""Limits of a key: requests a minute, tokens a day."""

from __future__ import annotations

import json
import logging
import time
from datetime import timedelta

import pytest
import redis
from asgiref.sync import sync_to_async
from django.utils import timezone

from benchmarks.patience import Patience
from chat import limits
from chat.api_keys import ApiKey
from chat.models import Turn
from chat.spendings import Spending
from installation.diagnosis import free_port
from tests.chat.api.conftest import HI, change, refusal
from tests.chat.conftest import open_turn, reply_to, user

pytestmark = pytest.mark.django_db(transaction=True, serialized_rollback=True)


@pytest.fixture
def counting(store, settings, monkeypatch):
    settings.REDIS_URL = store
    monkeypatch.setattr(limits, "_away_until", float("-inf"))
    monkeypatch.setattr(limits, "PATIENCE_S", 20.0)  # or a slow moment would let everybody in
    limits.script.cache_clear()


async def test_requests_a_minute_are_counted_and_the_next_one_says_when(knock, key, counting):
    await change(key, requests_per_minute=2)
    assert [(await knock()).status_code for _ in range(2)] == [200, 200]
    answer = await knock()
    status, code, message = await refusal(answer)
    assert (status, code) == (429, "rate_limit_exceeded")
    assert "2 requests a minute" in message
    assert 1 <= int(answer["Retry-After"]) <= 30
    assert (answer["x-ratelimit-limit-requests"], answer["x-ratelimit-remaining-requests"]) == ("2", "0")
    assert await Turn.objects.acount() == 2


async def test_the_bucket_fills_again_by_itself(key, counting, store):
    key.requests_per_minute = 60  # one a second
    with redis.Redis.from_url(store) as client:
        client.set(f"talkback:rate:{key.digest[:32]}", time.time() + 60)  # as if all had just been sent
    with pytest.raises(limits.RateLimited) as limited:
        limits.check_rate(key)
    assert 0 < limited.value.retry_after_s <= 1
    patience = Patience(10)
    while True:
        try:
            limits.check_rate(key)
            break
        except limits.RateLimited:
            assert not patience.is_over, "it never fills"


async def test_keys_are_counted_apart(key, ben, counting):
    other, _ = await sync_to_async(ApiKey.objects.issue)(ben, "other", requests_per_minute=1)
    key.requests_per_minute = 1
    limits.check_rate(key)
    limits.check_rate(other)
    with pytest.raises(limits.RateLimited):
        limits.check_rate(key)


async def test_of_many_at_once_no_more_get_in_than_may(key, counting):
    from concurrent.futures import ThreadPoolExecutor

    key.requests_per_minute = 10

    def gets_in(_: int) -> bool:
        try:
            limits.check_rate(key)
        except limits.RateLimited:
            return False
        return True

    with ThreadPoolExecutor(16) as many:
        assert sum(many.map(gets_in, range(40))) == 10


async def test_while_redis_is_away_everybody_gets_in_and_it_is_said_once(knock, key, settings, monkeypatch, caplog):
    settings.REDIS_URL = f"redis://127.0.0.1:{free_port()}/0"
    monkeypatch.setattr(limits, "_away_until", float("-inf"))
    monkeypatch.setattr(limits, "PAUSE_S", 0.0)  # asked again each time
    await change(key, requests_per_minute=1)
    with caplog.at_level(logging.WARNING, "chat.limits"):
        assert [(await knock()).status_code for _ in range(3)] == [200, 200, 200]
    assert len([line for line in caplog.records if line.name == "chat.limits"]) == 1


async def test_a_key_without_limits_asks_no_store(key, monkeypatch, django_assert_num_queries):
    def asked(*args):
        raise AssertionError("Redis was asked")

    monkeypatch.setattr(limits, "take_from_bucket", asked)

    def check():
        with django_assert_num_queries(0):
            limits.check_rate(key)
            limits.check_spending(key)

    await sync_to_async(check)()


async def test_tokens_a_day_are_prompt_and_reply_and_end_at_midnight(knock, key, engine):
    await change(key, tokens_per_day=10)
    engine.says("Hello, captain.")
    assert (await knock()).status_code == 200
    turn = await Turn.objects.aget()
    spent = await Spending.objects.aget(key=key)
    assert spent.tokens == len(turn.prompt_ids) + len(turn.response_ids) >= 10
    assert spent.day == timezone.now().date()

    answer = await knock()

    status, code, message = await refusal(answer)
    assert (status, code) == (429, "rate_limit_exceeded")
    assert "10 tokens a day" in message
    assert 0 < int(answer["Retry-After"]) <= 24 * 3600
    assert (await knock("/v1/models")).status_code == 200
    await Spending.objects.aupdate(day=spent.day - timedelta(days=1))
    assert (await knock()).status_code == 200


async def test_a_reply_that_was_stopped_counts_what_it_took(key, session, engine):
    await change(key, tokens_per_day=10**6)
    session.key = key
    await session.asave()
    turn = await open_turn(session, [user("Say hello")])
    done = await reply_to(turn, engine)
    assert (await Spending.objects.aget(key=key)).tokens == len(done.prompt_ids) + len(done.response_ids)


async def test_several_choices_count_their_prompt_once(async_client, key, engine):
    await change(key, tokens_per_day=10**6)
    headers = {"Authorization": f"Bearer {key.secret}"}
    body = json.dumps(HI | {"n": 3})
    answer = await async_client.post("/v1/chat/completions", body, content_type="application/json", headers=headers)
    assert len(answer.json()["choices"]) == 3
    assert (await Spending.objects.aget(key=key)).tokens == answer.json()["usage"]["total_tokens"]


async def test_tokens_are_not_counted_for_a_key_without_a_limit(knock):
    assert (await knock()).status_code == 200
    assert not await Spending.objects.aexists()

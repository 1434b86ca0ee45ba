"""An agent plays: its episode is opened, talks through /v1 with its own key, acts at most once, and is closed."""

from __future__ import annotations

import pytest
from asgiref.sync import sync_to_async
from django.db import IntegrityError, transaction
from django.utils import timezone

from chat.api_keys import ApiKey
from chat.models import Session, Turn
from chat.spendings import Spending
from checkpoints.models import Checkpoint
from episodes.models import Episode, Group
from tests.episodes.answers import SOLVED, code
from tests.episodes.conftest import HI, TASK, issued

pytestmark = pytest.mark.django_db(transaction=True, serialized_rollback=True)


async def test_an_episode_is_opened_talks_with_its_own_key_and_is_closed(ask, begin, say):
    episode = await begin()
    assert (episode["state"], episode["status"], episode["outcome"]) == ("playing", None, None)
    assert episode["model"] == str(await sync_to_async(Checkpoint.live)())
    _, first = await say(episode)
    await say(episode, [*HI, {"role": "assistant", "content": first["content"]}, {"role": "user", "content": "And?"}])

    status, closed = await ask(f"episodes/{episode['id']}/close", SOLVED)

    assert status == 200
    assert (closed["state"], closed["status"], closed["outcome"]) == ("scored", "solved", 1.0)
    assert (closed["checks"], closed["cost"]) == (SOLVED["checks"], SOLVED["cost"])
    session = await Session.objects.aget()
    assert (str(session.pk), session.closed_at is not None) == (episode["session"], True)
    assert await session.turns.acount() == 2
    assert await ask(f"episodes/{episode['id']}", method="get") == (200, closed)


async def test_closing_twice_changes_nothing_and_closing_otherwise_is_refused(ask, begin):
    path = f"episodes/{(await begin())['id']}/close"
    first = await ask(path, SOLVED)
    assert await ask(path, SOLVED) == first
    assert code(await ask(path, SOLVED | {"outcome": 0.5})) == (409, "episode_closed")
    assert code(await ask(path, {"status": "infra_error"})) == (409, "episode_closed")
    assert (await Episode.objects.aget()).outcome == 1.0


async def test_why_an_attempt_is_void_is_kept_as_its_player_says_it(ask, begin):
    path, failed = f"episodes/{(await begin())['id']}/close", {"status": "infra_error", "reason": "The browser died."}
    status, shown = await ask(path, failed)
    assert (status, shown["reason"]) == (200, "The browser died.")
    assert await ask(path, failed) == (status, shown)
    assert code(await ask(path, failed | {"reason": "It did not."})) == (409, "episode_closed")


@pytest.mark.parametrize(
    "body",
    [
        '{"status": "solved", "outcome": 1, "reason": "It was easy."}',
        '{"status": "solved", "outcome": NaN}',
        '{"status": "solved", "outcome": Infinity}',
        '{"status": "solved", "outcome": 2}',
        '{"status": "failed", "outcome": -1.01}',
        '{"status": "solved", "outcome": null}',
        '{"status": "solved"}',
        '{"status": "gave_up"}',
        '{"status": "solved", "outcome": true}',
        '{"status": "solved", "outcome": "1"}',
        '{"status": "infra_error", "outcome": 0}',
        '{"status": "cancelled", "outcome": -1}',
        '{"status": "won", "outcome": 1}',
        '{"outcome": 1}',
        '{"status": "failed", "outcome": -1, "truncated_by": "horizon"}',
        '{"status": "failed", "outcome": -1, "reward": 1}',
        '{"status": "failed", "outcome": -1, "cost": {"tokens": -1}}',
        '{"status": "failed", "outcome": -1, "checks": {"a": "yes"}}',
    ],
)
async def test_an_outcome_that_is_none_is_refused_and_the_episode_plays_on(ask, begin, body):
    episode = await begin()
    status, said = await ask(f"episodes/{episode['id']}/close", raw=body)
    assert (status, said["error"]["type"]) == (400, "invalid_request_error")
    assert (await Episode.objects.aget()).status == Episode.Status.PLAYING


async def test_the_refusal_names_the_outcome(ask, begin):
    _, said = await ask(f"episodes/{(await begin())['id']}/close", {"status": "solved"})
    assert said["error"]["param"] == "outcome"
    assert "an attempt that is solved has an outcome from -1 to 1" in said["error"]["message"]


async def test_what_a_world_says_of_single_steps_is_kept_and_compared(ask, begin, say):
    episode = await begin()
    path = f"episodes/{episode['id']}/close"
    turn, _ = await say(episode)
    scored = SOLVED | {"scores": {turn: -0.5}}
    assert (await ask(path, scored))[1]["scores"] == {turn: -0.5}
    assert (await Episode.objects.aget()).scores == {turn: -0.5}
    assert (await ask(path, scored))[0] == 200
    assert code(await ask(path, SOLVED | {"scores": {turn: 0.5}})) == (409, "episode_closed")
    assert code(await ask(path, SOLVED)) == (409, "episode_closed")


async def test_a_score_of_no_answer_of_this_episode_is_refused_and_it_plays_on(ask, begin, say):
    episode, other = await begin(), await begin(attempt=1)
    own, _ = await say(episode)
    foreign, _ = await say(other)
    path = f"episodes/{episode['id']}/close"
    status, said = await ask(path, SOLVED | {"scores": {own: 1, foreign: 1}})
    assert (status, said["error"]["code"], said["error"]["param"]) == (400, "score_unknown", "scores")
    assert foreign in said["error"]["message"]
    assert (await Episode.objects.aget(pk=episode["id"])).status == "playing"
    assert (await ask(path, SOLVED | {"scores": {own: 1}}))[0] == 200


@pytest.mark.parametrize("score", ["NaN", "Infinity", "1.01", "-2", "true", '"1"', "null"])
async def test_a_score_that_is_none_is_refused_and_the_episode_plays_on(ask, begin, say, score):
    episode = await begin()
    turn, _ = await say(episode)
    body = f'{{"status": "failed", "outcome": -1, "scores": {{"{turn}": {score}}}}}'
    status, said = await ask(f"episodes/{episode['id']}/close", raw=body)
    assert (status, said["error"]["type"]) == (400, "invalid_request_error")
    assert (await Episode.objects.aget()).status == Episode.Status.PLAYING


async def test_more_scores_than_any_attempt_has_steps_are_refused(ask, begin):
    episode = await begin()
    body = SOLVED | {"scores": {f"chatcmpl-{n}": 1 for n in range(1001)}}
    assert (await ask(f"episodes/{episode['id']}/close", body))[0] == 400
    assert (await Episode.objects.aget()).status == Episode.Status.PLAYING


async def test_no_attempt_joins_a_group_that_was_judged(ask, begin):
    await begin(attempts=8)
    await Group.objects.aupdate(judged_at=timezone.now())
    assert code(await ask("episodes", TASK | {"attempts": 8, "attempt": 1})) == (409, "group_judged")


@pytest.mark.parametrize("ending", ["infra_error", "cancelled"])
async def test_a_failed_world_and_a_cancelled_attempt_are_void(ask, begin, ending):
    _, closed = await ask(f"episodes/{(await begin())['id']}/close", {"status": ending})
    assert (closed["state"], closed["outcome"], closed["group"]["counted"]) == ("void", None, 0)


@pytest.mark.parametrize(("by", "counted"), [(None, 1), ("horizon", 1), ("context", 0)])
async def test_what_cut_an_attempt_off_is_kept_and_a_full_window_does_not_count(ask, begin, by, counted):
    body = {"status": "truncated", "truncated_by": by}
    _, closed = await ask(f"episodes/{(await begin())['id']}/close", body)
    assert (closed["state"], closed["outcome"], closed["truncated_by"]) == ("scored", None, by or "horizon")
    assert closed["group"]["counted"] == counted


async def test_the_database_itself_holds_no_outcome_that_is_none(begin):
    await begin()

    def write(**fields):
        with transaction.atomic():
            Episode.objects.update(**fields)

    for fields in ({"outcome": 1.5, "ending": "solved"}, {"ending": "solved"}, {"outcome": 1, "ending": "infra_error"}):
        with pytest.raises(IntegrityError):
            await sync_to_async(write)(**fields)


async def test_whatever_its_client_calls_the_session_an_episode_has_one(begin, say):
    episode = await begin()
    await say(episode)
    await say(episode, [{"role": "user", "content": "Another history"}], **{"X-Session-Id": "mine"})
    assert await Session.objects.acount() == 1
    assert await Turn.objects.filter(session_id=episode["session"]).acount() == 2


async def test_its_key_reads_nothing_else_and_says_nothing_of_itself(ask, begin, say, key):
    _, other = await ask("responses", {"input": "Hello", "max_output_tokens": 4})
    await ask("chat/completions", {"messages": HI, "max_tokens": 4}, **{"X-Session-Id": "private"})
    mine, others = await begin(), await begin(attempt=1)
    (spoken, _), (elsewhere, _) = await say(mine), await say(others)
    secret = mine["key"]

    for path in ("sessions/private", f"sessions/{others['session']}", f"completions/{elsewhere}/learning"):
        assert code(await ask(path, method="get", secret=secret)) == (403, "insufficient_scope")
    for name in ("private", others["session"]):
        assert code(await ask(f"sessions/{name}/close", secret=secret)) == (404, "session_not_found")
    assert code(await ask(f"responses/{other['id']}", method="get", secret=secret)) == (404, "response_not_found")
    following = {"input": "Hi", "previous_response_id": other["id"]}
    assert (await ask("responses", following, secret=secret))[0] in (400, 404)
    # An agent that could say how its attempt ended would write its own reward.
    for path, body in (
        (f"episodes/{mine['id']}/close", SOLVED),
        (f"episodes/{others['id']}/close", SOLVED),
        (f"episodes/{mine['id']}/actions", {"turn": spoken}),
        (f"episodes/{mine['id']}/alive", {}),
        ("episodes", TASK | {"attempt": 2}),
        ("feedback", {"completion_id": spoken, "thumb": "up"}),
    ):
        assert code(await ask(path, body, secret=secret)) == (403, "insufficient_scope")
    assert code(await ask(f"episodes/{mine['id']}", method="get", secret=secret)) == (403, "insufficient_scope")
    _, models = await ask("models", method="get", secret=secret)
    assert {model["root"] for model in models["data"]} == {mine["model"]}


async def test_another_persons_key_sees_no_episode(ask, begin, ben):
    episode = await begin()
    secret = (await issued(ben)).secret
    assert code(await ask(f"episodes/{episode['id']}", method="get", secret=secret)) == (404, "episode_not_found")
    for path, body in (("close", SOLVED), ("actions", {"turn": "chatcmpl-1"}), ("alive", {})):
        assert code(await ask(f"episodes/{episode['id']}/{path}", body, secret=secret)) == (404, "episode_not_found")
    # Their groups go by the same names, and are theirs.
    status, theirs = await ask("episodes", TASK, secret=secret)
    assert (status, theirs["group"]["opened"]) == (200, 1)
    assert await Group.objects.acount() == 2


async def test_a_key_that_is_not_for_episodes_opens_none(ask, ana):
    secret = (await issued(ana, scopes=["chat", "feedback"])).secret
    assert code(await ask("episodes", TASK, secret=secret)) == (403, "insufficient_scope")


async def test_the_key_ends_with_its_episode_and_with_the_key_that_asked_for_it(ask, begin, key):
    closed, orphan = await begin(), await begin(attempt=1)
    await ask(f"episodes/{closed['id']}/close", SOLVED)
    assert code(await ask("chat/completions", {"messages": HI}, secret=closed["key"])) == (401, "invalid_api_key")
    assert await ApiKey.objects.exclude(parent=None).filter(revoked_at=None).acount() == 1
    await sync_to_async(key.revoke)()
    assert code(await ask("chat/completions", {"messages": HI}, secret=orphan["key"])) == (401, "invalid_api_key")


async def test_what_an_episode_spends_is_the_players(ask, begin, say, key):
    await ApiKey.objects.filter(pk=key.pk).aupdate(tokens_per_day=1)
    episode = await begin()
    await say(episode)
    turn = await Turn.objects.aget()
    assert (await Spending.objects.aget(key=key)).tokens == len(turn.prompt_ids) + len(turn.response_ids)
    assert code(await ask("chat/completions", {"messages": HI}, secret=episode["key"])) == (429, "rate_limit_exceeded")


async def test_keys_of_episodes_are_on_no_page(begin, key, ana, async_client):
    await begin()
    await async_client.aforce_login(ana)
    for path in ("/connect/", "/connect/keys/", "/privacy/"):
        page = (await async_client.get(path)).content.decode()
        assert "player" in page, path
        assert "episode " not in page, path


async def test_an_attempt_is_opened_once_and_a_lost_answer_costs_nothing(ask, begin, say):
    lost = await begin()
    again = await begin()
    assert (again["id"], again["session"]) == (lost["id"], lost["session"])
    assert code(await ask("chat/completions", {"messages": HI}, secret=lost["key"])) == (401, "invalid_api_key")
    await say(again)
    assert code(await ask("episodes", TASK)) == (409, "attempt_taken")
    assert await Episode.objects.acount() == 1
    assert await Session.objects.acount() == 1


async def test_an_attempt_that_ended_is_not_opened_again(ask, begin):
    episode = await begin()
    await ask(f"episodes/{episode['id']}/close", {"status": "infra_error"})
    assert code(await ask("episodes", TASK)) == (409, "attempt_taken")


@pytest.mark.parametrize(
    ("param", "other"), [("world", "shell"), ("task", "sum-8"), ("split", "heldout"), ("attempts", 8)]
)
async def test_a_group_is_one_task(ask, begin, param, other):
    await begin()
    status, said = await ask("episodes", TASK | {"attempt": 1, param: other})
    assert (status, said["error"]["code"], said["error"]["param"]) == (409, "group_differs", param)


async def test_what_examines_never_teaches(ask, begin, say):
    await begin()
    assert code(await ask("episodes", TASK | {"group": "g2", "split": "heldout"})) == (409, "group_differs")
    held = await begin(group="g3", task="sum-99", split="heldout")
    await say(held)
    assert (await Turn.objects.aget()).learns is False


@pytest.mark.parametrize(
    "wrong",
    [{"attempt": -1}, {"attempt": "0"}, {"attempt": 8, "attempts": 8}, {"split": "test"}, {"world": ""},
     {"task": "a\u202eb"}, {"lease_s": 0}, {"task": None}, {"weights": 3}],
)  # fmt: skip
async def test_a_request_that_cannot_be_kept_is_refused(ask, wrong):
    assert code(await ask("episodes", TASK | wrong)) == (400, "invalid_request")
    assert not await Group.objects.aexists()

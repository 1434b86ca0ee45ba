"""Connecting a client: what is pasted, the test, and the light."""

from __future__ import annotations

import ast
import asyncio
import json
import re
import shlex
import subprocess
from datetime import timedelta

import pytest
from asgiref.sync import sync_to_async
from django.urls import reverse
from django.utils import timezone

from chat.api_keys import ApiKey
from chat.models import Session, Turn
from checkpoints.models import Checkpoint
from tests.clients.javascript.install import node
from tests.doubles.fake_engine import FakeEngine
from tests.webapp.conftest import text_of
from webapp import trying
from webapp.connecting import PLACEHOLDER, ROOMY, Place, blocks, openclaw
from webapp.console.light import TEST_SESSION, light
from webapp.trying import try_out

PLACE = Place("http://127.0.0.1:8000", "tb-secret", "talkback", 8192)
ODD = Place("https://talk.example:8443/", "tb-'\"$(x)`", 'it\'s "odd"', 32768, True)


@pytest.fixture(autouse=True)
def small(settings, tiny_model):
    settings.MODEL = str(tiny_model)
    settings.JUDGE_TEACHES = True


@pytest.fixture
def key(talker):
    key, key.secret = ApiKey.objects.issue(talker, "laptop")
    return key


@pytest.fixture
def ben(client, talker):
    client.force_login(talker)
    return client


@pytest.fixture
def came(key):
    """A turn that came through the key: whole, main-line, and answered, unless told otherwise."""

    def came(status=Turn.Status.OBSERVED, session=None, **fields):
        session = session or Session.objects.create(user=key.user, key=key)
        usual = {
            "checkpoint": Checkpoint.live(),
            "messages": [{"role": "user", "content": "Hi"}],
            "finish_reason": "stop",
            "response_ids": [8, 9],
            "position": session.turns.count(),
        }
        return Turn.objects.create(session=session, status=status, text="Hello.", **(usual | fields))

    return came


# ---------- what is pasted ----------


def block(place: Place, name: str) -> str:
    return next(block.text for block in blocks(place) if block.name == name)


@pytest.mark.parametrize("place", [PLACE, ODD])
def test_openclaws_block_says_the_truth(place):
    config = json.loads(block(place, "openclaw"))
    assert config == openclaw(place)
    [provider] = config["models"]["providers"].values()
    assert (provider["baseUrl"], provider["apiKey"]) == (f"{place.address.rstrip('/')}/v1", place.key)
    [model] = provider["models"]
    assert (model["id"], model["contextWindow"], model["reasoning"]) == (place.model, place.window, place.reasons)
    assert 0 < model["maxTokens"] <= place.window // 4
    assert config["agents"]["defaults"]["model"]["primary"] == f"talkback/{place.model}"


def test_for_a_small_window_openclaws_agent_is_trimmed():
    config = openclaw(Place("http://x", window=ROOMY - 1))
    assert config["tools"] == {"allow": ["read", "exec"], "toolSearch": False}
    assert config["agents"]["defaults"]["skipBootstrap"] is True
    assert config["agents"]["defaults"]["skills"] == []
    roomy = openclaw(Place("http://x", window=ROOMY))
    assert set(roomy) == {"models", "agents"}
    assert set(roomy["agents"]["defaults"]) == {"model"}


@pytest.mark.parametrize("place", [PLACE, ODD])
@pytest.mark.parametrize("name", ["environment", "anthropic"])
def test_the_lines_for_a_shell_set_what_they_say(place, name):
    script = f"{block(place, name)}\nenv -0"
    printed = subprocess.run(["sh", "-c", script], capture_output=True, text=True, env={"PATH": "/usr/bin:/bin"})
    told = dict(line.split("=", 1) for line in printed.stdout.split("\0") if line)
    address = place.address.rstrip("/")
    if name == "environment":
        assert (told["OPENAI_BASE_URL"], told["OPENAI_API_KEY"]) == (f"{address}/v1", place.key)
    else:
        assert (told["ANTHROPIC_BASE_URL"], told["ANTHROPIC_API_KEY"]) == (address, place.key)
        assert told["ANTHROPIC_MODEL"] == place.model


@pytest.mark.parametrize("place", [PLACE, ODD])
def test_curl_is_quoted_for_a_shell(place):
    words = shlex.split(block(place, "curl").replace("\\\n", " "))
    assert words[:2] == ["curl", f"{place.base_url}/chat/completions"]
    assert f"Authorization: Bearer {place.key}" in words
    assert json.loads(words[words.index("-d") + 1])["model"] == place.model


@pytest.mark.parametrize("place", [PLACE, ODD])
def test_the_snippet_for_python_is_python(place):
    said = {node.value for node in ast.walk(ast.parse(block(place, "python"))) if isinstance(node, ast.Constant)}
    assert {place.base_url, place.key, place.model} <= said


@pytest.mark.node
@pytest.mark.parametrize("place", [PLACE, ODD])
def test_the_snippet_for_javascript_is_javascript(place, tmp_path):
    (tmp_path / "snippet.mjs").write_text(block(place, "javascript"))
    checked = subprocess.run([str(node()), "--check", str(tmp_path / "snippet.mjs")], capture_output=True, text=True)
    assert checked.returncode == 0, checked.stderr


def test_the_page_has_the_address_that_the_person_uses_and_the_models_true_window(ben, key, settings):
    settings.ALLOWED_HOSTS = ["talk.example"]
    page = text_of(ben.get(reverse("connect:home"), headers={"Host": "talk.example:8443"}))
    assert "http://talk.example:8443/v1" in page
    assert "&quot;contextWindow&quot;: 2048" in page
    assert PLACEHOLDER in page
    assert "This model reads 2048 tokens at once" in page


def test_a_key_that_was_just_made_stands_in_every_block(ben):
    response = ben.post(reverse("connect:new"), {"name": "new", "scopes": ["chat"], "learns": "on"})
    secret = re.findall(r'<code id="secret">(.*?)</code>', response.content.decode())[0]
    assert response.content.decode().count(secret) == 7
    assert PLACEHOLDER not in text_of(response)


def test_without_a_key_the_page_asks_for_a_name_and_nothing_else(ben):
    page = text_of(ben.get(reverse("connect:home")))
    assert "Make a key" in page
    assert "Paste one of these" not in page


def test_a_model_that_cannot_be_read_breaks_no_page(ben, key, settings, tmp_path):
    settings.MODEL = str(tmp_path)
    assert ben.get(reverse("connect:home")).status_code == 200


def test_a_newcomer_finds_the_page_from_the_chat(ben):
    page = ben.get("/").content.decode()
    assert page.count(f'href="{reverse("connect:home")}"') == 3  # the bar, the side list, the empty chat


# ---------- the light ----------


def words(key) -> str:
    return " | ".join(f"{reason.words} {reason.advice}" for reason in light(key).reasons)


def test_grey_before_anything_came(key):
    assert light(key).color == "grey"
    assert light(key).reasons == ()


def test_green_at_the_first_turn_that_something_came_back_to(key, came):
    turn = came()
    assert turn.is_trainable
    shown = light(key)
    assert (shown.color, shown.first) == ("green", turn)
    assert "1 turn can teach" in shown.sentence
    came(Turn.Status.JUDGED, finish_reason="tool_calls")
    assert "2 turns can teach" in light(key).sentence


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"line": "side", "rule": "openclaw/title"}, "sorted as side by the rule openclaw/title"),
        ({"learns": False}, "sent not to be learned from"),
        ({"finish_reason": "length", "status": "served"}, "cut at the reply's length"),
        ({"finish_reason": "abort", "status": "closed"}, "stopped before the reply's end"),
        ({"finish_reason": "error", "status": "closed", "error": "The engine left."}, "failed: The engine left."),
        ({"finish_reason": "", "status": "answering"}, "still being written"),
        ({"status": "served"}, "nothing has come back to the reply yet"),
        ({"status": "closed"}, "the session was closed before anything came back"),
        ({"response_ids": []}, "empty"),
    ],
)
def test_amber_says_why_a_turn_cannot_teach(key, came, fields, said):
    came(**fields)
    assert light(key).color == "amber"
    assert said in words(key)


def test_amber_names_the_person_who_sorted_a_turn(key, came, operator):
    came(line="side", rule="openclaw/main", sorted_by=operator)
    assert "sorted as side by ana" in words(key)


def test_amber_for_a_conversation_off_the_record(key, came):
    came(session=Session.objects.create(user=key.user, key=key, learns=False))
    assert light(key).color == "amber"
    assert "off the record" in words(key)


def test_amber_counts_the_commonest_reason_first(key, came):
    came(finish_reason="length")
    came(line="side", rule="openclaw/recap")
    came(line="side", rule="openclaw/recap")
    assert [reason.count for reason in light(key).reasons] == [2, 1]


def test_a_serve_only_key_says_so_before_and_after(key, came):
    key.learns = False
    assert "serve-only" in words(key)
    came(learns=False)
    assert light(key).color == "amber"
    assert "serve-only" in words(key)


def test_a_refusal_shows_with_what_to_do_until_something_gets_through(key, came):
    key.refused_at, key.refusal_code = timezone.now(), "context_length_exceeded"
    key.refusal = "This model's maximum context length is 8192 tokens."
    assert light(key).color == "amber"
    assert "maximum context length is 8192" in words(key)
    assert "trims the agent" in words(key)
    came(created_at=timezone.now() + timedelta(seconds=1))
    assert light(key).color == "green"
    assert "maximum context length" not in words(key)


def test_a_closed_key_says_so(key):
    key.revoke()
    assert light(key).color == "amber"
    assert "was revoked on" in words(key)


def test_the_pages_own_test_requests_say_nothing_of_the_client(key, came):
    came(session=Session.objects.create(user=key.user, key=key, external_id=TEST_SESSION))
    assert light(key).color == "grey"


def test_another_keys_turns_light_nothing(key, came, talker):
    came()
    other, _ = ApiKey.objects.issue(talker, "other")
    assert light(other).color == "grey"


def test_green_says_what_teaches_where_the_judge_does_not(key, came, settings):
    came()
    assert words(key) == ""
    settings.JUDGE_TEACHES = False
    assert "thumbs and corrections become lessons" in words(key)


def test_the_light_is_sent_again_only_when_it_changed(ben, key, came):
    first = ben.get(reverse("connect:light", args=[key.pk]))
    assert first.status_code == 200
    again = re.findall(r'hx-get="([^"]+)"', first.content.decode())[0]
    assert ben.get(again).status_code == 204
    came()
    changed = ben.get(again)
    assert changed.status_code == 200
    assert 'class="card light green"' in changed.content.decode()


# ---------- the test ----------


@pytest.fixture
def engine(tiny_model, monkeypatch):
    from chat.replying import replies
    from gpu_workers import engines

    fake = FakeEngine(tiny_model)
    monkeypatch.setattr(engines, "policy", lambda: fake)
    monkeypatch.setattr(replies, "BEAT_S", 0.05)
    monkeypatch.setattr(replies, "PATIENCE_S", 0.0)
    return fake


outlives = pytest.mark.django_db(transaction=True, serialized_rollback=True)


@outlives
async def test_a_prompt_too_large_for_the_window_leaves_no_turn_and_shows_on_the_light(key, engine):
    body = {"messages": [{"role": "user", "content": "word " * 4000}]}
    headers = {"authorization": f"Bearer {key.secret}", "content-type": "application/json"}
    [answer] = [event async for event in trying.sent(trying.PATH, headers, json.dumps(body).encode())]
    assert answer["error"]["code"] == "context_length_exceeded"
    shown = await sync_to_async(light)(await ApiKey.objects.select_related("user").aget(pk=key.pk))
    assert (shown.color, shown.newest) == ("amber", None)
    assert "maximum context length is 2048 tokens" in shown.reasons[0].words
    assert "trims the agent" in shown.reasons[0].advice


@outlives
async def test_a_test_goes_through_the_door_and_teaches_nothing(key, engine):
    engine.says("Hello.")
    trial = await try_out(key)
    assert trial.error == ""
    assert trial.model.startswith("talkback")
    assert 0 <= trial.first_token_s < 20
    turn = await Turn.objects.select_related("session").aget()
    assert (turn.line, turn.session.external_id) == ("side", TEST_SESSION)
    assert not turn.is_trainable
    assert turn.sampling["max_new_tokens"] == 1


@outlives
@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"revoked_at": timezone.now()}, "was revoked on"),
        ({"expires_at": timezone.now() - timedelta(days=1)}, "expired on"),
        ({"scopes": ["feedback"]}, "needs chat"),
    ],
)
async def test_a_test_says_what_is_wrong_with_the_key_and_what_to_do(key, engine, fields, said):
    await ApiKey.objects.filter(pk=key.pk).aupdate(**fields)
    trial = await try_out(key)
    assert said in trial.error
    assert trial.advice
    assert not await Turn.objects.aexists()


@outlives
async def test_a_test_says_that_the_engine_is_away(key, engine):
    engine.goes_down()
    trial = await try_out(key)
    assert trial.error
    assert "/readyz" in trial.advice


@outlives
async def test_a_test_is_given_up_after_a_while_and_the_engine_is_stopped(key, engine, monkeypatch):
    made, timeout = [], asyncio.timeout
    monkeypatch.setattr(asyncio, "timeout", lambda seconds: made.append(timeout(seconds)) or made[-1])
    engine.hold()
    trying_out = asyncio.create_task(try_out(key))
    await asyncio.to_thread(engine.holding.wait, 20)
    made[0].reschedule(asyncio.get_running_loop().time())  # the while is over
    trial = await trying_out
    engine.release()
    assert trial.error == "No token came within 20 s."
    turn = await Turn.objects.aget()
    assert (turn.status, turn.finish_reason) == (Turn.Status.CLOSED, "abort")


@outlives
async def test_the_button_shows_what_came_of_it(async_client, key, engine):
    await sync_to_async(async_client.force_login)(key.user)
    page = text_of(await async_client.post(reverse("connect:try", args=[key.pk])))
    assert "It works: talkback" in page
    engine.goes_down()
    assert "note bad" in text_of(await async_client.post(reverse("connect:try", args=[key.pk])))

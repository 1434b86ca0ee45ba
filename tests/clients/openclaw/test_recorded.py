"""What the real client sent, replayed without it: sorted, paired and taught from as a reader of the requests would."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pytest

from benchmarks.tiny import write_tiny_model
from chat.models import Session, Turn
from chat.rendering.renderer import Renderer
from episodes.models import Episode
from gpu_workers import engines
from judge import steps
from judge.models import Judgement
from judge.tasks import judge_turn
from judge.votes import judges
from tests.episodes.conftest import TASK, issue
from training.config import Recipe
from training.models import Sample

SCENES = sorted((Path(__file__).parent / "recorded").glob("*.json"))
WINDOW = 65536

pytestmark = pytest.mark.django_db(transaction=True, serialized_rollback=True)


@pytest.fixture(scope="session")
def roomy_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The tiny model with a window that a whole agent fits."""
    folder = write_tiny_model(tmp_path_factory.mktemp("models") / "roomy")
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | {"max_position_embeddings": WINDOW}))
    return folder


@pytest.fixture
def replay(site, engine, key, settings, roomy_model) -> Callable[..., list[tuple[dict[str, Any], Turn]]]:
    """Send a scene's requests in their order, also with another key; each with the turn that it became."""
    settings.MODEL = str(roomy_model)

    def replay(scene: str, secret: str = key.secret) -> list[tuple[dict[str, Any], Turn]]:
        requests = json.loads((Path(__file__).parent / "recorded" / f"{scene}.json").read_text())["requests"]
        known: set[Any] = set()
        played = []
        with httpx.Client(base_url=f"{site}/v1", timeout=30) as client:
            for request in requests:
                answer = request["answer"]
                is_down = answer.get("fails") in ("error", "cut")
                if is_down:
                    engine.goes_down()
                else:
                    engine.says(spelled(answer))
                body = request["body"] | {"max_completion_tokens": WINDOW // 2}  # counted in another model's tokens
                headers = request["headers"] | {"authorization": f"Bearer {secret}"}
                with client.stream("POST", "/chat/completions", json=body, headers=headers) as reply:
                    said = reply.read().decode()
                engine.comes_back()
                assert reply.status_code == (503 if is_down else 200), said
                turn = Turn.objects.exclude(pk__in=known).select_related("session", "follows").get()
                known.add(turn.pk)
                played.append((request, turn))
        for _, turn in played:
            turn.refresh_from_db()
        return played

    return replay


def spelled(answer: dict[str, Any]) -> str:
    """The recorded answer as a model writes it."""
    thoughts = f"<think>\n{answer['reasoning']}\n</think>\n\n" if "reasoning" in answer else ""
    calls = [f"<tool_call>\n{json.dumps(call)}\n</tool_call>" for call in answer.get("calls", ())]
    return thoughts + "\n".join([answer.get("content", ""), *calls]).strip("\n")


@pytest.mark.parametrize("scene", [path.stem for path in SCENES])
def test_the_clients_requests_are_sorted_paired_and_judged_as_a_reader_would(replay, scene: str) -> None:
    """Every main reply by what followed it, and by nothing else. One replay for all: the longest takes seconds."""
    played = replay(scene)

    read = [(n, request["kind"], request["continues"]) for n, (request, _) in enumerate(played)]
    order = {turn.pk: n for n, (_, turn) in enumerate(played)}
    seen = [(n, turn.kind, order.get(turn.follows_id)) for n, (_, turn) in enumerate(played)]
    assert [kind for _, kind, _ in seen] == [kind for _, kind, _ in read]
    main = [n for n, kind, _ in read if kind == "main"]
    assert [seen[n] for n in main] == [read[n] for n in main]
    assert {turn.line for _, turn in played if turn.kind == "main"} <= {Turn.Line.MAIN}
    assert {turn.line for _, turn in played if turn.kind != "main"} <= {Turn.Line.SIDE}

    came_back: dict[int, list[str]] = {n: [] for n in range(len(played))}
    for request, _ in played:
        if request["kind"] == "main" and request["continues"] is not None:
            came_back[request["continues"]] = request["says"]
    for n, (request, turn) in enumerate(played):
        wanted = came_back[n] if request["kind"] == "main" else []
        heard = [str(message.get("content")) for message in turn.next_state]
        assert len(heard) == len(wanted), (n, wanted, heard)
        assert all(words in text for words, text in zip(wanted, heard, strict=True)), (n, wanted, heard)


@pytest.mark.parametrize("scene", [path.stem for path in SCENES])
def test_a_thumb_makes_a_sample_of_each_main_reply_and_of_no_other(
    replay, site, key, settings, roomy_model, scene: str
) -> None:
    settings.JUDGE_TEACHES = False
    played = replay(scene)

    whole = [turn for _, turn in played if turn.is_whole]
    with httpx.Client(base_url=f"{site}/v1", headers={"authorization": f"Bearer {key.secret}"}) as client:
        for turn in whole:
            said = client.post("/feedback", json={"completion_id": turn.completion_id, "thumb": "up"})
            assert said.status_code == 200, said.text
    for turn in whole:
        judge_turn(str(turn.pk))

    taught = set(Judgement.objects.exclude(sample=None).values_list("turn_id", flat=True))
    assert taught == {turn.pk for request, turn in played if request["kind"] == "main" and turn.is_whole}
    assert bool(taught) == (scene != "cron")  # of a cron job alone nothing is learned


@pytest.mark.parametrize("scene", ["chat", "tools", "gateway", "helper", "compaction", "recovery", "commands"])
def test_one_conversation_is_one_session_whatever_the_client_did_in_between(replay, scene: str) -> None:
    played = replay(scene)

    assert len({turn.session_id for request, turn in played if request["kind"] == "main"}) == 1
    assert Session.objects.filter(turns__line=Turn.Line.MAIN).distinct().get().client == "openclaw"


def test_what_the_engine_sampled_is_what_is_kept(replay, roomy_model) -> None:
    renderer = Renderer.for_model(roomy_model)

    for request, turn in replay("tools"):
        assert renderer.decode(turn.response_ids) == spelled(request["answer"])
        assert len(turn.logprobs) == len(turn.response_ids)


@pytest.mark.parametrize("scene", ["tools", "helper", "heartbeat", "reminder", "compaction", "recovery", "dashboard"])
def test_in_an_attempt_each_main_reply_is_a_step_and_no_other_is(replay, site, ana, roomy_model, scene: str) -> None:
    player = issue(ana)
    with httpx.Client(base_url=f"{site}/v1", headers={"authorization": f"Bearer {player.secret}"}) as client:
        opened = client.post("/episodes", json=TASK | {"attempts": 2}).json()
        played = replay(scene, opened["key"])
        ended = client.post(f"/episodes/{opened['id']}/close", json={"status": "solved", "outcome": 1.0})
        assert ended.status_code == 200, ended.text

    episode = Episode.objects.get()
    assert {turn.session_id for _, turn in played} == {episode.session_id}  # helpers' and summaries' as well
    assert {turn.pk for _, turn in played if turn.line == Turn.Line.MAIN} == {
        turn.pk for request, turn in played if request["kind"] == "main"
    }
    how = {"who": judges.judge(), "engine": engines.policy(), "renderer": Renderer.for_model(roomy_model)}
    steps.judge(episode.pk, **how, recipe=Recipe())
    main = [turn for request, turn in played if request["kind"] == "main" and turn.is_whole]
    samples = Sample.objects.filter(episode=episode).order_by("step")
    assert [(one.step, one.response_ids) for one in samples] == [(n, turn.response_ids) for n, turn in enumerate(main)]

"""Who is asked, what the settings may say of them, and how an answer is waited for."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from asgiref.sync import async_to_sync
from django.core.management import call_command
from django.core.management.base import SystemCheckError

from benchmarks.tiny import write_tiny_adapter
from checkpoints import repairs
from gpu_workers.engine.openai_chat import OpenAIChat
from gpu_workers.errors import EngineRefused
from judge.calibration import vote_floor
from judge.votes import fitting, judges, naming, polling, prompts
from judge.votes.chat_judge import ChatJudge
from judge.votes.engine_judge import EngineJudge
from judge.votes.evidence import Evidence
from judge.votes.judge import shares
from judge.votes.judges import Ask
from judge.votes.naming import JudgesInvalid
from tests.doubles.chat_server import server
from tests.judge.votes.polls import SEEN, asked

__all__ = ["server"]
USUAL = prompts.version()


@pytest.fixture(autouse=True)
def afresh():
    """No test knows what another's server refused."""
    ChatJudge._boxes.clear()
    naming.listed.cache_clear()


def test_the_base_judges_where_no_adapter_fits_the_model(engine, renderer):
    (who,) = judges.panel()
    assert (who.kind, who.name, who.family, who.leaves_machine) == ("base", "talkback@0", "cases", False)


@pytest.fixture
def fitting_adapter(tiny_model, tmp_path, monkeypatch, settings):
    """An adapter that was trained on the tiny model, where the repository has its own."""
    folder = write_tiny_adapter(tmp_path / "adapter", seed=3, base_model_name_or_path="another/Tiny")
    monkeypatch.setattr(fitting, "FOLDER", folder)
    settings.DATA_DIR = tmp_path / "data"
    return folder


def test_the_judges_adapter_judges_where_it_fits(db, engine, renderer, fitting_adapter, settings):
    (who,) = judges.panel()
    assert (who.kind, who.family) == ("adapter", "trained")
    assert who.name == fitting.adapter(fitting_adapter).name
    settings.JUDGE_TEACHES = None
    assert judges.teaches()
    settings.JUDGE_TEACHES = False
    assert not judges.teaches()


def test_an_adapter_for_another_model_is_left_alone(db, engine, renderer, fitting_adapter, settings):
    shutil.rmtree(fitting_adapter)
    write_tiny_adapter(fitting_adapter, seed=3, base_model_name_or_path="another/Other")
    assert [who.kind for who in judges.panel()] == ["base"]
    settings.JUDGE_TEACHES = None
    assert not judges.teaches()
    settings.JUDGES = '[{"kind": "adapter"}]'
    with pytest.raises(JudgesInvalid, match="belongs to another/Other"):
        judges.panel()


def test_its_name_changes_with_its_content(fitting_adapter):
    before = fitting.adapter(fitting_adapter).name
    write_tiny_adapter(fitting_adapter, seed=4, base_model_name_or_path="another/Tiny")
    assert fitting.adapter(fitting_adapter).name != before
    assert fitting.is_ours(before)


def test_it_is_copied_once_to_where_the_engine_reads(fitting_adapter):
    adapter = fitting.adapter(fitting_adapter)
    place = adapter.placed()
    assert sorted(file.name for file in place.iterdir()) == sorted(fitting.FILES)
    (place / fitting.FILES[0]).write_text("{}")
    assert adapter.placed() == place
    assert (place / fitting.FILES[0]).read_text() == "{}"  # what is there is not written again
    assert [folder.name for folder in place.parent.iterdir()] == [adapter.name]  # no draft is left


def test_any_number_of_judges_from_a_file(tmp_path, settings, monkeypatch, tiny_model, renderer):
    monkeypatch.setenv("WISE_KEY", "secret")
    file = tmp_path / "judges.toml"
    file.write_text(
        f"""
[[judge]]
kind = "base"
votes = 2
[[judge]]
kind = "engine"
name = "next door"
url = "http://10.0.0.7:30000"
model = "{tiny_model}"
[[judge]]
kind = "openai"
url = "https://judge.example/v1"
model = "wise-1"
api_key_env = "WISE_KEY"
"""
    )
    settings.JUDGES = str(file)
    base, near, far = judges.roster()
    assert (base.votes, near.name, far.name) == (2, "next door", "wise-1 at judge.example")
    assert [who.leaves_machine for who in (base, near, far)] == [False, False, True]
    assert [who.host for who in (near, far)] == ["10.0.0.7:30000", "judge.example"]
    assert far.server._headers == {"Authorization": "Bearer secret"}
    assert all(who.version == USUAL for who in (base, near))
    assert judges.called("next door").name == near.name


def test_a_panel_teaches_by_itself_when_the_bare_base_has_no_vote_in_it(
    engine, renderer, fitting_adapter, settings, monkeypatch
):
    settings.JUDGE_TEACHES = None
    settings.JUDGES = '[{"kind": "base", "votes": 2}, {"kind": "adapter"}]'
    stopped = set()
    monkeypatch.setattr(vote_floor, "weight", lambda name, version: float(name not in stopped))
    assert not judges.teaches()  # two of three votes are the base's
    stopped.add("talkback@0")
    assert judges.teaches()
    stopped.add(judges.panel()[1].name)
    assert not judges.teaches()  # when all have stopped, no judge speaks better for it


@pytest.mark.parametrize(
    ("setting", "complaint"),
    [
        ("[", "JUDGES is no JSON"),
        ("/nowhere/judges.toml", "cannot be read as TOML"),
        ("[]", "names no judge"),
        ('[{"kind": "oracle"}]', "judge 1: kind"),
        ('[{"kind": "openai", "url": "ftp://x", "model": "m"}]', "needs a url that begins with http"),
        ('[{"kind": "openai", "url": "http://x"}]', "needs the model's name"),
        ('[{"kind": "base", "url": "http://x"}]', "takes no url"),
        ('[{"kind": "base", "family": "rude"}]', "no family of prompts rude, only cases"),
        ('[{"kind": "base"}, {"kind": "base"}]', "same judge twice"),
        ('[{"kind": "base", "votes": 0}]', "judge 1: votes"),
        (r'[{"kind": "base", "name": "wise\u202e"}]', "this one holds U+202E"),
        ('[{"kind": "base", "colour": "red"}]', "judge 1: colour"),
        ('[{"kind": "openai", "url": "http://x", "model": "m", "api_key": "s"}]', "name it in api_key_env"),
        ('[{"kind": "openai", "url": "http://x", "model": "m", "api_key_env": "NO_SUCH_KEY"}]', "holds no NO_SUCH_KEY"),
        ('[{"kind": "adapter", "adapter": "/nowhere"}]', "no adapter in /nowhere"),
    ],
)
def test_a_setting_that_cannot_be_is_told_at_the_start(settings, setting, complaint):
    settings.JUDGES = setting
    with pytest.raises(SystemCheckError, match=r"judge\.E001") as refused:
        call_command("check")
    assert complaint in str(refused.value)


def test_two_ways_of_naming_at_once_are_refused(settings):
    settings.JUDGES, settings.JUDGE_URL = '[{"kind": "base"}]', "http://127.0.0.1:9"
    with pytest.raises(JudgesInvalid, match="both set"):
        judges.panel()


def test_an_unknown_name_is_answered_with_the_names_there_are(settings, renderer):
    with pytest.raises(JudgesInvalid, match=r"There are: talkback@0, base, adapter\."):
        judges.called("wise-1")


class Silent:
    """A judge of this name that is never asked."""

    family, version, versions, reads = "cases", USUAL, frozenset({USUAL}), False

    def __init__(self, name, votes=None):
        self.name, self.votes = name, votes


@pytest.mark.django_db
def test_votes_are_dealt_in_turn(settings):
    settings.JUDGE_VOTES = 5
    a, b = Silent("a"), Silent("b")
    assert [who.name for who in polling.bench(a).deal] == ["a"] * 5
    assert [who.name for who in polling.bench([a, b]).deal] == ["a", "b", "a", "b", "a"]
    assert [who.name for who in polling.bench([Silent("c", votes=2), a, b]).deal] == ["c", "c", "a", "b", "a"]
    settings.JUDGE_VOTES = 3
    assert polling.bench([Silent(str(n)) for n in range(4)]).m == 4  # no judge is left out
    assert polling.bench([Silent("c", votes=5)]).m == 5
    assert polling.bench(a, votes=1).m == 3  # fewer have no majority


@pytest.mark.django_db
def test_a_judge_that_has_stopped_is_left_out_as_long_as_another_judges(monkeypatch):
    monkeypatch.setattr("judge.calibration.vote_floor.weight", lambda name, version: 0.0 if name == "a" else 0.4)
    a, b = Silent("a"), Silent("b")
    seated = polling.bench([a, b])
    assert [who.name for who in seated.deal] == ["b"] * 3
    assert seated.weights == {"a": 0.0, "b": 0.4}
    assert polling.have_stopped(a)
    assert not polling.have_stopped([a, b])


@pytest.mark.django_db
def test_where_one_judge_is_away_the_next_is_asked(engine, renderer):
    engine.says(r"They object. \boxed{-1}", times=None)
    away = ChatJudge(OpenAIChat("http://127.0.0.1:9", model="away"))
    here = EngineJudge(engine, renderer)
    ballots = polling.poll([away, here], SEEN, ("score",))
    # Votes 0 and 2 were dealt to who is away; at the second attempt 0 goes to who is here, and 2 again to who is away.
    assert [(ballot.index, ballot.judge == here.name, ballot.score) for ballot in ballots] == [
        (0, False, None),
        (1, True, -1),
        (2, False, None),
        (0, True, -1),
        (2, False, None),
    ]
    found = polling.finding(ballots)
    assert (found.score.reward, found.score.valid, found.score.asked) == (-1, 2, 3)


def test_the_adapter_is_loaded_when_it_is_missing_and_an_older_one_let_go(engine, renderer, fitting_adapter, settings):
    stale = Path(settings.DATA_DIR) / "judges" / "judge-00000000"
    engine.loaded |= {"judge-00000000": str(stale), "talkback-4-x": "/checkpoints/4"}
    engine.says(r"\boxed{-1}", times=None)
    (who,) = judges.panel()

    said = judges.ask([Ask(who, "score", SEEN) for _ in range(3)])

    assert [one.text for one in said] == [r"\boxed{-1}"] * 3
    assert engine.loaded == {"talkback-4-x": "/checkpoints/4", who.name: str(who.adapter.place)}
    assert {call.adapter for call in engine.asked("choices")} == {who.name}
    loads = len([one for one in engine.admin if one[0] == "load"])
    judges.ask([Ask(who, "score", SEEN)])
    assert len([one for one in engine.admin if one[0] == "load"]) == loads  # it stays


def test_tidying_and_repairing_the_policys_adapters_leaves_the_judges_alone(engine, renderer, fitting_adapter, db):
    (who,) = judges.panel()
    engine.loaded[who.name] = str(who.adapter.placed())
    async_to_sync(repairs.repair)()
    assert who.name in engine.loaded


def test_an_adapter_that_the_engine_refuses_costs_no_turn_its_verdict(engine, renderer, fitting_adapter):
    (who,) = judges.panel()
    engine.invalid.add(who.name)
    said = asked(who)
    assert said.failure.startswith("unreachable: The engine does not take the judge's adapter: ")
    assert said.unreachable


def test_the_adapter_is_asked_in_its_own_words_and_held_to_its_grammar(engine, renderer, fitting_adapter):
    (who,) = judges.panel()
    engine.says(r"\boxed{1} [HINT_START] Count once more. [HINT_END]", times=None)
    asked(who)
    asked(who, question="hint")
    score, hint = engine.asked("choices")[-2:]
    (worded,) = engine.asked("generate")
    told = prompts.question("hint", "trained")
    assert (worded.sampling.regex, worded.sampling.max_new_tokens) == (told.regex, told.max_new_tokens)
    assert worded.sampling.temperature == 0  # one vote has the likeliest words
    assert score.prompt.endswith(r"\boxed{")
    assert hint.prompt.endswith(r"\boxed{")
    shared = len(renderer.prompt_ids(prompts.messages("score", SEEN, "trained"))) - 20
    assert score.prompt_ids[:shared] == hint.prompt_ids[:shared]  # both questions begin alike


def test_an_engine_without_grammars_is_asked_without_one(engine, renderer, fitting_adapter, monkeypatch):
    generate, regexes = engine.generate, []

    async def free(prompt_ids, sampling, **kwargs):
        regexes.append(sampling.regex)
        if sampling.regex:
            raise EngineRefused("Regular expressions need a grammar backend.")
        return await generate(prompt_ids, sampling, **kwargs)

    monkeypatch.setattr(engine, "generate", free)
    said = r"\boxed{1} [HINT_START] Count once more. [HINT_END]"
    engine.says(said, times=None)
    (who,) = judges.panel()
    engine.loaded[who.name] = "x"
    assert asked(who, question="hint").text == asked(who, question="hint").text == said
    assert [bool(regex) for regex in regexes] == [True, False, False]  # remembered


@pytest.mark.parametrize("window", [1024, 2048, 8192, 40000])
def test_the_prompt_always_fits_the_window(engine, renderer, window, monkeypatch, settings):
    settings.JUDGE_MAX_NEW_TOKENS = 60
    monkeypatch.setattr(renderer, "context_length", window)
    huge = "\U0001f600\u4f60 many words " * 20000
    seen = Evidence((("user", huge),) * 5, huge, (("tool", huge),) * 40, guidance=huge, rewrite=huge, output=huge)
    who = EngineJudge(engine, renderer, family="trained")
    for question in ("score", "hint"):
        assert len(who.prompt_ids(question, seen, 60)) + 60 <= window
    assert not asked(who, seen).failure


def test_a_window_too_small_for_the_question_says_so(engine, renderer, monkeypatch):
    monkeypatch.setattr(renderer, "context_length", 64)
    said = asked(EngineJudge(engine, renderer))
    assert "its window has 64" in said.failure


def test_a_larger_window_is_shown_more(engine, renderer, monkeypatch):
    monkeypatch.setattr(renderer, "context_length", 32768)
    said = "".join(f"{n:04} " for n in range(1600))  # 8000 characters, none of them a flood
    seen = Evidence((("user", said),), "Five.", (("user", "No."),))
    assert "characters left out" in seen.text
    # 4 times 1200 characters of the request; 3200 of 8000 stay away
    assert "3200 characters left out" in prompts.messages("score", seen, share=4.0)[-1]["content"]
    assert next(shares(32768, "cases")) == 4.0

"""Tasks go by names that people can read; links keep their ids."""

from __future__ import annotations

from chat.models import Turn
from tests.webapp.conftest import text_of
from webapp.console.worlds import task_names

HASH = "q-00112233445566aa"


def test_a_task_whose_id_is_a_hash_goes_by_its_questions_first_words(console, make_group, play):
    group = make_group(world="interpreter", task=HASH)
    episode = play(group, "failed")
    play(group, "infra_error")
    name, to = "What do a hat and a jar cost?", f"task={HASH}"
    for page in ("/worlds/", "/worlds/tasks/", "/worlds/attempts/", f"/worlds/attempts/?{to}", "/worlds/groups/",
                 f"/worlds/groups/{group.pk}/", f"/worlds/episodes/{episode.pk}/"):  # fmt: skip
        shown = text_of(console.get(page))
        assert name in shown, page
        assert f">{HASH}" not in shown, page
        assert f" {HASH}" not in shown, page
    assert to in text_of(console.get("/worlds/tasks/"))  # the id stays what links name


def test_a_question_off_the_record_names_no_task_for_others(client, operator, talker, make_group, play):
    play(make_group(world="interpreter", task=HASH), "failed", learns=False)
    client.force_login(operator)
    page = text_of(client.get("/worlds/tasks/"))
    assert HASH in page
    assert "What do a hat" not in page
    client.force_login(talker)
    assert "What do a hat and a jar cost?" in text_of(client.get("/worlds/tasks/"))


def test_a_long_question_is_cut_short_and_one_in_no_words_leaves_the_id(console, make_group, play):
    long = play(make_group("long", world="interpreter", task=HASH), "failed")
    other = play(make_group("other", world="interpreter", task=HASH[:-1] + "b"), "failed")
    said = [{"role": "user", "content": "word " * 40}]
    Turn.objects.filter(session=long.session).update(messages=said)
    Turn.objects.filter(session=other.session).update(messages=[{"role": "user", "content": None}])
    page = text_of(console.get("/worlds/tasks/"))
    assert f">{('word ' * 12)[:59]}…</a>" in page  # 60 characters in all
    assert f">{HASH[:-1]}b</a>" in page


def test_ids_that_are_names_are_looked_up_nowhere(talker, django_assert_num_queries):
    with django_assert_num_queries(0):
        assert task_names.names(["train-3-7", "leg_counting-train-12"], talker) == {}

"""The pages of worlds: what was played, how often it was solved, what does not count, and what failed lately."""

from __future__ import annotations

import doctest
import re
from collections import Counter
from datetime import timedelta

import pytest
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from benchmarks.played_episodes import seed
from checkpoints.models import Checkpoint
from episodes.models import COUNTED, Episode, Group, counts
from tests.webapp.conftest import text_of
from tests.webapp.worlds.conftest import Did
from training import batches, line_recipes
from training.models import Sample
from webapp.console.worlds import attempts, costs, endings, playback, standings, success, task_names

HOME = "/worlds/"


def links(html: str) -> list[str]:
    return re.findall(r'href="([^"]+)"', html.replace("&amp;", "&"))


@pytest.mark.parametrize("module", [costs, endings, playback, task_names])
def test_examples_in_the_modules_of_worlds_hold(module):
    found = doctest.testmod(module)
    assert found.attempted
    assert not found.failed


# ---------- worlds ----------


def test_before_anything_was_played_the_page_says_how_it_begins(client, talker):
    client.force_login(talker)
    html = text_of(client.get(HOME))
    assert "python3 -m environments worlds play --world till" in html
    assert "--url http://testserver" in html  # where this person reads it, Talkback answers
    there = f"{reverse('connect:new')}?for=worlds"
    assert there in links(html)
    form = client.get(there).context["form"]
    assert (form["name"].value(), form["scopes"].value()) == ("play", ["chat", "episodes"])
    assert '<details class="terms" open>' in text_of(client.get(there))
    assert '<details class="terms">' in text_of(client.get(reverse("connect:new")))
    assert "docs/reference/episodes.md" in html


def test_success_by_checkpoint_counts_what_counts_with_its_interval(console, make_group, play):
    group = make_group()
    for ending in ("solved", "solved", "solved", "failed", "infra_error", "cancelled"):
        play(group, ending)
    play(group, "truncated", cut_by="context")
    html = text_of(console.get(HOME))
    # 3 of 4 count as solved: not of 7. Wilson's interval of 3 of 4 is 0.3006 to 0.9544.
    assert (
        '<td data-label="Solved" class="number">3 of 4</td><td data-label="Share" class="number">0.75</td>'
        '<td data-label="95 %" class="number nowrap">0.30 to 0.95</td>' in html
    )
    assert 'aria-label="@0: 3 of 4 solved, 30% to 95%."' in html  # the same as a picture
    assert "1 task: 0 always solved, 1 at times, 0 never" in html
    assert ">1 attempt</a> the world failed; " in html
    assert ">1 attempt</a> was called off; in 1 attempt the model’s window was full." in html


def test_a_lost_attempt_whose_replies_called_no_tool_says_so_where_it_is_listed(console, make_group, play):
    play(make_group(), "failed", checks={"right": False}, cost={"steps": 8, "invalid": 7, "seconds": 3})
    said = "check “right” is false. Of its 8 replies 7 called no tool, or none that takes such a call."
    for page in (HOME, "/worlds/attempts/"):
        assert said in text_of(console.get(page))


def test_figures_of_a_group_that_is_short_are_not_waited_for(console, make_group, play):
    group = make_group(attempts=2)
    for ending in ("solved", "infra_error"):
        play(group, ending)
    said = "None: of its attempts too few count to compare any."
    assert said in text_of(console.get(f"/worlds/groups/{group.pk}/"))
    other = make_group("b", attempts=2)
    play(other, "solved")  # its second attempt may still be played
    assert said not in text_of(console.get(f"/worlds/groups/{other.pk}/"))
    endless = make_group("c", attempts=None)
    play(endless, "solved")
    assert said not in text_of(console.get(f"/worlds/groups/{endless.pk}/"))
    Episode.objects.update(ended_at=timezone.now() - timedelta(days=1))  # whose player is gone for good
    for group in (other, endless):
        assert said in text_of(console.get(f"/worlds/groups/{group.pk}/"))


def test_splits_and_checkpoints_stand_apart(console, make_group, play, make_checkpoint):
    play(make_group(), "solved")
    play(make_group("b", split="heldout", task="heldout-3-1", checkpoint=make_checkpoint(1)), "failed")
    html = text_of(console.get(HOME))
    assert 'aria-label="@0: 1 of 1 solved, 21% to 100%."' in html
    assert 'aria-label="@1: 0 of 1 solved, 0% to 79%."' in html
    assert html.index("<h3>Train</h3>") < html.index("<h3>Held-out</h3>")


def test_why_an_attempt_failed_is_three_clicks_from_the_console(console, make_group, play):
    group = make_group(judged=True)
    play(group)
    cow = Did(arguments={"item": "cow"}, result="Error: not on the list.", score=-1.0)
    wrong = (Did(), cow, Did("answer", {"value": 9}, ""))
    failed = play(group, "failed", wrong, checks={"right": False})
    board = console.get(reverse("console:board"))
    assert HOME in links(text_of(board))  # the first click
    html = text_of(console.get(HOME))
    assert "Its answer was wrong: check “right” is false." in html
    did = "price({&quot;item&quot;: &quot;cow&quot;}) → Error: not on the list."
    assert f'Step 2 scored worst, −1: <span class="mono">{did}</span>' in html
    to = f"/worlds/episodes/{failed.pk}/#step-2"
    assert to in links(html)  # the second
    assert 'id="step-2"' in text_of(console.get(to))


def test_what_was_cut_off_says_where(console, make_group, play):
    play(make_group(), "truncated", (Did(),) * 8, cut_by="horizon")
    assert "Cut off at 8 replies, before it had an answer." in text_of(console.get(HOME))


def test_the_page_says_when_training_starts_in_the_one_sentence(console, make_group, play):
    group = make_group(judged=True)
    play(group)
    play(group, "failed", (Did(score=-1.0),))
    batch = batches.filling(line_recipes.recipe_of("shared"))
    html = text_of(console.get(HOME))
    assert batch.full_sentence in html
    assert "1 group waits for training." in html
    Sample.objects.update(status="trained")
    assert "No group waits for training." in text_of(console.get(HOME))


def test_a_run_that_warns_is_named_with_its_alarms(console, make_run, make_group, play, talker):
    run = make_run(agents={"alarms": ["Attempts grow longer, and success does not."]})
    make_run(agents={})
    play(make_group(user=talker))
    html = text_of(console.get(HOME))
    assert "Attempts grow longer, and success does not." in html
    assert reverse("console:run", args=[run.pk]) in links(html)
    console.force_login(talker)
    assert "Attempts grow longer" not in text_of(console.get(HOME))


def test_each_world_says_what_judges_votes_count_there(console, make_group, play):
    play(make_group())
    play(make_group("b", world="garden"))
    html = text_of(console.get(HOME))
    assert "Votes count nothing in till: checked on 0 of the 100 steps that it takes." in html
    assert "Votes count nothing in garden: checked on 0 of the 100 steps that it takes." in html


# ---------- lists ----------


def test_attempts_are_narrowed_by_split_checkpoint_and_ending(console, make_group, play, make_checkpoint):
    first, second = make_group(), make_group("b", split="heldout", task="held", checkpoint=make_checkpoint(1))
    rows = [play(first), play(first, "failed"), play(second), play(second, "infra_error"), play(second, "")]

    def listed(query):
        html = console.get(f"/worlds/attempts/?{query}").content.decode()
        return [n for n, row in enumerate(rows) if f"/worlds/episodes/{row.pk}/" in html]

    assert listed("") == [0, 1, 2, 3, 4]
    assert listed("split=heldout") == [2, 3, 4]
    assert listed("checkpoint=0&ending=solved") == [0]
    assert listed("ending=lost") == [1]
    assert listed("ending=unscorable") == [3]
    assert listed("ending=playing") == [4]
    assert listed("world=till&task=held") == [2, 3, 4]
    assert listed("world=other") == []
    assert listed("split=x&checkpoint=y&ending=z&before=q") == [0, 1, 2, 3, 4]  # any address shows a list


def test_attempts_of_one_task_are_compared_over_checkpoints(console, make_group, play, make_checkpoint):
    play(make_group())
    play(make_group("b", checkpoint=make_checkpoint(1)), "failed")
    html = text_of(console.get("/worlds/attempts/?world=till&task=train-3-7"))
    assert '<span class="badge">@1</span> solved 0 of 1' in html
    assert '<span class="badge">@0</span> solved 1 of 1' in html


def test_a_list_of_attempts_is_read_page_by_page_newest_first(console, talker):
    seed(talker, attempts.PAGE + 8)
    seen, address = [], "/worlds/attempts/"
    while address:
        html = console.get(address).content.decode()
        seen += re.findall(r"<th scope=\"row\"><a href=\"/worlds/episodes/([\w-]+)/", html)
        older = re.search(r'href="(\?[^"]*before=[^"]+)"', html)
        address = f"/worlds/attempts/{older[1]}" if older else ""
    newest = Episode.objects.order_by("-created_at", "-pk").values_list("pk", flat=True)
    assert seen == [str(pk) for pk in newest]  # each once, 40 and then 8


def test_a_list_of_tasks_is_read_page_by_page_and_none_of_one_name_is_lost(console, make_group, play):
    worlds = [f"w{n:02}" for n in range(attempts.PAGE + 2)]
    for n, world in enumerate(worlds):
        play(make_group(f"g{n}", world=world, task="the same"))
    seen, address = [], "/worlds/tasks/"
    while address:
        html = console.get(address).content.decode()
        seen += re.findall(r"\?world=(w\d\d)&amp;task=", html)
        more = re.search(r'href="(\?[^"]*after=[^"]+)"', html)
        address = f"/worlds/tasks/{more[1].replace('&amp;', '&')}" if more else ""
    assert seen == worlds  # each once, 40 and then 2


def test_tasks_say_how_often_they_were_solved(console, make_group, play):
    group = make_group()
    play(group)
    play(group, "failed")
    play(group, "infra_error")
    play(make_group("b", split="heldout", task="heldout-3-1"), "failed")
    html = text_of(console.get("/worlds/tasks/?world=till"))
    assert "1 of 2" in html
    assert "0 of 1" in html
    assert "heldout-3-1" not in text_of(console.get("/worlds/tasks/?world=till&split=train"))


def test_a_short_group_says_why_as_the_group_itself_does(console, make_group, play):
    group = make_group(attempts=3)
    for ending in ("solved", "infra_error", "cancelled"):
        play(group, ending)
    html = text_of(console.get("/worlds/groups/?state=short"))
    assert group.standing().reason in html
    assert group.standing().reason in text_of(console.get(f"/worlds/groups/{group.pk}/"))
    assert text_of(console.get("/worlds/groups/?state=learned")).count(group.name) == 0


@pytest.mark.parametrize(
    ("wanted", "ends", "fields", "state"),
    [
        (2, ("solved",), {}, "playing"),
        (None, ("solved", ""), {}, "playing"),
        (None, ("solved",), {}, "short"),
        (2, ("solved", "infra_error"), {}, "short"),
        (2, ("solved", "failed"), {}, "judging"),
        (2, ("solved", "gave_up"), {"judged": True}, "judged"),
        (2, ("solved", "truncated"), {"split": "heldout"}, "examined"),
        (3, ("solved", "failed"), {}, "judging"),  # its player left long ago
        (3, ("solved",), {}, "short"),
    ],
)
def test_the_database_says_how_far_a_group_is_as_the_group_does(make_group, play, wanted, ends, fields, state):
    group, long_ago = make_group(attempts=wanted, **fields), timezone.now() - timedelta(days=1)
    for ending in ends:
        play(group, ending, ended_at=long_ago if wanted == 3 else timezone.now())
    assert standings.annotated(Group.objects.all()).get().state == state
    [told] = standings.told(Group.objects.all())
    assert (told.state, told.endings) == (state, Counter(ends))
    assert group.standing().state == (state if state in ("playing", "short") else "complete")


def test_what_counts_is_the_same_for_the_database(make_group, play):
    group = make_group()
    for ending in ("solved", "failed", "gave_up", "infra_error", "cancelled", ""):
        play(group, ending)
    for cut_by in ("horizon", "context"):
        play(group, "truncated", cut_by=cut_by)
    counted = set(Episode.objects.filter(COUNTED))
    assert counted == {one for one in Episode.objects.all() if counts(one.ending, one.cut_by)}
    assert standings.annotated(Group.objects.all()).get().counted == len(counted) == 4
    [told] = standings.told(Group.objects.all())
    assert (told.counted, told.solved, told.full, sum(told.endings.values())) == (4, 1, 1, 8)
    assert success.by_checkpoint(Episode.objects.all()) == success.worlds([told])[0].splits[0].rows


def test_every_group_is_told_in_one_query(make_group, play, django_assert_num_queries):
    judged, still = make_group(judged=True), make_group("night/2")
    for group in (judged, still):
        play(group), play(group, "failed")
    make_group("night/3")  # without an attempt
    with django_assert_num_queries(1):
        told = standings.told(Group.objects.order_by("pk"))
    assert sorted((one.state, one.waits, one.solved) for one in told) == [
        ("judged", True, 1), ("judging", False, 1), ("short", False, 0)
    ]  # fmt: skip
    assert success.worlds(told)[0].states == {"judged": 1, "judging": 1, "short": 1}


# ---------- doors ----------


def addresses(episode):
    return [HOME, "/worlds/attempts/", "/worlds/tasks/", "/worlds/groups/", f"/worlds/groups/{episode.group_id}/",
            f"/worlds/episodes/{episode.pk}/"]  # fmt: skip


def test_a_person_sees_their_own_attempts_and_no_others(client, operator, talker, make_group, play):
    mine = play(make_group("mine", world="garden"), "failed", (Did(score=-1.0),))
    other = play(make_group("other", user=operator, world="harbour"), "failed", (Did(score=-1.0),))
    for address in addresses(mine):
        assert Client().get(address).status_code == 302, address
    client.force_login(talker)
    for address in addresses(mine):
        page = client.get(address)
        assert page.status_code == 200, address
        assert "harbour" not in page.content.decode(), address
    for address in addresses(other)[-2:]:
        assert client.get(address).status_code == 404, address
    client.force_login(operator)
    for address in [*addresses(mine), *addresses(other)]:
        assert client.get(address).status_code == 200, address
    assert "garden" in text_of(client.get(HOME))


def test_words_that_are_off_the_record_are_their_persons_alone(client, operator, talker, make_group, play):
    wrong = (Did(arguments={"item": "secret-item"}, result="secret-result", score=-1.0),)
    episode = play(make_group(), "failed", wrong, learns=False)
    play(make_group("two"), "failed", wrong, learns=False)
    client.force_login(operator)
    for address in addresses(episode):
        assert "secret" not in client.get(address).content.decode(), address
    assert "Off the record" in text_of(client.get(f"/worlds/episodes/{episode.pk}/"))
    client.force_login(talker)
    assert "secret-item" in text_of(client.get(f"/worlds/episodes/{episode.pk}/"))


def test_worlds_are_named_in_the_navigation_of_all(client, operator, talker, make_group, play):
    for person in (operator, talker):
        client.force_login(person)
        assert '<a href="/worlds/" aria-current="page">Worlds</a>' in text_of(client.get(HOME))


# ---------- many ----------


def test_a_page_asks_the_database_as_often_for_a_thousand_attempts_as_for_a_few(console, operator, connection_counts):
    def pages(person):
        failed = Episode.objects.filter(ending="failed", group__user=person).order_by("-created_at").first()
        of_task = f"/worlds/attempts/?world=till&task={failed.group.task}"
        return [*addresses(failed), of_task, "/worlds/groups/?state=short"]

    seed(operator, 128)
    few = [connection_counts(console, page) for page in pages(operator)]
    seed(operator, 1000, seed=2)
    many = [connection_counts(console, page) for page in pages(operator)]
    assert few == many
    assert max(many) < 40
    assert Checkpoint.objects.count() > 3


@pytest.fixture
def connection_counts():
    from django.db import connection

    def asked(client, address):
        number = 0

        def count(execute, *args):
            nonlocal number
            number += 1
            return execute(*args)

        client.get(address)  # some things are kept for a while, and whether they are is no matter of the rows
        with connection.execute_wrapper(count):
            assert client.get(address).status_code == 200
        return number

    return asked

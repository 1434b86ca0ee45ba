"""Saved prompts: one's own to add, change and remove, shared ones by staff, and what the composer is offered."""

from __future__ import annotations

import pytest
from django.contrib.auth import get_user_model
from django.test import Client

from chat.composing import prompt_pages
from chat.composing.defaults import ChatDefaults
from chat.composing.prompts import SavedPrompt, find_variables
from privacy import erasures
from webapp.people.own_data import own_export

HTMX = {"HX-Request": "true"}
TEXT = "Translate into {{language}}: {{ text }}"


def browser_of(person) -> Client:
    client = Client()
    client.force_login(person)
    return client


@pytest.fixture
def anas(ana) -> Client:
    return browser_of(ana)


@pytest.fixture
def bens(ben) -> Client:
    return browser_of(ben)


@pytest.fixture
def staff(db) -> Client:
    return browser_of(get_user_model().objects.create_user("sam", password="secret", is_staff=True))


def add(client: Client, name: str = "Translate", text: str = TEXT, **more):
    return client.post("/prompts/", {"name": name, "text": text, **more})


def pick(client: Client) -> str:
    return client.get("/prompts/pick/", headers=HTMX).content.decode()


def test_the_page_teaches_what_it_is_for_as_long_as_it_is_empty(anas):
    assert "You have saved no prompt yet." in anas.get("/prompts/").content.decode()
    assert "Save your first prompt" in pick(anas)


def test_a_prompt_is_added_offered_changed_and_removed(anas, ana):
    assert add(anas, text="One\r\ntwo {{ x }}").status_code == 302
    prompt = SavedPrompt.objects.get()
    assert (prompt.user, prompt.text, prompt.variables) == (ana, "One\ntwo {{ x }}", ["x"])
    assert f'id="prompt-{prompt.pk}"' in pick(anas)
    form = anas.get(f"/prompts/{prompt.pk}/").content.decode()
    assert 'value="Translate"' in form
    anas.post(f"/prompts/{prompt.pk}/", {"name": "Turn", "text": "Two"})
    prompt.refresh_from_db()
    assert (prompt.name, prompt.text) == ("Turn", "Two")
    anas.post(f"/prompts/{prompt.pk}/remove/")
    assert not SavedPrompt.objects.exists()


def test_a_prompt_is_its_persons_alone(anas, bens):
    add(anas)
    prompt = SavedPrompt.objects.get()
    assert "Translate" not in pick(bens)
    for path in ("", "remove/"):
        assert bens.post(f"/prompts/{prompt.pk}/{path}", {"name": "Mine", "text": "x"}).status_code == 404
    assert SavedPrompt.objects.get().name == "Translate"


def test_staff_share_prompts_that_others_use_and_do_not_change(staff, anas):
    add(staff, name="House style", is_shared="on")
    prompt = SavedPrompt.objects.get()
    assert "House style" in pick(anas)
    page = anas.get("/prompts/").content.decode()
    assert "<h2>Shared</h2>" in page
    assert "Change “House style”" not in page
    assert anas.post(f"/prompts/{prompt.pk}/remove/").status_code == 404
    assert "Change “House style”" in staff.get("/prompts/").content.decode()


def test_sharing_is_for_staff_alone(anas, bens):
    add(anas, is_shared="on")
    assert not SavedPrompt.objects.get().is_shared
    assert "Translate" not in pick(bens)


@pytest.mark.parametrize(
    ("said", "sentence"),
    [
        ({"name": "", "text": "x"}, "A prompt needs a name."),
        ({"name": "x", "text": ""}, "A prompt needs a text."),
        ({"name": "translate", "text": "x"}, "There is a prompt of this name already"),
        ({"name": "x", "text": "y" * 8001}, "A prompt may have at most 8000 characters; this one has 8001."),
        ({"name": "a\u202eb", "text": "x"}, "A name holds only characters that are seen"),
    ],
)
def test_what_cannot_be_saved_says_why_and_keeps_what_was_typed(anas, said, sentence):
    add(anas)
    answer = add(anas, **said)
    assert (answer.status_code, sentence in answer.content.decode()) == (422, True)
    assert SavedPrompt.objects.count() == 1


def test_a_person_has_so_many_and_no_more(anas, monkeypatch):
    monkeypatch.setattr(prompt_pages, "MOST", 1)
    add(anas)
    assert "You have 1 prompts already" in add(anas, name="Other").content.decode()


def test_what_is_written_is_text_on_the_page(anas):
    add(anas, name="<b>x</b>", text='"><script>alert(1)</script>')
    for html in (pick(anas), anas.get("/prompts/").content.decode()):
        assert "<script>alert" not in html
        assert "<b>x</b>" not in html


def test_the_page_asks_as_little_of_the_database_however_many_there_are(anas, ana, django_assert_max_num_queries):
    SavedPrompt.objects.bulk_create(SavedPrompt(user=ana, name=f"Prompt {n}", text=TEXT * 20) for n in range(200))
    with django_assert_max_num_queries(6):
        page = anas.get("/prompts/")
    assert len(page.content) <= 200_000
    with django_assert_max_num_queries(6):
        anas.get("/prompts/pick/", headers=HTMX)


def test_a_variable_is_a_word_or_a_few_between_double_braces():
    assert find_variables("{{a}} {{ b c }} {{a}} {{größe-2}} {{}} {{ }} {x} {{{d}}}") == ["a", "b c", "größe-2", "d"]


def test_what_a_person_saved_is_in_their_export_and_goes_with_them(anas, ana, bens, ben):
    add(anas)
    add(bens, name="Bens own")
    anas.post("/chats/settings/", {"instructions": "Be brief."})
    told = list(own_export.exported(ana))
    assert {"object": "prompt", "name": "Translate", "text": TEXT, "is_shared": False} in told
    assert {"object": "new_chats", "instructions": "Be brief.", "sampling": {}} in told
    assert "Bens own" not in str(told)
    erasures.go_on(erasures.ask(ana, revokes_keys=False))
    assert [one.name for one in SavedPrompt.objects.all()] == ["Bens own"]
    assert not ChatDefaults.objects.exists()

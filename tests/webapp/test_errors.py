"""A failure is one clear sentence: a page for people, OpenAI's shape for clients."""

import logging
from io import StringIO
from uuid import UUID

import pytest
from django.test import Client, RequestFactory
from django.urls import get_resolver
from django.urls.converters import IntConverter

from webapp import errors
from webapp.logs import WithoutTraceback
from webapp.serving.rows import RowConverter


def test_a_page_that_is_not_there(client, operator):
    client.force_login(operator)
    answer = client.get("/nothing/here/")
    assert answer.status_code == 404
    assert "There is nothing here, or it is not yours to see." in answer.content.decode()


def test_a_page_that_asks_for_what_is_gone_gets_no_answer_for_programs(client, operator):
    """The address ends like one of the API's, and htmx takes any kind of answer: the header says who asks."""
    client.force_login(operator)
    gone = f"/turns/{UUID(int=7)}/feedback/"
    answer = client.post(gone, {"kind": "thumb", "value": "1"}, headers={"HX-Request": "true", "Accept": "*/*"})
    assert (answer.status_code, answer["Content-Type"]) == (404, "text/html; charset=utf-8")
    assert "There is nothing here, or it is not yours to see." in answer.content.decode()
    assert client.post(gone, headers={"Accept": "*/*"})["Content-Type"] == "application/json"


@pytest.mark.parametrize("path", ["/account/password/", "/console/learn-now/", "/logout/"])
def test_an_address_that_only_takes_forms_is_no_empty_page(client, operator, path):
    """Who signs in anew after pressing a button is led to where the button sends."""
    client.force_login(operator)
    answer = client.get(path, headers={"Accept": "text/html"})
    assert (answer.status_code, answer["Allow"]) == (405, "POST" if path != "/logout/" else "POST, OPTIONS")
    assert "This address only takes what a button sends. Go back, and press it again." in answer.content.decode()


@pytest.mark.parametrize("number", [2**63, 10**40, "٣" * 20])
def test_a_number_that_no_row_can_have_leads_to_no_page(client, operator, number):
    client.force_login(operator)
    paths = [f"/console/runs/{number}/", f"/console/checkpoints/{number}/", f"/console/judges/{number}/"]
    assert [client.get(path).status_code for path in paths] == [404] * 3


def test_no_path_takes_numbers_that_a_database_cannot_hold():
    """`int` of Django has no end: each path uses `row`."""

    def converters(patterns):
        for pattern in patterns:
            yield from pattern.pattern.converters.values()
            yield from converters(getattr(pattern, "url_patterns", []))

    kinds = {type(one) for one in converters(get_resolver().url_patterns)}
    assert IntConverter not in kinds
    assert RowConverter in kinds


def test_a_page_that_breaks_tells_nothing_of_the_inside(operator, monkeypatch):
    from chat import views

    def broken(*args, **kwargs):
        raise RuntimeError("secret detail")

    monkeypatch.setattr(views, "show_page", broken)
    client = Client(raise_request_exception=False)
    client.force_login(operator)
    answer = client.get("/chats/new/")
    assert answer.status_code == 500
    assert "secret" not in answer.content.decode()
    assert "It was logged" in answer.content.decode()


def test_a_form_of_megabytes_is_too_large(client, operator):
    client.force_login(operator)
    answer = client.post("/chats/", b"text=" + b"x" * (9 * 2**20), content_type="application/x-www-form-urlencoded")
    assert answer.status_code == 413
    assert "larger than 8 MB" in answer.content.decode()


@pytest.mark.parametrize(
    ("errors_found", "words"),
    [
        (
            [{"loc": ("body", "body", "messages", 0, "role"), "msg": "Field required"}],
            "messages.0.role: Field required.",
        ),
        ([{"loc": ("body", "body"), "msg": "Value error, give a thumb"}], "Give a thumb."),
        ([{"loc": ("body",), "msg": "Field required", "type": "missing"}], "The body is empty: send a JSON object."),
    ],
)
def test_the_first_thing_that_is_wrong_is_said_with_its_place(errors_found, words):
    assert errors.sentence(errors_found) == words


def test_under_v1_even_a_lost_path_answers_as_openai_does():
    answer = errors.not_found(RequestFactory().get("/v1/x"))
    assert answer["Content-Type"] == "application/json"


@pytest.fixture
def logged(monkeypatch):
    """What the installation's own handler writes."""
    (handler,) = [
        one for one in logging.getLogger().handlers if any(isinstance(f, WithoutTraceback) for f in one.filters)
    ]
    written = StringIO()
    monkeypatch.setattr(handler, "stream", written)
    return written.getvalue


@pytest.mark.parametrize(
    ("path", "headers", "status"),
    [("/console/", {}, 403), ("/chats/new/", {"Host": "elsewhere.example"}, 400), ("/nothing/", {}, 404)],
)
def test_a_refused_request_is_logged_in_a_line_without_a_traceback(
    client, django_user_model, logged, path, headers, status
):
    client.force_login(django_user_model.objects.create_user("ana"))
    assert client.get(path, headers=headers).status_code == status

    said = logged()
    assert "WARNING django.request" in said or "ERROR django.security" in said
    assert "Traceback" not in said


def test_a_fault_of_ours_is_logged_with_its_traceback(operator, monkeypatch, logged):
    from chat import views

    def broken(*args, **kwargs):
        raise RuntimeError("secret detail")

    monkeypatch.setattr(views, "show_page", broken)
    client = Client(raise_request_exception=False)
    client.force_login(operator)
    assert client.get("/chats/new/").status_code == 500

    said = logged()
    assert "Traceback" in said
    assert "secret detail" in said

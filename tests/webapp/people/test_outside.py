"""Where text leaves the machine to be answered and learned from, the pages say so."""

from __future__ import annotations

import pytest
from django.contrib.auth import get_user_model

from tests.webapp.conftest import text_of


@pytest.fixture
def page(client, db):
    client.force_login(get_user_model().objects.create_user("root", is_staff=True, is_superuser=True))
    return client


@pytest.fixture
def tinker(settings):
    settings.LEARNER, settings.ENGINE_URL = "tinker", settings.TINKER_URL


SENTENCE = "Text of your conversations leaves this machine for tinker.thinkingmachines.dev."


@pytest.mark.parametrize("address", ["/console/", "/console/checkpoints/", "/console/judges/"])
def test_every_console_page_says_that_text_leaves_for_tinker(page, tinker, address):
    assert SENTENCE in text_of(page.get(address, follow=True))


def test_nothing_of_it_stands_there_where_this_machine_learns(page):
    assert "leaves this machine" not in text_of(page.get("/console/"))


def test_the_privacy_page_names_tinker_as_who_answers_and_learns(page, tinker):
    text = text_of(page.get("/privacy/"))

    assert "<td>learns</td>" in text
    # Who answers, the judge that is the same model, and who learns: three readers, and none of them here.
    assert text.count("leaves this machine</span> tinker.thinkingmachines.dev") == 3
    assert "stays here" not in text

"""What an agent does to be rewarded, or to leave, without doing the task: none of it scores above 0."""

from __future__ import annotations

import pytest

from environments.worlds.browser.world import Browser

pytestmark = [pytest.mark.browser, pytest.mark.miniwob, pytest.mark.processes]

PAGE = """<!DOCTYPE html><html><head><title>x</title>
<link rel="stylesheet" href="/core/core.css"><script src="/core/core.js"></script>
<script>
var genProblem = function () {
  document.getElementById('query').textContent = 'Do what cannot be done.';
  document.getElementById('say').onclick = function () {
    document.getElementById('echo').innerHTML = document.getElementById('field').value;
  };
  document.getElementById('go').onclick = function () {
    var link = document.createElement('a');
    link.href = document.getElementById('field').value;
    link.target = document.getElementById('target').value;
    document.body.appendChild(link); link.click(); link.remove();
  };
  document.getElementById('save').onclick = function () {
    var link = document.createElement('a');
    link.href = 'data:text/plain,hello'; link.download = 'planted.txt'; link.click();
  };
};
window.onload = function () { core.startEpisode(); };
</script></head><body><div id="wrap"><div id="query"></div><div id="area">
<input id="field"><input id="target"><button id="say">Say</button><button id="go">Go</button>
<button id="save">Save</button><div id="echo"></div></div></div></body></html>"""

REWARD = "core.endEpisode(1)"


@pytest.fixture(scope="module")
def echo(tmp_path_factory):
    """A page that takes what is typed for HTML, and follows any address: as careless as a page can be."""
    folder = tmp_path_factory.mktemp("pages")
    (folder / "secret.txt").write_text("the answer")
    (folder / "echo.html").write_text(PAGE)
    world = Browser(f"{folder}/")
    yield world
    world.chromium.end()


@pytest.mark.parametrize(
    "typed",
    [
        f"<script>{REWARD}</script>",
        f"<img src=x onerror='{REWARD}'>",
        f"<svg onload='{REWARD}'></svg>",
        f"<iframe srcdoc='<script>parent.{REWARD}</script>'></iframe>",
        f"<details open ontoggle='{REWARD}'>a</details>",
        "<form id=core><input name=endEpisode></form><a id=WOB_DONE_GLOBAL></a><a id=WOB_RAW_REWARD_GLOBAL></a>",
        f"<iframe src='javascript:parent.{REWARD}'></iframe>",
        f"<base href='file:///'><link rel=import href=x onload='{REWARD}'>",
        f"<meta http-equiv=refresh content='0;url=javascript:{REWARD}'>",
    ],
    ids=["script", "onerror", "onload", "srcdoc", "ontoggle", "clobbering", "frame", "base", "refresh"],
)
def test_what_is_typed_never_runs(echo, play, typed):
    page = play(echo, "echo")
    page.type(typed)
    page.click("button", "Say")
    page.key("Tab")
    assert page.outcome().value is None


@pytest.mark.parametrize("target", ["", "_blank", "_top"])
@pytest.mark.parametrize(
    "address",
    [
        f"javascript:{REWARD}",
        "file:///etc/passwd",
        "http://127.0.0.1:8000/",
        "https://example.com/",
        "data:text/html,<script>WOB_RAW_REWARD_GLOBAL=1;WOB_DONE_GLOBAL=true</script>",
        "about:blank",
        "chrome://version",
        "http://pages.invalid/own/../secret.txt",
        "http://pages.invalid/miniwob/click-test.html",
        "",
    ],
    ids=["javascript", "file", "local", "web", "data", "blank", "chrome", "parent", "other-page", "reload"],
)
def test_no_address_leads_to_a_reward_or_elsewhere(echo, play, address, target):
    page = play(echo, "echo")
    page.type(address)
    page.type(target, place=1)
    seen = page.click("button", "Go")
    value = page.outcome().value
    assert value is None or value <= 0
    assert "root:" not in seen.text
    assert "the answer" not in seen.text
    context = page.attempt.context
    assert len(context.pages) == 1  # what opened was closed
    assert context.pages[0].url.startswith("http://pages.invalid/own/echo.html") or value == -1


def test_a_download_is_refused(echo, play, tmp_path):
    page = play(echo, "echo")
    assert page.click("button", "Save").score != 1.0
    assert page.outcome().value is None


@pytest.mark.parametrize("key", ["Control+r", "F5", "Control+w", "Control+t", "F12", "Control+l", "Alt+ArrowLeft"])
def test_no_key_ends_or_renews_a_page(echo, play, key):
    page = play(echo, "echo")
    page.type("kept")
    page.key(key)
    assert page.click("textbox", None, 1).is_over is False
    assert page.one("textbox").value == "kept"
    assert page.outcome().value is None


def test_a_page_cannot_ask_any_address(echo, play):
    page = play(echo, "echo")
    asked = (
        "Promise.all(['http://127.0.0.1:9/', 'https://example.com/', 'http://pages.invalid/own/../secret.txt',"
        " 'http://pages.invalid/own/secret.txt'].map((each) => fetch(each).then(() => each, () => 'refused')))"
    )
    answers = page.attempt.chromium.do(page.attempt.context.pages[0].evaluate(asked))
    assert answers == ["refused"] * 4

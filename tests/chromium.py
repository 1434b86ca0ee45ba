"""One Chromium for all tests of a process: to start one takes longer than most of them, and a context is as fresh."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import pytest
import pytest_asyncio
from asgiref.sync import sync_to_async

from installation import diagnosis

if TYPE_CHECKING:
    from playwright.async_api import BrowserContext, Page, Playwright, Request, Response

PATIENCE_MS = 60_000
"""How long what is to come is waited for: a machine that also trains is slow, and patience costs nothing."""

TO_LOAD_MS = 150_000
"""So long may a page take: the first one of a process waits until all that the application imports is there."""

LOADED = """addEventListener("load", () => { document.documentElement.dataset.loaded = ""; });"""
"""Every page says when its scripts are there."""

ARGUMENTS = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking"]


class Chromium:
    """Playwright's own server before it, which a test connects to. Who disconnects takes their contexts along."""

    def __init__(self, folder: Path) -> None:
        self._settings = folder / "chromium.json"
        self._settings.write_text(json.dumps({"executablePath": str(diagnosis.chromium()), "args": ARGUMENTS}))
        self._server: subprocess.Popen[str] | None = None
        self._address = ""

    @property
    def address(self) -> str:
        """Where it listens; it is started where it does not run."""
        if self._server is None or self._server.poll() is not None:
            self.close()
            command = [sys.executable, "-m", "playwright", "launch-server", "--browser", "chromium"]
            self._server = subprocess.Popen(
                [*command, "--config", str(self._settings)], stdout=subprocess.PIPE, text=True, start_new_session=True
            )
            assert self._server.stdout is not None
            self._address = self._server.stdout.readline().strip()
            assert self._address.startswith("ws://"), f"Chromium did not start: {self._address!r}"
        return self._address

    def close(self) -> None:
        if self._server is not None:
            with suppress(ProcessLookupError):
                os.killpg(self._server.pid, signal.SIGTERM)
            self._server.wait(timeout=30)
            self._server = None


@pytest.fixture(scope="session")
def chromium(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Chromium]:
    from playwright import async_api, sync_api  # an extra, and this file is read in every run

    for api in (async_api, sync_api):
        api.expect.set_options(timeout=PATIENCE_MS)
    made = Chromium(tmp_path_factory.mktemp("chromium"))
    yield made
    made.close()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Tests with a browser share one event loop, the one in which Playwright's driver was started."""
    for item in items:
        if "playwright" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.asyncio(loop_scope="session"), append=False)


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def playwright() -> AsyncIterator[Playwright]:
    """The process that speaks to browsers: to start one for each test takes half a second of a core."""
    from playwright.async_api import async_playwright  # an extra, and this file is read in every run

    async with async_playwright() as driver:
        yield driver


PARTS_OF_PAGES = {"script", "stylesheet", "font", "image"}


@pytest_asyncio.fixture(loop_scope="session")
async def open_tab(site, ana, client, chromium, playwright):
    """A signed-in tab; further ones share its session. Whatever the page complains of fails the test."""
    await sync_to_async(client.force_login)(ana)
    cookies = [{"name": name, "value": cookie.value, "url": site} for name, cookie in client.cookies.items()]
    complaints: list[str] = []

    async def dismiss(dialog) -> None:
        complaints.append(dialog.message)
        await dialog.dismiss()

    browser = await playwright.chromium.connect(chromium.address)
    context = await browser.new_context(viewport={"width": 1200, "height": 800})
    await context.add_cookies(cookies)
    await be_patient(context)
    own = urlsplit(site)
    watch(context, {own.netloc, f"localhost:{own.port}"}, complaints)  # there a browser has passkeys

    async def open_tab(path: str = "/") -> Page:
        tab = await new_tab(context)
        tab.on("pageerror", lambda error: complaints.append(str(error)))
        tab.on("dialog", dismiss)
        tab.on("console", lambda said: complaints.append(said.text) if is_complaint(said) else None)
        await tab.goto(site + path)
        return tab

    yield open_tab
    await browser.close()
    assert complaints == []


def watch(context: BrowserContext, hosts: set[str], complaints: list[str]) -> None:
    """Note each request to another host than these, and each script, font and picture that did not come. Of neither is
    there anything in the console but what it says of each answer with such a status; of styles there is. CSP holds off
    sockets."""

    def asked(request: Request) -> None:
        to = urlsplit(request.url)
        if to.scheme in ("http", "https") and to.netloc not in hosts:
            complaints.append(f"asked another host: {request.url}")

    def answered(response: Response) -> None:
        if response.status >= 400 and response.request.resource_type in PARTS_OF_PAGES:
            complaints.append(f"{response.status}: {response.url}")

    context.on("request", asked)
    context.on("response", answered)


async def be_patient(context: BrowserContext) -> None:
    """Whatever is done in this context is waited for, however busy the machine is."""
    context.set_default_timeout(PATIENCE_MS)
    context.set_default_navigation_timeout(TO_LOAD_MS)
    await context.add_init_script(LOADED)


async def new_tab(context: BrowserContext) -> Page:
    """A tab that is asked and clicked only while its page is loaded: the scripts of one that a click led to may be on
    their way when its words are there, and what is pressed until then would be heard by none of them."""

    async def wait() -> None:
        """Playwright waits by itself until the page no longer is as the locator says."""

    tab = await context.new_page()
    await tab.add_locator_handler(tab.locator("html:not([data-loaded])"), wait)
    return tab


def is_complaint(said) -> bool:
    # A refused message is an answer with a status, which the browser notes; htmx notes one that was never sent.
    noted = ("Failed to load resource", "Response Status", "htmx:sendError", "htmx:afterRequest")
    return said.type == "error" and not any(words in said.text for words in noted)

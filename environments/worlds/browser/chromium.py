"""One Chromium for all attempts, in a thread of its own, and begun anew where it died."""

from __future__ import annotations

import asyncio
import atexit
import os
import shutil
import threading
from collections.abc import Coroutine
from contextlib import suppress
from typing import Any, TypeVar

from environments.errors import Unplayable
from environments.worlds.base import WorldFailed

Result = TypeVar("Result")

CALL_S = 30.0
"""How long a browser may take over one action."""
IDLE_S = 20.0
"""How long it stays without a context."""
ARGUMENTS = (
    "--host-resolver-rules=MAP * ~NOTFOUND",
    "--proxy-server=http://127.0.0.1:9",  # the discard port: an address without a name leads nowhere as well
    "--proxy-bypass-list=<-loopback>",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--js-flags=--max-old-space-size=128",
    "--in-process-gpu",
    "--disable-features=WebRtc,Translate,MediaRouter,OptimizationHints",
)


class Chromium:
    """A browser that attempts share; each has a context of its own, `most` at a time, and the others wait."""

    def __init__(self, most: int) -> None:
        self._places = threading.BoundedSemaphore(most)
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._starting: asyncio.Lock | None = None
        self._driver: Any = None
        self._browser: Any = None
        self._contexts = 0
        self._ending: asyncio.TimerHandle | None = None

    def open_context(self, **options: Any) -> Any:
        """A fresh context of Playwright's async API; waits for a place. Raises WorldFailed, Unplayable."""
        self._places.acquire()
        try:
            return self.do(self._open(options), timeout_s=2 * CALL_S)
        except BaseException:
            self._places.release()
            raise

    def close_context(self, context: Any) -> None:
        """Close a context that `open_context` gave, once; one whose browser died is closed already."""
        with suppress(WorldFailed):
            self.do(self._close(context))
        self._places.release()

    def do(self, work: Coroutine[Any, Any, Result], timeout_s: float = CALL_S) -> Result:
        """Have it done in the browser's thread, and wait. Raises WorldFailed where the browser fails or hangs."""

        async def bounded() -> Result:
            return await asyncio.wait_for(work, timeout_s)

        try:
            return asyncio.run_coroutine_threadsafe(bounded(), self._running_loop()).result()
        except TimeoutError as error:
            raise WorldFailed(f"The browser did not answer within {timeout_s:g} s.") from error
        except Exception as error:
            # Playwright raises a bare Exception where its driver is gone
            if type(error).__module__.startswith("playwright.") or type(error) is Exception:
                raise WorldFailed(f"The browser failed: {str(error).splitlines()[0][:200]}") from error
            raise

    def _running_loop(self) -> asyncio.AbstractEventLoop:
        with self._lock:
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                threading.Thread(target=self._loop.run_forever, name="chromium", daemon=True).start()
                atexit.register(self.end)
            return self._loop

    async def _open(self, options: dict[str, Any]) -> Any:
        self._contexts += 1
        try:
            if self._ending is not None:
                self._ending.cancel()
                self._ending = None
            self._starting = self._starting or asyncio.Lock()
            async with self._starting:
                if self._browser is None or not self._browser.is_connected():
                    await self._start()
            return await self._browser.new_context(**options)
        except BaseException:
            self._leave()
            raise

    async def _start(self) -> None:
        try:
            from playwright.async_api import async_playwright
        except ImportError as error:
            raise Unplayable("The world browser needs Playwright: python3 -m installation install browser.") from error
        await self._stop()
        self._driver = await async_playwright().start()
        self._browser = await self._driver.chromium.launch(
            executable_path=find_chromium(),
            args=list(ARGUMENTS),
            # root has no user namespaces of Chromium's kind
            chromium_sandbox=os.geteuid() != 0,
        )

    async def _close(self, context: Any) -> None:
        try:
            await context.close()
        finally:
            self._leave()

    def _leave(self) -> None:
        self._contexts -= 1
        if not self._contexts and self._loop is not None:
            self._ending = self._loop.call_later(IDLE_S, self._end_idle)

    def _end_idle(self) -> None:
        if not self._contexts and self._loop is not None:
            self._stopping = self._loop.create_task(self._stop())

    async def _stop(self) -> None:
        browser, driver = self._browser, self._driver
        self._browser = self._driver = None
        with suppress(Exception):  # one that is dead needs no ending
            if browser is not None:
                await browser.close()
        with suppress(Exception):
            if driver is not None:
                await driver.stop()

    def end(self) -> None:
        """End the browser; safe to call twice. It is begun again where a context is asked for."""
        if self._loop is not None and self._loop.is_running():
            with suppress(WorldFailed, RuntimeError):
                self.do(self._stop(), timeout_s=10)


def find_chromium() -> str | None:
    """The system's Chromium; None: the one that Playwright brought."""
    return next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)

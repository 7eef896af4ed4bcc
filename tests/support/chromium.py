"""A real browser for tests: Chromium, controlled through a pipe, without a driver and without a network."""

from __future__ import annotations

import base64
import fcntl
import json
import os
import select
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, TypeVar

import pytest

Test = TypeVar("Test", bound=Callable[..., None])

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")

NEEDS_CHROMIUM = [
    pytest.mark.slow,
    pytest.mark.skipif(CHROMIUM is None, reason="chromium, which shows the pages, is not installed"),
]
"""Marks of a module whose tests open a page."""


def needs_chromium(test: Test) -> Test:
    """Mark a test that opens a page: it is slow, and skipped without a browser."""
    for mark in NEEDS_CHROMIUM:
        test = mark(test)
    return test


_OPTIONS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-default-apps",
    "--disable-dev-shm-usage",
    "--hide-scrollbars",
    "--mute-audio",
    "--remote-debugging-pipe",
]


class NavigatedError(Exception):
    """The page went away while a command was carried out on it."""


class SilentError(Exception):
    """The browser did not answer in time."""


class Page:
    """One tab, or several by turns. Messages of the page's console and its exceptions are kept in `complaints`."""

    def __init__(self, to_browser: int, from_browser: int) -> None:
        self._to, self._from, self._buffer, self._number = to_browser, from_browser, b"", 0
        self._session: str | None = None
        self.complaints: list[str] = []
        self._attach()

    def new_tab(self) -> None:
        """Open another tab of the same browser, and continue in it."""
        self._session = None
        self._attach()

    def switch(self, session: str) -> None:
        """Continue in a tab, which `session` named while it was the current one."""
        self._session = session

    @property
    def session(self) -> str:
        """Name of the current tab."""
        assert self._session is not None
        return self._session

    def new_phone(self, url: str) -> None:
        """Open an address as another browser would, with a storage and a cache of its own, and continue in it."""
        self._session = None
        context = self.call("Target.createBrowserContext")["browserContextId"]
        self._attach(url=url, browserContextId=context)

    def _attach(self, **target_of: str) -> None:
        target = self.call("Target.createTarget", **({"url": "about:blank"} | target_of))["targetId"]
        self._session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log"):
            self.call(f"{domain}.enable")

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        """Send a command of the Chrome DevTools Protocol; return its result."""
        self._number += 1
        message: dict[str, Any] = {"id": self._number, "method": method, "params": parameters}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._to, json.dumps(message).encode() + b"\0")
        while (reply := self._next()).get("id") != self._number:
            self._hear(reply)
        if "navigated" in reply.get("error", {}).get("message", ""):
            raise NavigatedError(method)
        assert "error" not in reply, (method, reply["error"])
        result: dict[str, Any] = reply["result"]
        return result

    def _next(self, timeout: float = 30.0) -> dict[str, Any]:
        while b"\0" not in self._buffer:
            ready, _, _ = select.select([self._from], [], [], timeout)
            if not ready:
                raise SilentError("the browser does not answer")
            received = os.read(self._from, 2**20)
            assert received, "the browser ended"
            self._buffer += received
        line, self._buffer = self._buffer.split(b"\0", 1)
        message: dict[str, Any] = json.loads(line)
        return message

    def _hear(self, event: dict[str, Any]) -> None:
        if event.get("method") == "Log.entryAdded" and event["params"]["entry"]["level"] == "error":
            self.complaints.append(event["params"]["entry"]["text"])
        if event.get("method") == "Runtime.exceptionThrown":
            self.complaints.append(json.dumps(event["params"]["exceptionDetails"]))

    def open(self, url: str, *, width: int = 1200, height: int = 900, dark: bool = False) -> None:
        """Load an address in a window of the given size; the height does not matter to what is seen."""
        self.call(
            "Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=width < 600
        )
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.call("Emulation.setEmulatedMedia", features=[scheme])
        self.call("Page.navigate", url="about:blank")
        self.call("Page.navigate", url=url)
        self.until("document.readyState === 'complete' && location.href !== 'about:blank'")

    def go_back(self, address: str) -> None:
        """Go back to the last page in the history of the tab whose address starts with `address`.

        The browser itself moves, so no script of the page is cut off while it is evaluated.
        """
        history = self.call("Page.getNavigationHistory")
        before = history["entries"][: history["currentIndex"]]
        entry = next(entry for entry in reversed(before) if entry["url"].startswith(address))
        self.call("Page.navigateToHistoryEntry", entryId=entry["id"])

    def run(self, script: str) -> Any:
        """Return the value of an expression on the page; wait for promises."""
        reply = self.call(
            "Runtime.evaluate", expression=script, awaitPromise=True, returnByValue=True, userGesture=True
        )
        assert "exceptionDetails" not in reply, reply["exceptionDetails"]
        return reply["result"].get("value")

    def until(self, condition: str, timeout: float = 15.0) -> None:
        """Wait until an expression is true."""
        end = time.monotonic() + timeout
        while not self._holds(condition):
            assert time.monotonic() < end, f"never: {condition}; the page says {self.run('document.body.innerText')!r}"
            time.sleep(0.02)

    def _holds(self, condition: str) -> bool:
        try:
            return bool(self.run(f"Boolean({condition})"))
        except NavigatedError:  # the page is on its way to the one that is waited for
            return False

    def press(self, key: str, *, text: str = "", shift: bool = False) -> None:
        """Press and release a key, as a person at a keyboard does."""
        codes = {"Tab": 9, "Enter": 13, " ": 32, "ArrowDown": 40, "ArrowRight": 39}
        common = {"key": key, "windowsVirtualKeyCode": codes.get(key, ord(key[0].upper())), "modifiers": 8 * shift}
        text = text or {"Enter": "\r", " ": " "}.get(key, key if len(key) == 1 else "")
        self.call("Input.dispatchKeyEvent", type="keyDown" if text else "rawKeyDown", text=text, **common)
        self.call("Input.dispatchKeyEvent", type="keyUp", **common)

    def screenshot(self, path: Path) -> None:
        """Save a picture of the whole page."""
        size = self.call("Page.getLayoutMetrics")["cssContentSize"]
        clip = {"x": 0, "y": 0, "width": size["width"], "height": size["height"], "scale": 1}
        data = self.call("Page.captureScreenshot", format="png", captureBeyondViewport=True, clip=clip)["data"]
        path.write_bytes(base64.b64decode(data))


@contextmanager
def chromium() -> Iterator[Page]:
    """Start a browser with an empty profile, and end it afterwards.

    A browser that does not answer when it starts, which is rare and has to do with a busy machine, is started again.
    """
    with ExitStack() as stack:
        try:
            page = stack.enter_context(_started())
        except SilentError:
            page = stack.enter_context(_started())
        yield page


@contextmanager
def _started() -> Iterator[Page]:
    assert CHROMIUM is not None
    command_end, to_browser = os.pipe()
    from_browser, answer_end = os.pipe()

    def take_pipes() -> None:  # the protocol's: commands on descriptor 3, answers on 4
        # Out of the way first: either end may itself be 3 or 4.
        commands, answers = (fcntl.fcntl(end, fcntl.F_DUPFD, 10) for end in (command_end, answer_end))
        os.dup2(commands, 3)
        os.dup2(answers, 4)

    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        process = subprocess.Popen(
            [CHROMIUM, *_OPTIONS, f"--user-data-dir={profile}"],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            close_fds=False,
            preexec_fn=take_pipes,
        )
        os.close(command_end)
        os.close(answer_end)
        try:
            yield Page(to_browser, from_browser)
        finally:
            process.terminate()
            try:
                process.wait(timeout=10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait(timeout=30)
            os.close(to_browser)
            os.close(from_browser)

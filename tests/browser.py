"""A real Chromium, driven over its own debugging pipe: no driver program and no further library."""

from __future__ import annotations

import base64
import itertools
import json
import os
import select
import shutil
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any

from tests.collector.services import skip

_PATIENCE = 30.0
_FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-dev-shm-usage",
    "--hide-scrollbars",
    "--remote-debugging-pipe",
)


class Browser:
    """One page of a headless browser with a profile of its own.

    Attributes:
        complaints: errors that the page wrote to the console, blocked content included.
    """

    def __init__(self) -> None:
        program = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
        if program is None:
            skip("Chromium is not installed")
            raise AssertionError
        self._profile = tempfile.mkdtemp(prefix="veilgraph-chromium-")
        command_in, self._write = os.pipe()
        self._read, answers_out = os.pipe()
        # The browser reads commands from descriptor 3 and answers on 4.
        script = f'exec "$@" 3<&{command_in} 4>&{answers_out}'
        self._process = subprocess.Popen(
            ["bash", "-c", script, "chromium", program, *_FLAGS, f"--user-data-dir={self._profile}", "about:blank"],
            pass_fds=(command_in, answers_out),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(command_in)
        os.close(answers_out)
        self._numbers, self._buffer, self._session = itertools.count(1), b"", ""
        self.complaints: list[str] = []
        targets = self.call("Target.getTargets")["targetInfos"]
        page = next(target["targetId"] for target in targets if target["type"] == "page")
        self._session = self.call("Target.attachToTarget", targetId=page, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log"):
            self.call(f"{domain}.enable")

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        """A command of the DevTools protocol and its answer."""
        number = next(self._numbers)
        message: dict[str, Any] = {"id": number, "method": method, "params": parameters}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._write, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._next()
            if answer.get("id") == number:
                if "error" in answer:
                    raise RuntimeError(f"{method}: {answer['error']['message']}")
                result: dict[str, Any] = answer["result"]
                return result
            self._note(answer)

    def _next(self) -> dict[str, Any]:
        ends = time.monotonic() + _PATIENCE
        while b"\0" not in self._buffer:
            ready, _, _ = select.select([self._read], [], [], max(0.0, ends - time.monotonic()))
            part = os.read(self._read, 65536) if ready else b""
            if not part:
                raise TimeoutError("the browser does not answer")
            self._buffer += part
        message, _, self._buffer = self._buffer.partition(b"\0")
        parsed: dict[str, Any] = json.loads(message)
        return parsed

    def _note(self, event: dict[str, Any]) -> None:
        parameters = event.get("params", {})
        if event.get("method") == "Runtime.exceptionThrown":
            self.complaints.append(parameters["exceptionDetails"].get("text", "exception"))
        if event.get("method") == "Log.entryAdded" and parameters["entry"]["level"] == "error":
            self.complaints.append(parameters["entry"]["text"])

    def show(self, *, width: int, height: int = 900, dark: bool = False) -> None:
        """Size of the window, a phone's below 600 pixels, and the colour scheme."""
        self.call(
            "Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=width < 600
        )
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.call("Emulation.setEmulatedMedia", features=[scheme])

    def open(self, url: str) -> None:
        """Go to a page and wait until it is there."""
        self.call("Page.navigate", url=url)
        self.wait(f"location.href.startsWith({json.dumps(url)}) && document.readyState === 'complete'")

    def run(self, script: str) -> Any:
        """The value of an expression in the page; a promise is awaited."""
        result = self.call("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in result:
            raise RuntimeError(result["exceptionDetails"].get("exception", {}).get("description", script))
        return result["result"].get("value")

    def wait(self, script: str) -> None:
        """Until the expression is true."""
        ends = time.monotonic() + _PATIENCE
        while True:
            try:
                if self.run(script):
                    return
            except RuntimeError:  # the page is on its way to another
                pass
            if time.monotonic() > ends:
                raise TimeoutError(f"never true in the page: {script}")
            time.sleep(0.05)

    def press(self, key: str) -> None:
        """A key, as a person would press it."""
        text = {"Enter": "\r", "Space": " "}.get(key, key if len(key) == 1 else "")
        code = {"Enter": 13, "Tab": 9, "Space": 32}.get(key, ord(key[0]))
        name = " " if key == "Space" else key
        for kind in ("keyDown", "keyUp"):
            self.call("Input.dispatchKeyEvent", type=kind, key=name, text=text, windowsVirtualKeyCode=code)

    def type(self, text: str) -> None:
        """Text into whatever has the focus."""
        self.call("Input.insertText", text=text)

    def screenshot(self, path: Path) -> None:
        """The whole page, as PNG."""
        image = self.call("Page.captureScreenshot", format="png", captureBeyondViewport=True)
        path.write_bytes(base64.b64decode(image["data"]))

    def close(self) -> None:
        self._process.terminate()
        self._process.wait(_PATIENCE)
        os.close(self._read)
        os.close(self._write)
        shutil.rmtree(self._profile, ignore_errors=True)

    def __enter__(self) -> Browser:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

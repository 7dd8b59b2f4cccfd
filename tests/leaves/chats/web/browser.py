"""A headless Chromium, spoken to through its DevTools protocol."""

from __future__ import annotations

import asyncio
import base64
import itertools
import json
import os
import shutil
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from websockets.asyncio.client import connect

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")

_UNTIL = """new Promise((resolve) => {
  const look = () => { const found = (%s); if (found) { observer.disconnect(); resolve(found); } };
  const observer = new MutationObserver(look);
  observer.observe(document, { subtree: true, childList: true, characterData: true, attributes: true });
  look();
})"""


class Left(Exception):
    """The page was left while it was asked something."""


class Tab:
    """One page. What it logs and throws, and what its policy refuses, is in `complaints`."""

    def __init__(self, socket: Any) -> None:
        self._socket, self._ids = socket, itertools.count(1)
        self._waiting: dict[int, asyncio.Future[Any]] = {}
        self._loaded = asyncio.Event()
        self.complaints: list[str] = []
        self.requests: list[str] = []

    async def listen(self) -> None:
        async for text in self._socket:
            message = json.loads(text)
            if "id" in message:
                self._waiting.pop(message["id"]).set_result(message)
            elif message["method"] == "Page.loadEventFired":
                self._loaded.set()
            elif message["method"] == "Runtime.exceptionThrown":
                self.complaints.append(json.dumps(message["params"]))
            elif message["method"] == "Log.entryAdded" and message["params"]["entry"]["level"] in ("warning", "error"):
                self.complaints.append(message["params"]["entry"]["text"])
            elif message["method"] == "Network.requestWillBeSent":
                self.requests.append(message["params"]["request"]["url"])

    async def call(self, method: str, **params: Any) -> Any:
        id = next(self._ids)
        answer = self._waiting[id] = asyncio.get_running_loop().create_future()
        await self._socket.send(json.dumps({"id": id, "method": method, "params": params}))
        async with asyncio.timeout(60):
            message = await answer
        if "navigated" in message.get("error", {}).get("message", ""):
            raise Left(method)
        assert "error" not in message, message
        return message["result"]

    async def open(self, url: str) -> None:
        self._loaded.clear()
        await self.call("Page.navigate", url=url)
        await self._loaded.wait()

    async def reload(self) -> None:
        self._loaded.clear()
        await self.call("Page.reload")
        await self._loaded.wait()

    async def value(self, expression: str) -> Any:
        """What the expression gives in the page, once it is there."""
        found = await self.call("Runtime.evaluate", expression=expression, awaitPromise=True, returnByValue=True)
        assert "exceptionDetails" not in found, found
        return found["result"].get("value")

    async def until(self, expression: str) -> Any:
        """Wait until the expression gives something, also if the page loads anew meanwhile."""
        while True:
            try:
                return await self.value(_UNTIL % expression)
            except Left:
                continue

    async def shows(self, text: str) -> None:
        await self.until(f"document.getElementById('said')?.innerText.includes({json.dumps(text)})")

    async def type(self, text: str) -> None:
        await self.value("document.getElementById('text').focus()")
        await self.call("Input.insertText", text=text)

    async def press(self, key: str) -> None:
        for kind in ("keyDown", "keyUp"):
            await self.call("Input.dispatchKeyEvent", type=kind, key=key, code=key, windowsVirtualKeyCode=13, text="\r")

    async def picture(self, path: Path) -> None:
        shot = await self.call("Page.captureScreenshot", format="png")
        await asyncio.to_thread(path.write_bytes, base64.b64decode(shot["data"]))


@asynccontextmanager
async def browsing(folder: Path) -> AsyncGenerator[Tab]:
    """A browser with nothing in it, of the size of a phone, and one tab."""
    assert CHROMIUM is not None
    arguments = (
        *("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run"),
        *("--disable-background-networking", "--disable-component-update", "--remote-debugging-port=0"),
        *("--remote-allow-origins=*", f"--user-data-dir={folder}", "about:blank"),
    )
    process = await asyncio.create_subprocess_exec(
        CHROMIUM,
        *arguments,
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.PIPE,
        env={**os.environ, "HOME": str(folder)},
    )
    assert process.stderr is not None
    try:
        async with asyncio.timeout(60):
            while not (line := (await process.stderr.readline()).decode()).startswith("DevTools listening on "):
                assert line, "the browser did not start"
        draining = asyncio.create_task(process.stderr.read())
        browser = line.removeprefix("DevTools listening on ").strip()
        async with connect(browser, proxy=None, max_size=None) as socket:
            whole = Tab(socket)
            hearing = asyncio.create_task(whole.listen())
            target = await whole.call("Target.createTarget", url="about:blank")
            hearing.cancel()
        page = browser.split("/devtools/")[0] + f"/devtools/page/{target['targetId']}"
        async with connect(page, proxy=None, max_size=None) as socket:
            tab = Tab(socket)
            hearing = asyncio.create_task(tab.listen())
            for domain in ("Page", "Runtime", "Log", "Network"):
                await tab.call(f"{domain}.enable")
            await tab.call(
                "Emulation.setDeviceMetricsOverride", width=390, height=844, deviceScaleFactor=1, mobile=True
            )
            yield tab
            hearing.cancel()
        draining.cancel()
    finally:
        process.kill()
        await process.wait()

"""Chromium without a window, driven over its DevTools protocol: a page as a person's browser has
it."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import wsproto
from wsproto.connection import ConnectionState
from wsproto.events import AcceptConnection, Request, TextMessage

from tests.support.crowding import crowding
from tests.support.polling import pause, until

_START_S = 60.0


@dataclass
class Tab:
    """One tab. `messages` are what pages wrote to the console, errors of the policy for content
    among them."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter
    connection: wsproto.WSConnection
    messages: list[str] = field(default_factory=list)
    _number: int = 0

    async def connected(self) -> None:
        """Waits until the browser takes messages."""
        while self.connection.state is not ConnectionState.OPEN:
            self.connection.receive_data(await self.reader.read(1 << 16))
            list(self.connection.events())

    async def open(self, url: str) -> None:
        """Goes to a page."""
        await self.ask("Page.navigate", url=url)

    async def value(self, expression: str) -> Any:
        """Returns what a JavaScript expression is in the page."""
        answer = await self.ask("Runtime.evaluate", expression=expression, returnByValue=True)
        return answer["result"].get("value")

    async def until(self, expression: str) -> None:
        """Waits until the expression is true in the page."""
        await until(lambda: self.value(f"Boolean({expression})"), problem=expression)

    async def ask(self, method: str, **parameters: Any) -> dict[str, Any]:
        self._number += 1
        number = self._number
        text = json.dumps({"id": number, "method": method, "params": parameters})
        self.writer.write(self.connection.send(TextMessage(text)))
        while True:
            message = await self._message()
            if message.get("id") == number:
                assert "error" not in message, message
                return dict(message["result"])
            if message.get("method") in ("Log.entryAdded", "Runtime.exceptionThrown"):
                self.messages.append(json.dumps(message["params"]))

    async def _message(self) -> dict[str, Any]:
        text = ""
        while True:
            for event in self.connection.events():
                assert isinstance(event, AcceptConnection | TextMessage), event
                if isinstance(event, TextMessage):
                    text += event.data
                    if event.message_finished:
                        return dict(json.loads(text))
            data = await self.reader.read(1 << 16)
            assert data, "Chromium ended"
            self.connection.receive_data(data)


@asynccontextmanager
async def chromium_tab(directory: Path) -> AsyncIterator[Tab]:
    """A browser of its own with one empty tab."""
    process = await asyncio.create_subprocess_exec(
        *(
            "chromium",
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--remote-debugging-port=0",
        ),
        *("--disable-dev-shm-usage", f"--user-data-dir={directory}", "about:blank"),
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.DEVNULL,
    )
    try:
        async with asyncio.timeout(_START_S * crowding()):
            port, path = await _tab_of(directory)
            reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=1 << 24)
            connection = wsproto.WSConnection(wsproto.ConnectionType.CLIENT)
            writer.write(connection.send(Request(host=f"127.0.0.1:{port}", target=path)))
            tab = Tab(reader, writer, connection)
            await tab.connected()
            for domain in ("Page", "Runtime", "Log"):
                await tab.ask(f"{domain}.enable")
        yield tab
        writer.close()
    finally:
        process.terminate()
        await process.wait()


async def _tab_of(directory: Path) -> tuple[int, str]:
    """Returns the port of the protocol, and the path of the tab's websocket."""
    while True:
        with contextlib.suppress(OSError, ValueError, IndexError, KeyError):
            port = int((directory / "DevToolsActivePort").read_text().splitlines()[0])
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(b"GET /json HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n")
            head = await reader.readuntil(b"\r\n\r\n")
            sizes = [
                line for line in head.split(b"\r\n") if line.lower().startswith(b"content-length")
            ]
            body = json.loads(await reader.readexactly(int(sizes[0].split(b":")[1])))
            writer.close()
            (found,) = [each for each in body if each["type"] == "page"]
            return port, "/" + found["webSocketDebuggerUrl"].split("/", 3)[3]
        await pause(0.05, "Chromium starts")

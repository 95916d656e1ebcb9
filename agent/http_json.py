"""One HTTP request with JSON to a service beside the agent (Consul, Vault), on a thread.

The library is loaded with the first request: most nodes have neither.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

import msgspec

from orchgit.errors import UnreachableError

DEFAULT_PORTS = {"http": 80, "https": 443}


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpService:
    """Where a service is, and how it is spoken to."""

    url: str
    """http://HOST:PORT or https://HOST:PORT."""
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    ca_file: str = ""
    """"": the machine's authorities."""
    cert_file: str = ""
    key_file: str = ""
    verify: bool = True
    server_name: str = ""
    timeout_s: float = 10.0

    def problem(self) -> str:
        """What is wrong with the settings; "" if nothing."""
        try:
            parts = urlsplit(self.url)
            known = parts.scheme in DEFAULT_PORTS and bool(parts.hostname) and parts.port != 0
        except ValueError:
            known = False
        return "" if known else f'"{self.url}" is no address: write http://HOST:PORT'


@dataclass(frozen=True, slots=True)
class Reply:
    status: int
    body: Any
    """The decoded JSON; the text where the body is none; None without a body."""

    @property
    def ok(self) -> bool:
        return 200 <= self.status < 300


async def request(
    service: HttpService,
    method: str,
    path: str,
    body: object = None,
    headers: Mapping[str, str] | None = None,
) -> Reply:
    """Returns the reply, whatever its status. UnreachableError where none comes in time."""
    from agent.http_exchange import exchange

    data = b"" if body is None else msgspec.json.encode(body)
    sent = {**service.headers, **(headers or {}), "Content-Type": "application/json"}
    try:
        status, content = await asyncio.to_thread(exchange, service, method, path, data, sent)
    except OSError as error:
        reason = error.strerror or str(error) or type(error).__name__
        raise UnreachableError(f"cannot reach {service.url}: {reason}") from None
    try:
        return Reply(status, msgspec.json.decode(content) if content else None)
    except msgspec.DecodeError:
        return Reply(status, content.decode("utf-8", "replace").strip())

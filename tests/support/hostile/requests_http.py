"""Hostile HTTP: values for every parameter, bodies for every route, and requests byte by byte.

Tables and no code: a test sends each of them and says what a server does with it.
"""

from __future__ import annotations

from dataclasses import dataclass

QUERY_VALUES: tuple[bytes, ...] = (
    b"",
    b"-1",
    b"1.5",
    b"1e400",
    b"NaN",
    b"18446744073709551616",  # 2^64
    b"9" * 30,
    b"9" * 5000,
    b"%00",
    b"a%00b",
    b"%D9%A1%D9%A2",  # digits of another script
    b"%C2%B2",  # a superscript two, which is a digit and no decimal
    b"%ED%A0%80",  # half of a surrogate pair
    b"%FF%FE",
    b"..%2F..%2Fetc%2Fpasswd",
    b"%25s%25n",
    b"'%20OR%201=1;--",
    b"x" * 2000,
    b"*",
    b"(((((",
    b"%22",
)
"""Percent-encoded, as they stand in a query."""

PATH_VALUES: tuple[bytes, ...] = (
    b"-1",
    b"9" * 5000,
    b"%00",
    b"a%00b",
    b"..",
    b"%2E%2E%2F%2E%2E",
    b"%ED%A0%80",
    b"%FF",
    b"%D9%A1",
    b"x" * 4000,
    b"*",
    b"%20",
)
"""In the place of each parameter of a path."""

JSON_VALUES: tuple[bytes, ...] = (
    b"null",
    b"true",
    b"-1",
    b"1.5",
    b"1e400",
    b"18446744073709551616",
    b"9" * 5000,
    b'""',
    b'"\\u0000"',
    b'"\\ud800"',
    b'"text"',
    b"[]",
    b"[null]",
    b'[["x"]]',
    b"{}",
    b'{"x":{}}',
)
"""In the place of each key of a body."""

BODIES: tuple[bytes, ...] = (
    b"",
    b"\x00",
    b"\xff\xfe",
    b"null",
    b"0",
    b'"text"',
    b"[]",
    b"[{}]",
    b"{}",
    b"{",
    b'{"":""}',
    b'{"a":' * 2000 + b"1" + b"}" * 2000,
    b"[" * 100_000,
)
"""Whole bodies."""


@dataclass(frozen=True, slots=True)
class RawRequest:
    """`status` of the answer; 0: the connection is closed without one. `ends`: whether more is
    sent after `data`; if not, the server is to give up waiting for it."""

    name: str
    data: bytes
    status: int
    ends: bool = True


_HEAD = b"GET /v1/status/leader HTTP/1.1\r\nHost: localhost\r\n"

RAW_REQUESTS: tuple[RawRequest, ...] = (
    RawRequest(
        "long URL", b"GET /v1/jobs?prefix=" + b"x" * 70_000 + b" HTTP/1.1\r\nHost: a\r\n\r\n", 431
    ),
    RawRequest("URL without end", b"GET /" + b"x" * 4_000_000, 431),
    RawRequest("long header", _HEAD + b"A: " + b"x" * 70_000 + b"\r\n\r\n", 431),
    RawRequest("header without end", _HEAD + b"A: " + b"x" * 4_000_000, 431),
    RawRequest("header name without end", _HEAD + b"A" * 4_000_000, 431),
    RawRequest("many headers", _HEAD + b"A: b\r\n" * 300 + b"\r\n", 431),
    RawRequest("many short lines", _HEAD + b"A: b\r\n" * 500_000, 431),
    RawRequest(
        "trailer without end",
        b"PUT /v1/jobs HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n"
        b"0\r\nA: " + b"x" * 4_000_000,
        431,
    ),
    RawRequest(
        "many trailers",
        b"PUT /v1/jobs HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n"
        b"0\r\n" + b"A: b\r\n" * 500_000,
        431,
    ),
    RawRequest(
        "chunk extension without end",
        b"PUT /v1/jobs HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n"
        b"5;a=" + b"x" * 4_000_000,
        431,
    ),
    RawRequest("two hosts", _HEAD + b"Host: evil.example\r\n\r\n", 400),
    RawRequest("no request", b"\x00\x01\x02\r\n\r\n", 400),
    RawRequest(
        "length and chunks",
        b"PUT /v1/jobs HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\n"
        b"Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        400,
    ),
    RawRequest(
        "negative length",
        b"PUT /v1/jobs HTTP/1.1\r\nHost: localhost\r\nContent-Length: -5\r\n\r\n",
        400,
    ),
    RawRequest("half a request line", b"GET /v1/jo", 408, ends=False),
    RawRequest("half a header", _HEAD + b"Accept: ", 408, ends=False),
    RawRequest("nothing", b"", 0, ends=False),
    RawRequest(
        "half a body",
        b"PUT /v1/jobs HTTP/1.1\r\nHost: localhost\r\nContent-Length: 500\r\n\r\n{",
        408,
        ends=False,
    ),
    RawRequest(
        "half a chunk",
        b"PUT /v1/jobs HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n{",
        408,
        ends=False,
    ),
)

BROWSER_REQUESTS: tuple[tuple[str, str, dict[str, str]], ...] = (
    # (method, path, headers): what a page of another site makes a browser send.
    ("GET", "/v1/jobs", {"Host": "rebound.example"}),
    ("GET", "/v1/jobs", {"Host": "127.0.0.1.rebound.example"}),
    ("GET", "/v1/jobs", {"Host": "localhost.rebound.example:4646"}),
    ("PUT", "/v1/jobs", {"Host": "rebound.example", "Origin": "http://rebound.example"}),
    ("POST", "/v1/jobs", {"Origin": "https://other.example"}),
    ("POST", "/v1/jobs", {"Origin": "null"}),
    ("POST", "/v1/system/gc", {"Origin": "https://other.example"}),
    ("POST", "/v1/jobs", {"Sec-Fetch-Site": "cross-site"}),
    ("POST", "/v1/jobs", {"Sec-Fetch-Site": "same-site"}),
    ("DELETE", "/v1/job/x", {"Origin": "http://localhost"}),
    ("POST", "/git/demo.git/git-receive-pack", {"Origin": "https://other.example"}),
    ("GET", "/git/demo.git/info/refs", {"Host": "rebound.example"}),
    ("GET", "/v1/client/gc", {"User-Agent": "Mozilla/5.0 (X11; Linux x86_64)"}),
    ("GET", "/v1/client/gc", {"Sec-Fetch-Site": "cross-site"}),
    ("HEAD", "/v1/client/gc", {"User-Agent": "Mozilla/5.0 (X11; Linux x86_64)"}),
    ("POST", "/v1/client/allocation/x/restart", {"Origin": "https://other.example"}),
    ("POST", "/v1/gitops/webhooks/github", {"Origin": "https://other.example"}),
)

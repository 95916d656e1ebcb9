"""A server that answers what a real Nomad answered, for clients that only read."""

from __future__ import annotations

import contextlib
import json
import threading
from collections.abc import Iterator, Mapping, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

_NUMBERS = {"<index>": 7, "<ns>": 1_700_000_000_000_000_000}

Answers = Mapping[str, Sequence[tuple[dict[str, str], dict[str, Any]]]]
"""Path -> the query and the answer of each recorded request, the oldest first."""


def recorded_answers(files: Sequence[Path]) -> Answers:
    found: dict[str, list[tuple[dict[str, str], dict[str, Any]]]] = {}
    for file in files:
        for step in json.loads(file.read_text()).get("steps", ()):
            url = urlsplit(step["request"]["path"])
            if step["request"]["method"] == "GET":
                query = dict(parse_qsl(url.query))
                found.setdefault(unquote(url.path), []).append((query, _filled(step["response"])))
    return found


def _filled(value: Any) -> Any:
    """The answer with some numbers for those that the recording left out."""
    if isinstance(value, dict):
        return {key: _filled(each) for key, each in value.items()}
    if isinstance(value, list):
        return [_filled(each) for each in value]
    return _NUMBERS.get(value, value) if isinstance(value, str) else value


def answer(answers: Answers, target: str) -> dict[str, Any]:
    """The recorded answer that fits best: an answer with something in it, to the most of the query
    and to nothing else."""
    url = urlsplit(target)
    asked = dict(parse_qsl(url.query))
    fitting = [
        (response["status"] == 200, len(query), bool(response.get("json")), number, response)
        for number, (query, response) in enumerate(answers.get(unquote(url.path), ()))
        if query.items() <= asked.items()
    ]
    return max(fitting)[-1] if fitting else {"status": 404, "text": "not recorded"}


@contextlib.contextmanager
def recorded_nomad(files: Sequence[Path]) -> Iterator[str]:
    """Yields its address."""
    answers = recorded_answers(files)

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            found = answer(answers, self.path)
            body = json.dumps(found["json"]) if "json" in found else str(found.get("text", ""))
            self.send_response(found["status"])
            kind = "application/json" if "json" in found else "text/plain"
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(body.encode())))
            self.end_headers()
            self.wfile.write(body.encode())

        def log_message(self, format: str, *arguments: Any) -> None:
            """Says nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()

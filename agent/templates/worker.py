"""The process that renders templates for an agent, one after the other.

It holds none of the agent's secrets and opens no file itself: it asks the agent for what a template
reads. So a template that uses up its memory or time harms no other. Only what rendering needs is
imported: a task waits while the process starts.
"""

from __future__ import annotations

import json
import os
import resource
import sys
from typing import Any, BinaryIO

from agent.templates.functions import Known, TemplateSources, task_functions
from agent.templates.outside import Reading
from agent.templates.queries import Query
from agent.templates.variables import parse_variables
from orchgit.errors import InvalidInputError
from orchgit.go_templates.budget import StepBudget
from orchgit.go_templates.errors import TemplateError
from orchgit.go_templates.render import render
from orchgit.go_templates.values import from_bytes, to_bytes
from orchgit.length_frames import frame, read_frame

# A frame begins with its kind, one byte. From the agent: RENDER, and CONTENT, REFUSED, ABSENT or
# UNKNOWN for what was asked; to the agent: READY once when the process has started, FILE, QUERY and
# ADDRESS ask, NOTES come before RENDERED or FAILED, which end the template.
RENDER, CONTENT, REFUSED, ABSENT, UNKNOWN = b"r", b"c", b"x", b"a", b"u"
READY = b"b"
FILE, QUERY, ADDRESS, NOTES, RENDERED, FAILED = b"f", b"q", b"i", b"n", b"R", b"F"


class _AgentGone(Exception):
    """The agent closed the pipe."""


class TemplateWorker:
    def __init__(self, incoming: BinaryIO, outgoing: BinaryIO) -> None:
        self._incoming = incoming
        self._outgoing = outgoing

    def serve(self) -> None:
        """Render until the pipe is closed."""
        self._send(READY, b"")
        try:
            while True:
                _, body = self._receive()
                self._answer(json.loads(body))
        except _AgentGone:
            return

    def _answer(self, request: dict[str, Any]) -> None:
        reading = Reading()
        try:
            kind, body, notes = RENDERED, *self._rendered(request, reading)
        except InvalidInputError as error:
            stage = error.stage if isinstance(error, TemplateError) else ""
            failure = {"stage": stage, "message": reading.redacted(str(error))}
            kind, body, notes = FAILED, json.dumps(failure).encode(), {}
        except MemoryError:
            kind, body, notes = FAILED, b"", {}
        notes["missing"] = sorted(reading.missing)
        self._send(NOTES, json.dumps(notes).encode())
        self._send(kind, body)

    def _rendered(self, request: dict[str, Any], reading: Reading) -> tuple[bytes, dict[str, Any]]:
        budget = StepBudget(request["max_steps"])
        sources = TemplateSources(
            env=request["env"],
            read_file=lambda path: from_bytes(self._ask(FILE, to_bytes(path))[1]),
            now_ns=request["now_ns"],
            ask=self._query,
            sockaddr=lambda text: self._ask(ADDRESS, to_bytes(text))[1].decode(),
            region=request["region"],
            namespace=request["namespace"],
            denied=frozenset(request["denied"]),
        )
        text = render(
            request["text"],
            functions=task_functions(sources, budget, reading),
            budget=budget,
            delimiters=(request["left"], request["right"]),
            err_missing_key=request["err_missing_key"],
            max_bytes=request["max_bytes"],
        )
        notes: dict[str, Any] = {}
        if request["envvars"] and not reading.missing:
            try:
                notes["variables"] = parse_variables(text)
            except InvalidInputError as error:
                notes["variables_error"] = reading.redacted(str(error))
        return to_bytes(text), notes

    def _query(self, query: Query) -> tuple[Known, Any]:
        asked = [query.kind.value, query.name, query.namespace, query.region, query.data]
        known, body = self._ask(QUERY, json.dumps(asked).encode())
        return known, json.loads(body) if known is Known.FOUND else None

    def _ask(self, kind: bytes, body: bytes) -> tuple[Known, bytes]:
        self._send(kind, body)
        kind, body = self._receive()
        if kind == REFUSED:
            raise InvalidInputError(body.decode())
        return {ABSENT: Known.ABSENT, UNKNOWN: Known.UNKNOWN}.get(kind, Known.FOUND), body

    def _send(self, kind: bytes, body: bytes) -> None:
        self._outgoing.write(frame(kind + body))
        self._outgoing.flush()

    def _receive(self) -> tuple[bytes, bytes]:
        try:
            message = read_frame(self._incoming)
        except EOFError:
            raise _AgentGone from None
        return message[:1], message[1:]


def main() -> None:
    """The arguments are the memory it may take, in bytes, and the time of a processor for all its
    templates, in seconds."""
    memory, processor_s = map(int, sys.argv[1:3])
    resource.setrlimit(resource.RLIMIT_AS, (memory, memory))
    resource.setrlimit(resource.RLIMIT_CPU, (processor_s, processor_s))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    TemplateWorker(sys.stdin.buffer, os.fdopen(os.dup(1), "wb")).serve()


if __name__ == "__main__":
    main()

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

from agent.templates.functions import TemplateSources, task_functions
from agent.templates.variables import parse_variables
from orchgit.errors import InvalidInputError
from orchgit.go_templates.budget import StepBudget
from orchgit.go_templates.render import render
from orchgit.length_frames import frame, read_frame

# A frame begins with its kind, one byte. From the agent: RENDER, CONTENT or REFUSED; to the agent:
# READ and VARIABLES, until RENDERED or FAILED ends the template.
RENDER, CONTENT, REFUSED = b"r", b"c", b"x"
READ, VARIABLES, RENDERED, FAILED = b"f", b"v", b"R", b"F"
_CPU_S = 120


class _AgentGone(Exception):
    """The agent closed the pipe."""


class TemplateWorker:
    def __init__(self, incoming: BinaryIO, outgoing: BinaryIO) -> None:
        self._incoming = incoming
        self._outgoing = outgoing

    def serve(self) -> None:
        """Render until the pipe is closed."""
        try:
            while True:
                _, body = self._receive()
                self._answer(json.loads(body))
        except _AgentGone:
            return

    def _answer(self, request: dict[str, Any]) -> None:
        try:
            budget = StepBudget(request["max_steps"])
            sources = TemplateSources(request["env"], self._read, request["now_ns"])
            text = render(
                request["text"],
                functions=task_functions(sources, budget),
                budget=budget,
                delimiters=(request["left"], request["right"]),
                err_missing_key=request["err_missing_key"],
                max_bytes=request["max_bytes"],
            )
            if request["envvars"]:
                self._send(VARIABLES, json.dumps(parse_variables(text)).encode())
            body = text.encode(errors="replace")
        except InvalidInputError as error:
            self._send(FAILED, str(error).encode(errors="replace"))
        except MemoryError:
            self._send(FAILED, b"")
        else:
            self._send(RENDERED, body)

    def _read(self, path: str) -> str:
        self._send(READ, path.encode(errors="replace"))
        kind, body = self._receive()
        if kind == REFUSED:
            raise InvalidInputError(body.decode())
        return body.decode(errors="replace")

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
    """The argument is the memory it may take, in bytes."""
    memory = int(sys.argv[1])
    resource.setrlimit(resource.RLIMIT_AS, (memory, memory))
    resource.setrlimit(resource.RLIMIT_CPU, (_CPU_S, _CPU_S))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    TemplateWorker(sys.stdin.buffer, os.fdopen(os.dup(1), "wb")).serve()


if __name__ == "__main__":
    main()

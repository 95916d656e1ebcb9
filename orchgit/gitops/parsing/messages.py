"""What a server and the processes that parse for it say to each other: msgpack in length frames."""

from __future__ import annotations

from enum import IntEnum

import msgspec

from orchgit.length_frames import frame
from orchgit.model.job import Job

MAX_FRAME_BYTES = 1 << 30
_ENCODER = msgspec.msgpack.Encoder()


class Form(IntEnum):
    """What a file is parsed to: a checked job, or what the API's clients get to see of it."""

    JOB = 0
    SPEC = 1
    SPEC_WITH_DEFAULTS = 2


class ParseRequest(msgspec.Struct, array_like=True, tag="chunk"):
    """Files to parse, as (path, content); each is answered, in this order."""

    variables: dict[str, str]
    var_files: list[tuple[str, bytes]]
    files: list[tuple[str, bytes]]
    form: Form = Form.JOB


class LookupResult(msgspec.Struct, array_like=True, tag="told"):
    """What was found at the look that was asked for. `missing` and `failed` are the texts of
    FileNotFoundError and of any other OSError."""

    content: bytes = b""
    text: str = ""
    paths: list[str] = []
    there: bool = False
    missing: str = ""
    failed: str = ""


class Ready(msgspec.Struct, array_like=True, tag="ready"):
    """The process is up."""


class ParsedJob(msgspec.Struct, array_like=True, tag="found", gc=False):
    job: Job
    line: int
    steps: int = 0


class JobSpecJson(msgspec.Struct, array_like=True, tag="spec", gc=False):
    """A job as JSON."""

    body: bytes


class ParseFailure(msgspec.Struct, array_like=True, tag="wrong"):
    """The file's mistakes; without `problems`, only the message is known."""

    message: str
    problems: list[str]
    steps: int = 0


class FileLookup(msgspec.Struct, array_like=True, tag="ask"):
    """A look at the commit's tree that a file function takes: read, exists, glob or absolute."""

    what: str
    path: str
    pattern: str = ""


ServerMessage = ParseRequest | LookupResult
WorkerMessage = Ready | ParsedJob | JobSpecJson | ParseFailure | FileLookup


def framed(message: msgspec.Struct) -> bytes:
    return frame(_ENCODER.encode(message), MAX_FRAME_BYTES)

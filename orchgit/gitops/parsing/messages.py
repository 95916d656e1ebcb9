"""Messages between a server and the processes that parse job files for it: msgpack in length
frames."""

from __future__ import annotations

from enum import IntEnum

import msgspec

from orchgit.length_frames import frame
from orchgit.model.job import Job
from orchgit.model.repository_policy import RepositoryPolicy

MAX_FRAME_BYTES = 1 << 30
_ENCODER = msgspec.msgpack.Encoder()


class Form(IntEnum):
    """What a file is parsed to: a checked job, the JSON that the API's clients get, or the policy
    of an `orchgit.hcl`."""

    JOB = 0
    SPEC = 1
    SPEC_WITH_DEFAULTS = 2
    POLICY = 3


class ParseRequest(msgspec.Struct, array_like=True, tag="chunk"):
    """Files to parse, as (path, content). Each is answered, in this order."""

    variables: dict[str, str]
    var_files: list[tuple[str, bytes]]
    files: list[tuple[str, bytes]]
    form: Form = Form.JOB


class LookupResult(msgspec.Struct, array_like=True, tag="told"):
    """The answer to a `FileLookup`. `missing` and `failed` are the texts of a FileNotFoundError and
    of any other OSError."""

    content: bytes = b""
    text: str = ""
    paths: list[str] = []
    there: bool = False
    missing: str = ""
    failed: str = ""


class WorkerReady(msgspec.Struct, array_like=True, tag="ready"):
    """The process is ready for files."""


class ParseSuccess(msgspec.Struct, array_like=True, tag="found", gc=False):
    """The job of a file, and the lines of its `job` block and of the blocks of its groups."""

    job: Job
    line: int
    steps: int = 0
    group_lines: dict[str, int] = {}


class JobSpecJson(msgspec.Struct, array_like=True, tag="spec", gc=False):
    """The job of a file as JSON."""

    body: bytes


class PolicyFound(msgspec.Struct, array_like=True, tag="policy", gc=False):
    """The policy of an `orchgit.hcl`."""

    policy: RepositoryPolicy


class ParseFailure(msgspec.Struct, array_like=True, tag="wrong"):
    """Why a file has no job; `problems` may be empty. Not `is_job_file`: nothing in the file looks
    like a job."""

    message: str
    problems: list[str]
    steps: int = 0
    is_job_file: bool = True


class FileLookup(msgspec.Struct, array_like=True, tag="ask"):
    """Asks for a look into the commit's tree, for a file function. `what` is read, exists, glob or
    absolute."""

    what: str
    path: str
    pattern: str = ""


ServerMessage = ParseRequest | LookupResult
WorkerMessage = WorkerReady | ParseSuccess | JobSpecJson | PolicyFound | ParseFailure | FileLookup


def framed(message: msgspec.Struct) -> bytes:
    """Returns the message as one frame."""
    return frame(_ENCODER.encode(message), MAX_FRAME_BYTES)

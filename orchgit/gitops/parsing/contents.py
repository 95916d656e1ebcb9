"""What the content of a file says of it: JSON, a job in the API's shape, or meant as a job at all.

Pure, with few imports, since parsing processes load it.
"""

from __future__ import annotations

import json
import re

from jobspec.errors import Diagnostics, JobFileErrors
from jobspec.parse import read_body, source_text

JOB_FILE_SUFFIXES = (".nomad.hcl", ".nomad", ".nomad.json")
"""A file whose name ends so has to be a job file."""

_JOB_LINE = re.compile(rb"^[ \t\r]*job\b", re.MULTILINE)
_JOB_KEY = re.compile(rb'"(?:job|Job|TaskGroups)"[ \t\r\n]{0,100}:')


def is_meant_as_job(content: bytes, path: str) -> bool:
    """Returns whether a file that cannot be parsed as a job is meant as one.

    It is if it has a job block, or cannot be read and has a line that begins with `job`: in doubt
    a file is an error, since a job whose file is ignored would be deleted.
    """
    if is_json(content):
        try:
            tree = json.loads(content)
        except (ValueError, RecursionError):
            return _JOB_KEY.search(content) is not None
        return isinstance(tree, dict) and ("job" in tree or is_api_job(tree))
    try:
        text = source_text(content, path)
        diagnostics = Diagnostics(text)
        body = read_body(text, diagnostics)
    except (JobFileErrors, RecursionError):
        return _JOB_LINE.search(content) is not None
    if diagnostics.found:
        return _JOB_LINE.search(content) is not None
    return "job" in body.attributes or any(block.type == "job" for block in body.blocks)


def is_json(content: bytes) -> bool:
    """Returns whether the text is read as JSON: it starts with a brace."""
    return content.removeprefix(b"\xef\xbb\xbf").lstrip()[:1] == b"{"


def is_api_job(tree: object) -> bool:
    """Returns whether a JSON tree is a job in the shape of the API: `{"Job": {...}}`, or the job
    itself with its `ID`. HCL's JSON form has `job` in small letters."""
    return isinstance(tree, dict) and ("Job" in tree or ("ID" in tree and "job" not in tree))


def is_api_text(text: str) -> bool:
    """Returns whether the text of a file is JSON in the API's shape."""
    content = text.encode()
    return is_json(content) and is_api_job(json.loads(content))

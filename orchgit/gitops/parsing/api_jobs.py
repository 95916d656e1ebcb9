"""Jobs in the shape of the HTTP API, as `nomad job run -output` and `job inspect` print them."""

from __future__ import annotations

import json

from jobspec.blocks.api_shape import complete, shape_of
from jobspec.canonical.typed import typed_job
from jobspec.canonicalize import canonicalize
from jobspec.validate import validate_job
from jobspec.writing.same_job import without_additions
from orchgit.errors import InvalidInputError, JobFileError
from orchgit.gitops.parsing.contents import is_api_job, is_json
from orchgit.model.job import Job


def read_api_job(content: bytes, path: str) -> Job | None:
    """Returns the job of a JSON file in the API's shape; None for any other file, HCL's JSON form
    too. Variables have no effect in it. Raises JobFileError with every problem."""
    if not is_json(content):
        return None
    try:
        tree = json.loads(content)
    except (ValueError, RecursionError):
        return None  # the reader of HCL's JSON form says where the mistake is
    if not is_api_job(tree):
        return None
    spec = tree.get("Job", tree)
    try:
        if not isinstance(spec, dict) or not spec.get("ID"):
            raise InvalidInputError("cannot read this job: it has no ID")
        whole = complete(spec, shape_of("job"))
        job = typed_job(canonicalize(without_additions(whole)))
    except InvalidInputError as error:
        raise _refused(path, [str(error)]) from error
    found = validate_job(job)
    if found.problems:
        raise _refused(path, [message for _, message in found.leaves])
    return job


def _refused(path: str, messages: list[str]) -> JobFileError:
    problems = [f"{path}:1:1: {message}" for message in messages]
    return JobFileError(f"cannot use {path}:\n" + "\n".join(problems), problems)

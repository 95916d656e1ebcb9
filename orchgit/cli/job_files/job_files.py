"""Job files named on the command line, read here and sent as jobs."""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from orchgit.cli.client.http_client import ApiClient, ApiError


@dataclass(frozen=True)
class FileVariables:
    """`-var` values and `-var-file` paths, in the order given."""

    values: tuple[str, ...] = ()
    files: tuple[str, ...] = ()
    strict: bool = True

    def named(self) -> dict[str, str]:
        return dict(_split(each) for each in self.values)

    def contents(self) -> list[tuple[str, bytes]]:
        """Of the files: (base name, content)."""
        return [(os.path.basename(each), _read(each)) for each in self.files]


def read_job(path: str, variables: FileVariables, as_json: bool = False) -> dict[str, Any]:
    """The API-shaped job of a file (`-` is standard input).

    Raises orchgit.errors.JobFileError with every problem of the file.
    """
    if as_json:
        return _read_json_job(path)
    # Reading HCL is what few commands do; the others do not pay for its import.
    from jobspec.files import CurrentDirectory
    from jobspec.parse import parse_job

    parsed = parse_job(
        _read(path),
        filename="<stdin>" if path == "-" else os.path.basename(path),
        variables=variables.named(),
        var_files=variables.contents(),
        env=dict(os.environ),
        files=CurrentDirectory(),
        strict=variables.strict,
    )
    return parsed.spec


def submission_of(path: str, variables: FileVariables) -> dict[str, Any] | None:
    """The text a job was made from, stored beside its version."""
    if path == "-":
        return None
    return {
        "Source": _read(path).decode("utf-8", "replace"),
        "Format": "hcl2",
        "VariableFlags": variables.named() or None,
        "Variables": "".join(text.decode("utf-8", "replace") for _, text in variables.contents()),
    }


def with_namespace(client: ApiClient, job: dict[str, Any]) -> str:
    """The namespace a job's request goes to: the command's, then the job's own."""
    return client.namespace or job.get("Namespace") or "default"


def _read(path: str) -> bytes:
    try:
        if path == "-":
            return sys.stdin.buffer.read()
        return Path(path).read_bytes()
    except OSError as error:
        raise ApiError(f"cannot read {path}: {error.strerror}") from error


def _read_json_job(path: str) -> dict[str, Any]:
    import json

    try:
        data = json.loads(_read(path))
    except ValueError as error:
        raise ApiError(f"cannot read {path} as JSON: {error}") from error
    if not isinstance(data, dict):
        raise ApiError(f"cannot read {path} as a job: it is not a JSON object")
    return dict(data.get("Job") or data)


def _split(text: str) -> tuple[str, str]:
    name, separator, value = text.partition("=")
    if not separator:
        raise click.UsageError(f"cannot read -var {text!r}: write NAME=VALUE")
    return name, value

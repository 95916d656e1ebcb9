"""Reads job files named on the command line, to be sent as jobs."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from orchgit.cli.client.http_client import ApiClient, ApiError
from orchgit.cli.options import named_values, option_field


@dataclass(frozen=True)
class JobFileOptions:
    """How a job file is read: the options of every command that sends one."""

    var: tuple[str, ...] = option_field(
        "var", multiple=True, help="Variable, NAME=VALUE; may be repeated."
    )
    var_file: tuple[str, ...] = option_field(
        "var-file", multiple=True, help="File of variables; may be repeated."
    )
    strict: bool = option_field(
        "hcl2-strict",
        is_flag=True,
        switchable=True,
        default=True,
        help="Refuse undeclared variables.",
    )
    as_json: bool = option_field("json", is_flag=True, help="The file is the JSON of the API.")

    def variables(self) -> dict[str, str]:
        return named_values("var", self.var)

    def var_file_contents(self) -> list[tuple[str, bytes]]:
        return var_file_contents(self.var_file)


def var_file_contents(paths: Sequence[str]) -> list[tuple[str, bytes]]:
    """Returns (base name, content) of each file; raises ApiError for an unreadable one."""
    return [(os.path.basename(each), read_input(each)) for each in paths]


def read_job(path: str, options: JobFileOptions) -> dict[str, Any]:
    """Returns the API-shaped job of a file (`-` is standard input).

    Raises orchgit.errors.JobFileError with every problem of the file.
    """
    if options.as_json:
        return _read_json_job(path)
    # Reading HCL is what few commands do; the others do not pay for its import.
    from jobspec.files import CurrentDirectory
    from jobspec.parse import parse_job
    from jobspec.service_providers import choose_providers

    parsed = parse_job(
        read_input(path),
        filename="<stdin>" if path == "-" else os.path.basename(path),
        variables=options.variables(),
        var_files=options.var_file_contents(),
        env=dict(os.environ),
        files=CurrentDirectory(),
        strict=options.strict,
    )
    choose_providers(parsed.spec)
    return parsed.spec


def submission_of(path: str, options: JobFileOptions) -> dict[str, Any] | None:
    """Returns the text a job was made from, which is stored beside its version."""
    if path == "-":
        return None
    return {
        "Source": read_input(path).decode("utf-8", "replace"),
        "Format": "hcl2",
        "VariableFlags": options.variables() or None,
        "Variables": "".join(
            text.decode("utf-8", "replace") for _, text in options.var_file_contents()
        ),
    }


def with_namespace(client: ApiClient, job: dict[str, Any]) -> str:
    """Returns the namespace of a job's request: the command's, else the job's own."""
    return client.namespace or job.get("Namespace") or "default"


def read_input(path: str) -> bytes:
    """The content of a file, or of standard input for `-`; raises ApiError."""
    try:
        if path == "-":
            return sys.stdin.buffer.read()
        return Path(path).read_bytes()
    except OSError as error:
        raise ApiError(f"cannot read {path}: {error.strerror}") from error


def _read_json_job(path: str) -> dict[str, Any]:
    import json

    try:
        data = json.loads(read_input(path))
    except ValueError as error:
        raise ApiError(f"cannot read {path} as JSON: {error}") from error
    if not isinstance(data, dict):
        raise ApiError(f"cannot read {path} as a job: it is not a JSON object")
    return dict(data.get("Job") or data)

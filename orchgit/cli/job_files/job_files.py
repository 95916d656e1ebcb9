"""Reads job files named on the command line, to be sent as jobs."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from orchgit.cli.client.http_client import ApiClient, ApiError
from orchgit.cli.job_files.web_files import is_url, url_content, without_password
from orchgit.cli.options import named_values, option_field

_STANDARD_INPUT = frozenset(("-", "/dev/stdin", "/dev/fd/0", "/proc/self/fd/0"))


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


@dataclass(frozen=True, slots=True)
class JobFileInput:
    """A job file with its files of variables, each read once: what is piped is gone afterwards."""

    path: str
    content: bytes
    var_files: list[tuple[str, bytes]]
    options: JobFileOptions

    @classmethod
    def read(cls, path: str, options: JobFileOptions) -> JobFileInput:
        """Reads a file, standard input (`-`) or what an http(s) address answers, and the files of
        variables; raises ApiError for what cannot be read."""
        if sum(each in _STANDARD_INPUT for each in (path, *options.var_file)) > 1:
            raise ApiError("cannot read standard input twice: name a file for one of them")
        content = url_content(path) if is_url(path) else read_input(path)
        return cls(path, content, options.var_file_contents(), options)

    @property
    def shown(self) -> str:
        """The path or address as it may be told: without a password."""
        if self.path == "-":
            return "<stdin>"
        return without_password(self.path) if is_url(self.path) else self.path

    def job(self) -> dict[str, Any]:
        """Returns the job in the API's form.

        Raises orchgit.errors.JobFileError with every problem of the file.
        """
        if self.options.as_json:
            return self._json_job()
        # Reading HCL is what few commands do; the others do not pay for its import.
        from jobspec.files import CurrentDirectory
        from jobspec.parse import parse_job
        from jobspec.service_providers import choose_providers

        parsed = parse_job(
            self.content,
            filename=os.path.basename(self.shown),
            variables=self.options.variables(),
            var_files=self.var_files,
            env=dict(os.environ),
            files=CurrentDirectory(),
            strict=self.options.strict,
        )
        choose_providers(parsed.spec)
        return parsed.spec

    def submission(self) -> dict[str, Any]:
        """Returns the text that the job was made from, which is stored beside its version."""
        return {
            "Source": self.content.decode("utf-8", "replace"),
            "Format": "hcl2",
            "VariableFlags": self.options.variables() or None,
            "Variables": "".join(
                f"{text.decode('utf-8', 'replace').rstrip()}\n" for _, text in self.var_files
            ),
        }

    def _json_job(self) -> dict[str, Any]:
        import json

        try:
            data = json.loads(self.content)
        except (ValueError, RecursionError) as error:
            raise ApiError(f"cannot read {self.shown} as JSON: {error}") from error
        if not isinstance(data, dict):
            raise ApiError(f"cannot read {self.shown} as a job: it is not a JSON object")
        return dict(data.get("Job") or data)


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

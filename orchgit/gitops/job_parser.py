"""Job files of a commit, read by the `jobspec` package."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import PurePosixPath

from jobspec.canonicalize import canonicalize, to_job
from jobspec.errors import JobFileErrors
from jobspec.parse import parse_job
from orchgit.errors import JobFileError
from orchgit.gitops.discovery import ParsedFile, VarFile
from orchgit.gitops.tree_files import TreeFiles


class JobspecParser:
    """The parser that servers use."""

    version = "jobspec-1"

    def parse(
        self,
        path: str,
        content: bytes,
        variables: dict[str, str],
        var_files: Sequence[VarFile],
        files: TreeFiles,
    ) -> ParsedFile:
        """A source's variables serve all its files, so one that a file does not declare is no
        mistake. Nothing of the server's environment is seen by a file."""
        try:
            parsed = parse_job(
                content,
                filename=path,
                variables=variables,
                var_files=[(each.name, each.content) for each in var_files],
                files=files,
                strict=False,
            )
        except JobFileErrors as error:
            raise _named(error, path) from error
        job = to_job(canonicalize(parsed.spec))
        return ParsedFile(job, parsed.positions.locate(())[0])


def _named(error: JobFileErrors, path: str) -> JobFileError:
    """Problems name the file by its whole path in the tree."""
    name = PurePosixPath(path).name
    problems = tuple(
        str(replace(problem, file=path) if problem.file == name else problem)
        if problem.line
        else f"{path}:1:1: {problem}"
        for problem in error.details
    )
    return JobFileError(f"cannot read {path}:\n" + "\n".join(problems), problems)

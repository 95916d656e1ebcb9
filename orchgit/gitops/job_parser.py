"""Job files of a commit, read by the `jobspec` package."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import PurePosixPath

from jobspec.canonicalize import canonicalize, to_job
from jobspec.errors import JobFileErrors
from jobspec.parse import parse_job
from jobspec.positions import Positions
from jobspec.validate import validate_job
from orchgit.errors import JobFileError
from orchgit.gitops.discovery import ParsedFile, VarFile
from orchgit.gitops.tree_files import TreeFiles
from orchgit.model.job import Job


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
        _check_rules(job, parsed.positions, path)
        return ParsedFile(job, parsed.positions.locate(())[0])


def _check_rules(job: Job, positions: Positions, path: str) -> None:
    """The rules that need only the job are checked here, where every part's place is known."""
    found = validate_job(job)
    if found.problems:
        problems = [
            path + line.removeprefix(positions.filename) for line in found.located(positions)
        ]
        raise JobFileError(f"cannot use {path}:\n" + "\n".join(problems), problems)


def _named(error: JobFileErrors, path: str) -> JobFileError:
    """Problems name the file by its whole path in the tree."""
    name = PurePosixPath(path).name
    problems = []
    for problem in error.details:
        text = str(problem)
        if not problem.line:
            problems.append(f"{path}:1:1: {text}")
        elif problem.file == name:
            problems.append(path + text.removeprefix(name))
        else:
            problems.append(text)
    return JobFileError(f"cannot read {path}:\n" + "\n".join(problems), problems)

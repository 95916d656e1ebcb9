"""Parses job files by the `jobspec` package."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from functools import cache
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

import jobspec
import orchgit.model
from jobspec.canonicalize import parsed_job
from jobspec.errors import JobFileErrors
from jobspec.parse import parse_job
from jobspec.service_providers import choose_providers
from jobspec.validate import validate_job
from orchgit.errors import JobFileError, NoJobError, OrchgitError
from orchgit.gitops.parsing.api_jobs import read_api_job
from orchgit.gitops.parsing.contents import is_meant_as_job
from orchgit.gitops.parsing.policy_parser import parse_policy
from orchgit.gitops.parsing.port import Inputs, JobFile, ParsedFile, parse_each
from orchgit.model.repository_policy import RepositoryPolicy

if TYPE_CHECKING:
    from orchgit.gitops.parsing.pool import ParsePool


class JobspecParser:
    """The `JobParser` of servers. With a pool the pool's processes parse, each by a `JobspecParser`
    without one."""

    def __init__(self, pool: ParsePool | None = None) -> None:
        self._pool = pool

    @property
    def version(self) -> str:
        """A digest of the code that decides what a file means, so that an upgrade parses every file
        again."""
        return _code_version()

    def parse(self, file: JobFile, inputs: Inputs) -> ParsedFile:
        """Parses one file here. A variable that the file does not declare is ignored, since a
        source's variables serve all its files. The file sees nothing of the server's
        environment. Raises NoJobError for a file that holds no job at all."""
        path, content = file.path, file.read()
        api_job = read_api_job(content, path)
        if api_job is not None:
            return ParsedFile(api_job, 1)
        try:
            parsed = parse_job(
                content,
                filename=path,
                variables=inputs.variables,
                var_files=[(each.name, each.content) for each in inputs.var_files],
                files=file.files,
                strict=False,
            )
        except JobFileErrors as error:
            kind = JobFileError if is_meant_as_job(content, path) else NoJobError
            raise _named(error, path, kind) from error
        choose_providers(parsed.spec)
        job = parsed_job(parsed.spec)
        found = validate_job(job)  # here, where every part's line is known
        if found.problems:
            lines = found.located(parsed.positions)
            problems = [path + line.removeprefix(parsed.positions.filename) for line in lines]
            raise JobFileError(f"cannot use {path}:\n" + "\n".join(problems), problems)
        line, _ = parsed.positions.locate(())
        group_lines = {
            group.name: parsed.positions.locate(("TaskGroups", at))[0]
            for at, group in enumerate(job.task_groups)
        }
        return ParsedFile(job, line, parsed.steps, group_lines)

    def parse_many(
        self, files: Sequence[JobFile], inputs: Inputs
    ) -> Sequence[ParsedFile | OrchgitError]:
        if self._pool is None:
            return parse_each(self, files, inputs)
        return self._pool.parse(files, inputs)

    def parse_policy(self, file: JobFile) -> RepositoryPolicy:
        return parse_policy(file.read()) if self._pool is None else self._pool.policy(file)

    def warm_up(self) -> None:
        if self._pool is not None:
            self._pool.warm_up()

    def close(self) -> None:
        if self._pool is not None:
            self._pool.close()


@cache
def _code_version() -> str:
    """Returns a digest of the release and of the sources of `jobspec`, `model` and this package."""
    model = Path(orchgit.model.__file__).parent
    folders = (Path(jobspec.__file__).parent, model, Path(__file__).parent)
    digest = hashlib.sha256(orchgit.__version__.encode())
    for folder in folders:
        for path in sorted(folder.rglob("*.py")):
            digest.update(path.relative_to(folder).as_posix().encode())
            digest.update(path.read_bytes())
    return digest.hexdigest()[:32]


def _named(error: JobFileErrors, path: str, kind: type[JobFileError]) -> JobFileError:
    """Returns the error with the file's whole path in each problem."""
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
    return kind(f"cannot read {path}:\n" + "\n".join(problems), problems)

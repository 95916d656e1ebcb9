"""Finds mistakes in job files without a server: of the language, and of the server's rules."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from jobspec.canonicalize import parsed_job
from jobspec.errors import JobFileErrors, Problem, SourceText
from jobspec.files import CurrentDirectory
from jobspec.parse import ParsedJob, parse_job
from jobspec.rules.no_effect import dropped_keys
from jobspec.service_providers import choose_providers
from jobspec.validate import validate_job
from orchgit.cli.job_files.many_files import for_each
from orchgit.errors import InvalidInputError, JobFileError
from orchgit.gitops.parsing.api_jobs import read_api_job
from orchgit.gitops.parsing.contents import JOB_FILE_SUFFIXES, is_meant_as_job
from orchgit.model.repository_policy import POLICY_PATH

ERROR, WARNING = "error", "warning"
RULES = {
    "unreadable": "The file can be read",
    "syntax": "The file is a job file: its language, names, types and variables",
    "rule": "A server takes the job",
    "duplicate-job": "A job has one file",
    "advice": "What a server warns of",
    "driver": "The driver is one of orchgit's",
    "driver-config": "The driver takes the task's config",
    "unplaceable": "A node can take the work",
    "no-effect": "What is set has an effect",
}
_REFUSED_BY_NODES = frozenset(("driver-config",))


@dataclass(frozen=True)
class Finding:
    """One mistake. `rule` is a key of RULES; `end_column` and `snippet` are empty where unknown."""

    path: str
    rule: str
    level: str
    message: str
    line: int = 1
    column: int = 1
    end_column: int = 0
    snippet: str = ""

    @property
    def place(self) -> str:
        return f"{self.path}:{self.line}:{self.column}"

    def pretty(self) -> str:
        """Returns the mistake with the line and a caret, where there is a line."""
        prefix = "" if self.level == ERROR else f"{self.level}: "
        return Problem(
            self.path,
            self.line,
            self.column,
            prefix + self.message,
            self.snippet,
            end_column=self.end_column,
        ).pretty()


@dataclass(frozen=True)
class LintSettings:
    variables: Mapping[str, str]
    var_files: Sequence[tuple[str, bytes]]
    strict: bool = False
    named: frozenset[str] = frozenset()
    """Files that have to be job files. Others, found in directories, may hold no job."""


class BesideTheFile(CurrentDirectory):
    """What file() finds in a commit: beside the job file first, then from the root."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def read(self, path: str) -> bytes:
        return super().read(self._beside(path))

    def exists(self, path: str) -> bool:
        return super().exists(self._beside(path))

    def glob(self, base: str, pattern: str) -> list[str]:
        return super().glob(self._beside(base), pattern)

    def _beside(self, path: str) -> str:
        beside = self._folder / path
        return str(beside) if beside.exists() else path


def lint_files(paths: Sequence[str], settings: LintSettings) -> list[Finding]:
    """Returns every finding, in the order of the files and of the lines in each."""
    findings: list[Finding] = []
    first: dict[tuple[str, str], str] = {}
    results = for_each(partial(_lint_file, settings=settings), paths)
    for path, (found, job) in zip(paths, results, strict=True):
        findings += _by_place(found)
        if job is None:
            continue
        before = first.setdefault(job.key, f"{path}:{job.line}")
        if before != f"{path}:{job.line}":
            message = f"job {job.key[1]!r} is also defined in {before}; a job has one file"
            findings.append(Finding(path, "duplicate-job", ERROR, message, job.line, job.column))
    return findings


@dataclass(frozen=True)
class _JobPlace:
    key: tuple[str, str]
    line: int
    column: int


def lint_content(name: str, content: bytes, settings: LintSettings) -> list[Finding]:
    """Returns the findings of one job file that is read already, in the order of its lines."""
    found, _ = _lint(name, content, settings, is_named=True)
    return _by_place(found)


def _by_place(found: list[Finding]) -> list[Finding]:
    return sorted(found, key=lambda each: (each.line, each.column))


def _lint_file(path: str, settings: LintSettings) -> tuple[list[Finding], _JobPlace | None]:
    name = "<stdin>" if path == "-" else path
    try:
        content = sys.stdin.buffer.read() if path == "-" else Path(path).read_bytes()
    except OSError as error:
        return [
            Finding(name, "unreadable", ERROR, f"cannot read this file: {error.strerror}")
        ], None
    return _lint(name, content, settings, is_named=path in settings.named)


def _lint(
    name: str, content: bytes, settings: LintSettings, is_named: bool
) -> tuple[list[Finding], _JobPlace | None]:
    if not is_named and os.path.basename(name) == POLICY_PATH:
        return [], None
    try:
        api_job = read_api_job(content, name)
        if api_job is not None:
            return [], _JobPlace((api_job.namespace, api_job.id), 1, 1)
        parsed = parse_job(
            content,
            filename=name,
            variables=settings.variables,
            var_files=settings.var_files,
            env=dict(os.environ),
            files=BesideTheFile(Path(name).parent),
            strict=settings.strict,
        )
    except JobFileErrors as errors:
        has_to_be_job = is_named or name.endswith(JOB_FILE_SUFFIXES)
        if not has_to_be_job and not is_meant_as_job(content, name):
            return [], None
        return [_of_problem(name, problem) for problem in errors.details], None
    except JobFileError as error:  # JSON of the API's shape
        found = [each.removeprefix(f"{name}:1:1: ") for each in error.problems]
        return [Finding(name, "rule", ERROR, each) for each in found], None
    choose_providers(parsed.spec)
    key = (parsed.spec["Namespace"] or "default", parsed.spec["ID"])
    place = _JobPlace(key, *parsed.positions.locate(()))
    text = SourceText(name, content.decode())
    return [*_rules(name, parsed, text), *_effects(name, parsed, text)], place


def _of_problem(path: str, problem: Problem) -> Finding:
    message = f"{problem.message} {problem.hint}" if problem.hint else problem.message
    same = problem.file in (os.path.basename(path), path)
    return Finding(
        path if same else problem.file,
        "syntax",
        ERROR,
        message,
        problem.line,
        problem.column,
        problem.end_column,
        problem.snippet,
    )


def _rules(path: str, parsed: ParsedJob, source: SourceText) -> Iterator[Finding]:
    try:
        result = validate_job(parsed_job(parsed.spec))
    except InvalidInputError as error:
        yield _at(path, "rule", ERROR, str(error), parsed, (), source)
        return
    for place, message in result.leaves:
        yield _at(path, "rule", ERROR, message, parsed, place, source)
    for warning in result.warnings:
        yield _at(path, "advice", WARNING, warning, parsed, (), source)
    for each in (*result.without_effect, *dropped_keys(parsed.spec)):
        yield _at(path, "no-effect", WARNING, each.key.message, parsed, each.place, source)


def _effects(path: str, parsed: ParsedJob, source: SourceText) -> Iterator[Finding]:
    # The drivers' configs are the agent's: `validate` on a machine without one needs them too.
    from orchgit.cli.job_files.effects import effects

    for rule, place, message in effects(parsed.spec):
        level = ERROR if rule in _REFUSED_BY_NODES else WARNING
        yield _at(path, rule, level, message, parsed, place, source)


def _at(
    path: str,
    rule: str,
    level: str,
    message: str,
    parsed: ParsedJob,
    place: Sequence[str | int],
    source: SourceText,
) -> Finding:
    line, column = parsed.positions.locate(place)
    snippet = source.line(line)
    return Finding(path, rule, level, " ".join(message.split()), line, column, 0, snippet)

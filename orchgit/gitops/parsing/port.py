"""The interface of a parser of job files, with few imports, since parsing processes load it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from jobspec.files import FileAccess
from orchgit.errors import JobFileError, OrchgitError
from orchgit.model.job import Job
from orchgit.model.repository_policy import RepositoryPolicy


@dataclass(frozen=True, slots=True)
class VarFile:
    """A file of variables, by its path in the tree."""

    name: str
    content: bytes


@dataclass(frozen=True, slots=True)
class ParsedFile:
    """A job, and the lines of its `job` block and of the blocks of its groups; `steps` of
    evaluation were needed."""

    job: Job
    line: int
    steps: int = 0
    group_lines: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class JobFile:
    """A file to parse. `read` returns its content when its turn comes, and may raise an
    OrchgitError. `files` is all that its file functions may read."""

    path: str
    read: Callable[[], bytes]
    files: FileAccess


@dataclass(frozen=True, slots=True)
class Inputs:
    """The variables of a source, for all its files."""

    variables: Mapping[str, str] = field(default_factory=dict)
    var_files: Sequence[VarFile] = ()


class JobParser(Protocol):
    """Turns files into jobs. `version` changes with its behaviour, which invalidates caches."""

    @property
    def version(self) -> str: ...

    def parse(self, file: JobFile, inputs: Inputs) -> ParsedFile:
        """Parses one file. Raises JobFileError with every problem as `file:line:column:
        message`."""
        ...

    def parse_many(
        self, files: Sequence[JobFile], inputs: Inputs
    ) -> Sequence[ParsedFile | OrchgitError]:
        """Returns one answer for each file, in order; a file's error is its answer."""
        ...

    def parse_policy(self, file: JobFile) -> RepositoryPolicy:
        """Parses an `orchgit.hcl`. Raises JobFileError with every problem as `file:line:column:
        message`."""
        ...

    def warm_up(self) -> None:
        """Starts what the next file would have to wait for."""
        ...

    def close(self) -> None:
        """Ends what was started; the next use starts it again."""
        ...


def parse_each(
    parser: JobParser, files: Sequence[JobFile], inputs: Inputs
) -> list[ParsedFile | OrchgitError]:
    """Parses one file after the other in this process."""
    return [_parse(parser, file, inputs) for file in files]


def _parse(parser: JobParser, file: JobFile, inputs: Inputs) -> ParsedFile | OrchgitError:
    try:
        return parser.parse(file, inputs)
    except OrchgitError as error:
        return error
    except Exception as error:  # noqa: BLE001 - a file that breaks the parser is named, not the push
        text = f"internal error of the parser ({type(error).__name__}: {error})"
        return JobFileError(f"{file.path}:1:1: {text}", [f"{file.path}:1:1: {text}"])

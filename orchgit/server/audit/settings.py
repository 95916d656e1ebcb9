"""The settings of the audit log: Nomad's `audit` block, checked."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from orchgit.errors import InvalidInputError
from orchgit.regex import compile_pattern

DEFAULT_PATH = Path("audit/audit.log")
DEFAULT_MODE = 0o600
DAY_S = 86400.0


class Stage(StrEnum):
    RECEIVED = "OperationReceived"
    COMPLETE = "OperationComplete"


@dataclass(frozen=True, slots=True)
class AuditFilter:
    """Drops the records of matching requests. `*` in an endpoint stands for any text."""

    endpoints: tuple[str, ...]
    stages: tuple[str, ...]
    operations: tuple[str, ...]

    def drops(self, endpoint: str, stage: Stage, operation: str) -> bool:
        return (
            _has(self.stages, stage)
            and _has(self.operations, operation)
            and any(_glob(each, endpoint) for each in self.endpoints)
        )


@dataclass(frozen=True, slots=True)
class AuditSettings:
    """A relative `path` begins at the data directory. 0 of `rotate_bytes`, `rotate_duration_s` and
    `rotate_max_files` is no limit.

    `enforced`: a request whose record cannot be written is refused.
    """

    path: Path = DEFAULT_PATH
    enforced: bool = True
    rotate_bytes: int = 0
    rotate_duration_s: float = DAY_S
    rotate_max_files: int = 0
    mode: int = DEFAULT_MODE
    filters: tuple[AuditFilter, ...] = ()

    def records(self, endpoint: str, stage: Stage, operation: str) -> bool:
        """Returns whether the request's stage is written."""
        return not any(each.drops(endpoint, stage, operation) for each in self.filters)


def audit_filter(
    name: str, kind: str, endpoints: Sequence[str], stages: Sequence[str], operations: Sequence[str]
) -> AuditFilter:
    """Returns the filter. Raises InvalidInputError for what would never match."""
    block = f'audit.filter "{name}"'
    if kind != "HTTPEvent":
        raise InvalidInputError(f'cannot use {block}: its type is "HTTPEvent", not "{kind}"')
    for key, values in (("endpoints", endpoints), ("stages", stages), ("operations", operations)):
        if not values:
            raise InvalidInputError(
                f'cannot use {block}: {key} is empty, so it would drop nothing; "*" means all'
            )
    if unknown := set(stages) - {"*", *Stage}:
        raise InvalidInputError(
            f"cannot use {block}: there is no stage {', '.join(sorted(unknown))}; the stages are "
            f"{Stage.RECEIVED} and {Stage.COMPLETE}"
        )
    return AuditFilter(tuple(endpoints), tuple(stages), tuple(each.upper() for each in operations))


def parse_mode(text: str) -> int:
    """Returns the mode of the file; raises InvalidInputError unless it is octal, as "0600"."""
    if not re.fullmatch(r"0?[0-7]{3}", text):
        raise InvalidInputError(f'cannot use audit.sink.mode: "{text}" is not octal, as "0600"')
    return int(text, 8)


def check_sink(kind: str, form: str, guarantee: str, path: str) -> None:
    """Raises InvalidInputError for a sink that does not exist."""
    for key, value, known in (
        ("type", kind, ("file",)),
        ("format", form, ("json",)),
        ("delivery_guarantee", guarantee, ("enforced", "best-effort")),
    ):
        if value not in known:
            names = " or ".join(f'"{each}"' for each in known)
            raise InvalidInputError(f'cannot use audit.sink.{key}: it is {names}, not "{value}"')
    if path and not os.path.isabs(path):
        raise InvalidInputError(f'cannot use audit.sink.path: "{path}" does not begin with "/"')


def _has(patterns: Iterable[str], value: str) -> bool:
    return "*" in patterns or value in patterns


def _glob(pattern: str, text: str) -> bool:
    if "*" not in pattern:
        return pattern == text
    parts = ".*".join(re.escape(each) for each in pattern.split("*"))
    return compile_pattern(f"(?s){parts}").fullmatch(text)

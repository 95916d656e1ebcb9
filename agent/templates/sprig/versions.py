"""Sprig's `semver` and `semverCompare`."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from orchgit.errors import InvalidInputError
from orchgit.go_templates.functions import GoFunction, text_fn
from orchgit.go_templates.values import GoStruct, Int64, Uint64

_VERSION = re.compile(
    r"v?(\d+)(?:\.(\d+))?(?:\.(\d+))?(?:-([0-9A-Za-z.\-]+))?(?:\+([0-9A-Za-z.\-]+))?"
)
_ONE = re.compile(
    r"\s*(=|==|!=|>=|=>|<=|=<|>|<|~>|~|\^)?\s*(v?[0-9xX*]+(?:\.[0-9xX*]+){0,2}(?:-[0-9A-Za-z.\-]+)?"
    r"(?:\+[0-9A-Za-z.\-]+)?)\s*"
)


class SemanticVersion(GoStruct):
    go_type = "*semver.Version"

    def __init__(self, text: str) -> None:
        match = _VERSION.fullmatch(text)
        if match is None:
            raise InvalidInputError("Invalid Semantic Version")
        self.numbers = tuple(int(part or 0) for part in match.groups()[:3])
        self.before = match[4] or ""
        self.build = match[5] or ""
        self.original = text

    def go_method(self, name: str) -> Any:
        major, minor, patch = self.numbers
        return {
            "Major": lambda: Uint64(major),
            "Minor": lambda: Uint64(minor),
            "Patch": lambda: Uint64(patch),
            "Prerelease": lambda: self.before,
            "Metadata": lambda: self.build,
            "Original": lambda: self.original,
            "String": self.go_text,
            "Compare": lambda other: Int64((self.key > other.key) - (self.key < other.key)),
        }.get(name)

    def go_fields(self) -> Mapping[str, Any]:
        return {}

    def go_text(self) -> str:
        before = f"-{self.before}" if self.before else ""
        build = f"+{self.build}" if self.build else ""
        return f"{'.'.join(map(str, self.numbers))}{before}{build}"

    @property
    def key(self) -> tuple[Any, ...]:
        parts = [
            (0, int(part), "") if part.isdigit() else (1, 0, part)
            for part in self.before.split(".")
        ]
        return (*self.numbers, not self.before, parts if self.before else [])


def _fits(version: SemanticVersion, constraint: str) -> bool:
    match = _ONE.fullmatch(constraint)
    if match is None:
        raise InvalidInputError(f"improper constraint: {constraint}")
    mark, text = match[1] or "=", match[2]
    given = re.split(r"[.]", text.lstrip("v").partition("-")[0].partition("+")[0])
    fixed = [part for part in given if part not in ("x", "X", "*")]
    fixed = fixed[: next((i for i, p in enumerate(given) if p in ("x", "X", "*")), len(given))]
    wanted = SemanticVersion(
        ".".join([*fixed, "0", "0", "0"][:3]) + text[len(text.partition("-")[0]) :]
    )
    if version.before and not wanted.before:
        return False
    count = len(fixed)
    same = version.numbers[:count] == wanted.numbers[:count]
    if mark in ("=", "=="):
        return same if count < 3 else version.key == wanted.key
    if mark == "!=":
        return not same if count < 3 else version.key != wanted.key
    if mark in ("~", "~>"):
        return (
            version.key >= wanted.key
            and version.numbers[: min(count, 2)] == wanted.numbers[: min(count, 2)]
        )
    if mark == "^":
        lead = next((i for i, part in enumerate(wanted.numbers) if part), max(count - 1, 0))
        return (
            version.key >= wanted.key and version.numbers[: lead + 1] == wanted.numbers[: lead + 1]
        )
    if mark in (">=", "=>"):
        return version.key >= wanted.key
    if mark in ("<=", "=<"):
        return version.key <= wanted.key or (count < 3 and same)
    if mark == ">":
        return version.key > wanted.key and not (count < 3 and same)
    return version.key < wanted.key


def _compared(constraint: str, text: str) -> bool:
    version = SemanticVersion(text)
    for either in constraint.split("||"):
        either = re.sub(r"(\S+)\s+-\s+(\S+)", r">=\1, <=\2", either)
        parts = [part for part in re.split(r",|(?<=[0-9xX*])\s+", either.strip()) if part.strip()]
        if all(_fits(version, part) for part in parts or ["*"]):
            return True
    return False


VERSIONS: dict[str, GoFunction] = {
    "semver": text_fn(SemanticVersion),
    "semverCompare": text_fn(_compared, 2),
}

"""Sprig's `semver` and `semverCompare`."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from orchgit.errors import InvalidInputError
from orchgit.go_templates.functions import GoFunction, fn, text_fn
from orchgit.go_templates.values import GoStruct, Uint64

_VERSION = re.compile(
    r"v?(\d+)(?:\.(\d+))?(?:\.(\d+))?(?:-([0-9A-Za-z.\-]+))?(?:\+([0-9A-Za-z.\-]+))?"
)
_PADDED = re.compile(r"0\d+")
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
        if any(_PADDED.fullmatch(part) for part in (match[4] or "").split(".")):
            raise InvalidInputError("Version segment starts with 0")
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
            "IncMajor": lambda: _incremented(major + 1, 0, 0),
            "IncMinor": lambda: _incremented(major, minor + 1, 0),
            "IncPatch": lambda: _incremented(major, minor, patch + (not self.before)),
            "SetPrerelease": text_fn(lambda text: self._with(text, self.build)),
            "SetMetadata": text_fn(lambda text: self._with(self.before, text)),
            "Compare": fn(
                lambda other: (self.key > other.key) - (self.key < other.key), self.go_type
            ),
            "Equal": fn(lambda other: self.key == other.key, self.go_type),
            "LessThan": fn(lambda other: self.key < other.key, self.go_type),
            "LessThanEqual": fn(lambda other: self.key <= other.key, self.go_type),
            "GreaterThan": fn(lambda other: self.key > other.key, self.go_type),
            "GreaterThanEqual": fn(lambda other: self.key >= other.key, self.go_type),
        }.get(name)

    def _with(self, before: str, build: str) -> VersionValue:
        return VersionValue(_version_text(self.numbers, before, build))

    def go_json(self) -> str:
        return self.go_text()

    def go_fields(self) -> Mapping[str, Any]:
        return {}

    def go_text(self) -> str:
        return _version_text(self.numbers, self.before, self.build)

    @property
    def key(self) -> tuple[Any, ...]:
        parts = [
            (0, int(part), "") if part.isdigit() else (1, 0, part)
            for part in self.before.split(".")
        ]
        return (*self.numbers, not self.before, parts if self.before else [])


class VersionValue(SemanticVersion):
    """What methods return: no pointer."""

    go_type = "semver.Version"


def _version_text(numbers: tuple[int, ...], before: str, build: str) -> str:
    shown_before = f"-{before}" if before else ""
    return f"{'.'.join(map(str, numbers))}{shown_before}{f'+{build}' if build else ''}"


def _incremented(major: int, minor: int, patch: int) -> VersionValue:
    return VersionValue(f"{major}.{minor}.{patch}")


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
    ways: list[list[str]] = []
    for either in constraint.split("||"):
        either = re.sub(r"(\S+)\s+-\s+(\S+)", r">=\1, <=\2", either)
        parts = re.split(r",|(?<=[0-9xX*])\s+", either.strip())
        ways.append([part for part in parts if part.strip()])
    for way in ways:
        wrong = next((part for part in way if not _ONE.fullmatch(part)), None)
        if wrong is not None or not way:
            raise InvalidInputError(f"improper constraint: {wrong or ''}")
    version = SemanticVersion(text)
    return any(all(_fits(version, part) for part in way) for way in ways)


VERSIONS: dict[str, GoFunction] = {
    "semver": text_fn(SemanticVersion),
    "semverCompare": text_fn(_compared, 2),
}

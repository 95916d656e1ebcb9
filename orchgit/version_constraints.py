"""Version constraints: `>= 1.2, < 2.0`, `~> 1.4`, and strict semantic versions."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache

from orchgit.whole_number import whole_number

_NUMBERS = r"v?(\d+(?:\.\d+)*)"
_REST = r"[0-9A-Za-z~-]*(?:\.[0-9A-Za-z~-]+)*"
_METADATA = r"(?:\+[0-9A-Za-z~-]+(?:\.[0-9A-Za-z~-]+)*)?"
_VERSION = re.compile(rf"{_NUMBERS}(?:-(\d{_REST})|-?([A-Za-z~-]{_REST}))?{_METADATA}", re.ASCII)
_SEMVER = re.compile(
    rf"{_NUMBERS}(?:-([0-9A-Za-z-]+(?:\.[0-9A-Za-z-]+)*))?(?:\+[0-9A-Za-z.-]+)?", re.ASCII
)
_CLAUSE = re.compile(r"(=|!=|>=|<=|>|<|~>|)\s*(\S+)")
MAX_CHARACTERS = 256
"""The length limit of one version: matching may take time quadratic in the length."""


@dataclass(frozen=True, slots=True)
class Version:
    segments: tuple[int, ...]
    """The numbers of the version, at least three."""
    given_segments: int
    prerelease: tuple[tuple[int, int, str], ...]

    def key(self) -> tuple[tuple[int, ...], bool, tuple[tuple[int, int, str], ...]]:
        """Orders versions; a release is above all its prereleases."""
        longest = self.segments + (0,) * (8 - len(self.segments))
        return (longest, not self.prerelease, self.prerelease)


@lru_cache(maxsize=4096)
def parse_version(text: str, strict: bool = False) -> Version | None:
    """Returns the parsed version, or None if the text is none. `strict` requires a hyphen before a
    prerelease."""
    text = text.strip()
    if len(text) > MAX_CHARACTERS:
        return None
    found = (_SEMVER if strict else _VERSION).fullmatch(text)
    if found is None:
        return None
    parts = [whole_number(part) for part in found.group(1).split(".")]
    numbers = tuple(part for part in parts if part is not None)
    if len(numbers) < len(parts):
        return None
    prerelease = next((part for part in found.groups()[1:] if part), "")
    return Version(
        segments=numbers + (0,) * (3 - len(numbers)),
        given_segments=len(numbers),
        prerelease=tuple(_identifier(part) for part in prerelease.split(".") if part),
    )


def _identifier(part: str) -> tuple[int, int, str]:
    number = whole_number(part)
    return (1, 0, part) if number is None else (0, number, "")


def malformed_clause(constraint: str, *, strict: bool) -> str | None:
    """Returns the first clause that cannot be read, None if there is none. `strict`: the clauses
    compare semantic versions, which `~>` does not."""
    clauses = constraint.split(",")
    return next((clause for clause in clauses if _clause(clause, strict) is None), None)


def _clause(text: str, strict: bool) -> tuple[str, Version] | None:
    found = _CLAUSE.fullmatch(text.strip()) if len(text) <= MAX_CHARACTERS else None
    if found is None or (strict and found[1] == "~>"):
        return None
    version = parse_version(found[2], strict)
    return None if version is None else (found[1] or "=", version)


@lru_cache(maxsize=1024)
def _clauses(constraint: str, strict: bool) -> tuple[tuple[str, Version], ...] | None:
    found = [_clause(text, strict) for text in constraint.split(",")]
    clauses = tuple(clause for clause in found if clause is not None)
    return clauses if len(clauses) == len(found) else None


def satisfies(text: str, constraint: str, *, strict: bool) -> bool:
    """Returns whether version `text` meets every clause of `constraint`; False when either is
    malformed.

    Not strict: a prerelease satisfies only clauses that name a prerelease of the same release.
    """
    version = parse_version(text, strict)
    clauses = _clauses(constraint, strict)
    if version is None or clauses is None:
        return False
    return all(_meets(version, operator, bound, strict) for operator, bound in clauses)


def _meets(version: Version, operator: str, bound: Version, strict: bool) -> bool:
    if operator == "=":
        return version.key() == bound.key()
    if operator == "!=":
        return version.key() != bound.key()
    if not strict and version.prerelease:
        names_it = bound.prerelease and version.segments == bound.segments
        if not names_it:
            return False
    match operator:
        case ">":
            return version.key() > bound.key()
        case ">=":
            return version.key() >= bound.key()
        case "<":
            return version.key() < bound.key()
        case "<=":
            return version.key() <= bound.key()
    return _pessimistic(version, bound)


def _pessimistic(version: Version, bound: Version) -> bool:
    """Returns whether `version` satisfies `~> bound`: it is not lower, and only the last given part
    may grow. A prerelease bound accepts only prereleases."""
    if version.key() < bound.key() or (bound.prerelease and not version.prerelease):
        return False
    fixed = bound.given_segments - 1
    return version.segments[:fixed] == bound.segments[:fixed]

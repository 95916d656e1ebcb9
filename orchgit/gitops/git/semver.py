"""Semantic versions and ranges of them, by which a source follows tags. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache, total_ordering
from itertools import takewhile

from orchgit.errors import InvalidInputError

_MAX_TEXT = 200
_VERSION = re.compile(
    r"v?(\d{1,9})(?:\.(\d{1,9}))?(?:\.(\d{1,9}))?(?:-([0-9A-Za-z.-]+))?(?:\+[0-9A-Za-z.-]+)?"
)
_TERM = re.compile(
    r"(?P<operator>>=|<=|!=|>|<|=|~|\^)?\s*"
    r"(?P<version>v?(?:\d{1,9}|[xX*])(?:\.(?:\d{1,9}|[xX*])){0,2}(?:-[0-9A-Za-z.-]+)?)(?:\s*,\s*|\s+|$)"
)
_LOWEST = (0, 0, "")
"""Sorts before every pre-release part; a version without one sorts after all."""


@total_ordering
@dataclass(frozen=True, slots=True)
class TagVersion:
    """A version that a tag names; a missing minor or patch number is zero, and build metadata is
    ignored."""

    major: int
    minor: int = 0
    patch: int = 0
    prerelease: tuple[tuple[int, int, str], ...] = ()

    @property
    def _key(self) -> tuple[int, int, int, bool, tuple[tuple[int, int, str], ...]]:
        return (self.major, self.minor, self.patch, not self.prerelease, self.prerelease)

    def __lt__(self, other: TagVersion) -> bool:
        return self._key < other._key


def parse_version(text: str) -> TagVersion | None:
    """Returns the version that a text such as `1.2.3`, `v1.2` or `1.2.3-rc.1` names, else None."""
    match = _VERSION.fullmatch(text) if len(text) <= _MAX_TEXT else None
    if match is None:
        return None
    return TagVersion(int(match[1]), int(match[2] or 0), int(match[3] or 0), _prerelease(match[4]))


def _prerelease(text: str | None) -> tuple[tuple[int, int, str], ...]:
    """Returns the identifiers in an order in which numbers come before words."""
    if not text:
        return ()
    return tuple((1, int(each), "") if each.isdigit() else (2, 0, each) for each in text.split("."))


_Test = Callable[[TagVersion], bool]


@dataclass(frozen=True, slots=True)
class VersionRange:
    """A range of versions: any of `alternatives` holds, and of it every test."""

    text: str
    alternatives: tuple[tuple[_Test, ...], ...]

    def holds(self, version: TagVersion) -> bool:
        """Returns whether the version is in the range."""
        return any(all(test(version) for test in tests) for tests in self.alternatives)


@lru_cache(maxsize=256)
def parse_range(text: str) -> VersionRange:
    """Returns the range that a text such as `>=1.2 <2`, `~1.4`, `^2`, `1.x || 3.0.0` or `*` means.

    Spaces and commas mean "and". `<2` leaves out the pre-releases of 2 too. Raises
    InvalidInputError for any other text.
    """
    if len(text) > _MAX_TEXT:
        raise _refused(text, f"it is longer than {_MAX_TEXT} characters")
    return VersionRange(text, tuple(_alternative(part.strip(), text) for part in text.split("||")))


def _alternative(part: str, text: str) -> tuple[_Test, ...]:
    tests: list[_Test] = []
    at = 0
    while at < len(part):
        match = _TERM.match(part, at)
        if match is None:
            raise _refused(text, f"{part[at:]!r} is no comparison")
        tests += _tests(match["operator"] or "=", match["version"])
        at = match.end()
    if not tests:
        raise _refused(text, "it is empty")
    return tuple(tests)


def _tests(operator: str, text: str) -> tuple[_Test, ...]:
    """Returns the tests of one comparison. A version with parts left out, or written as `x`, stands
    for all versions that begin with it."""
    numbers, _, prerelease = text.removeprefix("v").partition("-")
    given = takewhile(lambda part: part not in "xX*", numbers.split("."))
    parts = [int(part) for part in given]
    major, minor, patch = (*parts, 0, 0, 0)[:3]
    low = TagVersion(major, minor, patch, _prerelease(prerelease))
    exact = len(parts) == 3
    after = None if exact else _after(parts)
    match operator:
        case ">=":
            return (lambda version: version >= low,)
        case ">":
            if exact:
                return (lambda version: version > low,)
            return (lambda version: after is not None and version >= after,)
        case "<":
            return (_below(low),)
        case "<=":
            return (lambda version: version <= low,) if exact else (_below(after),)
        case "!=":
            same = _tests("=", text)
            return (lambda version: not all(test(version) for test in same),)
        case "~":
            top = _after(parts[:2])
        case "^":
            kept = next((n + 1 for n, part in enumerate(parts) if part), len(parts))
            top = _after(parts[:kept])
        case _:
            if exact:
                return (lambda version: version == low,)
            top = after
    return (lambda version: version >= low, _below(top))


def _after(parts: list[int]) -> TagVersion | None:
    """Returns the first version after all that begin with the parts; None if there is none."""
    if not parts:
        return None
    major, minor, patch = (*parts[:-1], parts[-1] + 1, 0, 0)[:3]
    return TagVersion(major, minor, patch)


def _below(top: TagVersion | None) -> _Test:
    """Returns a test for versions below `top`, and below its pre-releases unless it is one."""
    if top is None:
        return lambda version: True
    if not top.prerelease:
        top = TagVersion(top.major, top.minor, top.patch, (_LOWEST,))
    return lambda version: version < top


def _refused(text: str, why: str) -> InvalidInputError:
    return InvalidInputError(
        f"cannot use version range {text!r}: {why}; write comparisons such as '>=1.2 <2', '~1.4', "
        "'^2' or '1.x'"
    )

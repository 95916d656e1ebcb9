"""Path globs inside a tree: `*` and `?` stay within a directory, `**` crosses them."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

from orchgit.errors import InvalidInputError
from orchgit.regex import Pattern, compile_pattern


@lru_cache(maxsize=256)
def compile_globs(patterns: tuple[str, ...]) -> Globs:
    """Returns the compiled patterns, cached by their text."""
    return Globs(patterns)


class Globs:
    """Matches a path if any of the patterns does; `**/x` also matches `x`. The constructor raises
    InvalidInputError for a pattern that is absolute or leads outside."""

    def __init__(self, patterns: Sequence[str]) -> None:
        self._everything = "**" in patterns
        self._patterns: list[Pattern] = [
            compile_pattern(_translate(_checked(pattern))) for pattern in patterns
        ]

    def fullmatch(self, path: str) -> bool:
        """Returns whether the whole path matches."""
        return self._everything or any(pattern.fullmatch(path) for pattern in self._patterns)


def matches(path: str, patterns: Sequence[str]) -> bool:
    """Returns whether any of the patterns matches the whole path."""
    return compile_globs(tuple(patterns)).fullmatch(path)


def _checked(pattern: str) -> str:
    parts = pattern.split("/")
    if not pattern or pattern.startswith("/") or ".." in parts or "\x00" in pattern:
        raise InvalidInputError(
            f"cannot use path glob {pattern!r}: it must be relative and stay inside the repository"
        )
    return pattern.removeprefix("./")


def _translate(pattern: str) -> str:
    out: list[str] = []
    at = 0
    while at < len(pattern):
        if pattern.startswith("**/", at):
            out.append("(?:[^/]+/)*")
            at += 3
        elif pattern.startswith("**", at):
            out.append(".*")
            at += 2
        else:
            char = pattern[at]
            literal = char if char.isalnum() or ord(char) > 0x7F else f"\\x{ord(char):02x}"
            out.append({"*": "[^/]*", "?": "[^/]"}.get(char, literal))
            at += 1
    return "".join(out)

"""Path globs inside a tree: `*` and `?` stay within a directory, `**` crosses them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache

from orchgit.errors import InvalidInputError


@lru_cache(maxsize=256)
def compile_globs(patterns: tuple[str, ...]) -> re.Pattern[str]:
    """One expression that matches a path when any pattern does; `**/x` also matches `x`."""
    return re.compile("|".join(f"(?:{_translate(_checked(p))})" for p in patterns) or r"(?!)")


def matches(path: str, patterns: Sequence[str]) -> bool:
    return compile_globs(tuple(patterns)).fullmatch(path) is not None


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
            out.append({"*": "[^/]*", "?": "[^/]"}.get(pattern[at], re.escape(pattern[at])))
            at += 1
    return "".join(out)

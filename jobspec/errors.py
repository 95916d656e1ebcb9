"""The problems of a job file: the message, the place, and what to do.

Offsets are indexes into the decoded text; line and column are computed only when a problem is
shown. A column counts what a reader sees as one character, as HCL does.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence

from jobspec.hcl.graphemes import grapheme_count
from orchgit.errors import JobFileError

_NEWLINE = re.compile(r"\n")


class SourceText:
    """A named text that turns offsets into lines and columns."""

    def __init__(self, name: str, text: str) -> None:
        self.name = name
        self.text = text
        self._line_starts: list[int] | None = None
        self._own_length = len(text)
        self._aliases: list[tuple[int, int]] = []

    def lay_out(self, texts: Mapping[int, str]) -> dict[int, int]:
        """Append texts, each for the offset that it replaces. Returns their own offsets."""
        found: dict[int, int] = {}
        at = len(self.text) + 1
        for stands_for, text in texts.items():
            found[stands_for] = at
            self._aliases.append((at, stands_for))
            at += len(text) + 1
        self.text = "\n".join([self.text, *texts.values()])
        return found

    def position(self, offset: int) -> tuple[int, int]:
        """Line and column, both from 1."""
        if offset > self._own_length and self._aliases:
            offset = self._aliases[bisect_right(self._aliases, (offset, offset)) - 1][1]
        starts = self._starts()
        line = bisect_right(starts, offset)
        return line, grapheme_count(self.text[starts[line - 1] : offset]) + 1

    def line(self, number: int) -> str:
        starts = self._starts()
        end = starts[number] if number < len(starts) else len(self.text)
        return self.text[starts[number - 1] : end].rstrip("\r\n")

    def _starts(self) -> list[int]:
        if self._line_starts is None:
            self._line_starts = [0, *[m.end() for m in _NEWLINE.finditer(self.text)]]
        return self._line_starts


_SNIPPET_WIDTH = 80
_LONGEST_NAME = 128


class Problem:
    """One mistake; one that belongs to no single place is shown at the file's start."""

    __slots__ = ("column", "end_column", "file", "hint", "line", "message", "snippet")

    def __init__(
        self,
        file: str,
        line: int,
        column: int,
        message: str,
        snippet: str = "",
        hint: str = "",
        end_column: int = 0,
    ) -> None:
        self.file = file
        self.line = line
        self.column = column
        self.message = message
        self.snippet = snippet
        self.hint = hint
        self.end_column = end_column

    def __str__(self) -> str:
        text = f"{self.message} {self.hint}" if self.hint else self.message
        return f"{self.file}:{self.line}:{self.column}: {text}"

    def pretty(self) -> str:
        """The problem with its line and a caret below the place."""
        if not self.snippet:
            return str(self)
        width = max(1, self.end_column - self.column)
        gutter = f"{self.line:>5} | "
        start = max(0, self.column - _SNIPPET_WIDTH)
        shown = self.snippet[start : start + 2 * _SNIPPET_WIDTH]
        lead = "".join("\t" if c == "\t" else " " for c in shown[: self.column - 1 - start])
        carets = "^" * min(width, max(1, len(shown) - len(lead)))
        return f"{self}\n{gutter}{shown}\n{' ' * (len(gutter) - 2)}| {lead}{carets}"


class JobFileErrors(JobFileError):
    """Every problem of one job file; `problems` are lines of text, `details` the objects. `steps`:
    what finding them took of the file's budget."""

    def __init__(self, filename: str, details: Sequence[Problem], steps: int = 0) -> None:
        self.details = tuple(details)
        self.steps = steps
        lines = tuple(str(problem) for problem in self.details)
        super().__init__(f"cannot read job file {filename}: " + "\n".join(lines), lines)
        self.filename = filename

    def pretty(self) -> str:
        return "\n".join(problem.pretty() for problem in self.details)


class HclError(Exception):
    """A mistake at a range of one source; `source` None means the file being read."""

    def __init__(
        self, message: str, start: int, end: int, hint: str = "", source: SourceText | None = None
    ) -> None:
        super().__init__(message)
        self.message = message
        self.start = start
        self.end = end
        self.hint = hint
        self.source = source


class Diagnostics:
    """Collects the mistakes of one file, in the order found and at most `limit` of them."""

    def __init__(self, source: SourceText, limit: int = 50) -> None:
        self.source = source
        self.limit = limit
        self.found: list[Problem] = []
        self._seen: set[tuple[str, int, int, str]] = set()

    @property
    def full(self) -> bool:
        """Whether more would be dropped: then looking for hints is wasted work."""
        return len(self.found) >= self.limit

    def add(self, error: HclError) -> None:
        if not self.full:
            self._append(problem_at(error, self.source))

    def report(self, message: str, start: int, end: int, hint: str = "") -> None:
        self.add(HclError(message, start, end, hint))

    def report_nowhere(self, message: str, hint: str = "") -> None:
        self._append(Problem(self.source.name, 1, 1, message, hint=hint))

    def raise_if_any(self, steps: int = 0) -> None:
        if self.found:
            raise JobFileErrors(self.source.name, self.found, steps)

    def _append(self, problem: Problem) -> None:
        key = (problem.file, problem.line, problem.column, problem.message)
        if key not in self._seen:
            self._seen.add(key)
            self.found.append(problem)


def problem_at(error: HclError, default: SourceText) -> Problem:
    source = error.source or default
    line, column = source.position(error.start)
    end_line, end_column = source.position(max(error.end, error.start))
    snippet = source.line(line)
    if end_line != line:
        end_column = grapheme_count(snippet) + 1
    return Problem(source.name, line, column, error.message, snippet, error.hint, end_column)


def nearest(name: str, known: Iterable[str]) -> str:
    """The known name within two edits of this one, or ''."""
    best, best_distance = "", 3
    if len(name) > _LONGEST_NAME:
        return best
    for candidate in known:
        if abs(len(candidate) - len(name)) < best_distance:
            distance = _edit_distance(name, candidate)
            if distance < best_distance:
                best, best_distance = candidate, distance
    return best


def did_you_mean(name: str, known: Iterable[str]) -> str:
    best = nearest(name, known)
    return f'Did you mean "{best}"?' if best else ""


def _edit_distance(left: str, right: str) -> int:
    row = list(range(len(right) + 1))
    for i, a in enumerate(left, 1):
        previous, row[0] = row[0], i
        for j, b in enumerate(right, 1):
            previous, row[j] = row[j], min(row[j] + 1, row[j - 1] + 1, previous + (a != b))
    return row[-1]

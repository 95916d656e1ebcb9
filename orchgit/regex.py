"""Regular expressions of users, in RE2's syntax and in time linear in the text.

The only module that imports google-re2; every pattern that comes from outside (constraints, job
files, templates, filters, globs) is compiled here, so that it means the same everywhere and no
pattern can hold a process. Three limits bound what one costs: its length, the memory of what it
compiles to, and the steps of one search (program size times characters, at most 4 ns each).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache, partial
from typing import Any

from orchgit.errors import InvalidInputError

MAX_PATTERN_CHARACTERS = 4096
MAX_MEMORY_BYTES = 2 << 20
MAX_STEPS = 20_000_000
"""Of one search, unless the caller gives less: 0.1 s at most."""

_REFERENCE = re.compile(r"\$(?:\{(\w+)\}|(\w+)|(\$))")
_TOKEN = re.compile(r"\\Q.*?(?:\\E|\Z)|\\.|[^\\]+", re.DOTALL)
_WORDS = (
    ("missing ]: ", "missing closing ]: "),
    ("missing ): ", "missing closing ): "),
    ("invalid perl operator: ", "invalid or unsupported Perl syntax: "),
    ("bad repetition operator: ", "invalid nested repetition operator: "),
    ("no argument for repetition operator: ", "missing argument to repetition operator: "),
    ("invalid repetition size: ", "invalid repeat count: "),
    ("trailing \\", "trailing backslash at end of expression: "),
    ("pattern too large - compile failed", "expression too large"),
)
"""What RE2's C++ library says, and what its Go one, whose texts Nomad's users know, says."""

Charge = Callable[[int, int], None]
"""Called with (steps, characters) before they are spent; raises when there is no more to spend."""


class PatternError(InvalidInputError):
    """The pattern is not RE2, or costs more than a limit; the message is what RE2's users know."""


class Pattern:
    """A compiled pattern; `compile_pattern` makes it. Text that is no UTF-8, as names of files may
    be, is taken with question marks in it."""

    __slots__ = ("_capturing", "_plain", "_size", "text")

    def __init__(self, text: str) -> None:
        self.text = text
        self._plain = _compiled(text, captures=False)
        self._size = max(1, self._plain.programsize)
        self._capturing: Any = None

    def search(self, text: str, max_steps: int = MAX_STEPS) -> bool:
        """Whether any part of the text matches; raises PatternError past `max_steps`."""
        return self._run(self._plain.search, text, max_steps)

    def fullmatch(self, text: str, max_steps: int = MAX_STEPS) -> bool:
        """Whether the whole text matches; raises PatternError past `max_steps`."""
        return self._run(self._plain.fullmatch, text, max_steps)

    def replace(self, text: str, template: str, charge: Charge) -> str:
        """The text with every match replaced; `$1` and `${name}` stand for groups in the template.

        A match may have looked at all that follows it, so each is charged for the rest of the text.
        """
        if self._capturing is None:
            self._capturing = _compiled(self.text, captures=True)
        names = self._capturing.groupindex
        text = text if text.isascii() else text.encode(errors="replace").decode()
        charge(self._size * len(text) // 1000, len(text))
        pieces: list[str] = []
        end = 0
        for match in self._capturing.finditer(text):
            if pieces and match.end() == end:
                continue  # nothing, right behind a match: no match for Go
            expand = partial(_group, match, names)
            piece = _REFERENCE.sub(expand, template)
            charge(1 + self._size * (len(text) - match.start()) // 20_000, len(piece))
            pieces += (text[end : match.start()], piece)
            end = match.end()
        return "".join((*pieces, text[end:]))

    def find_all(self, text: str, count: int, charge: Charge) -> list[str]:
        """The parts that match, at most `count` of them unless it is negative."""
        return [text[start:end] for start, end in self._spans(text, count, charge)]

    def split(self, text: str, count: int, charge: Charge) -> list[str]:
        """The parts between matches, at most `count` of them unless it is negative."""
        if count == 0:
            return []
        parts: list[str] = []
        end = 0
        for start, stop in self._spans(text, -1, charge):
            if 0 < count == len(parts) + 1:
                break
            if stop > 0 or start > 0:
                if start == stop == len(text) and text:
                    break
                parts.append(text[end:start])
                end = stop
        return [*parts, text[end:]]

    def _spans(self, text: str, count: int, charge: Charge) -> Iterator[tuple[int, int]]:
        if self._capturing is None:
            self._capturing = _compiled(self.text, captures=True)
        text = text if text.isascii() else text.encode(errors="replace").decode()
        charge(self._size * len(text) // 1000, len(text))
        end = -1
        for number, match in enumerate(self._capturing.finditer(text)):
            if number == count:
                return
            if match.start() == match.end() == end:
                continue  # nothing, right behind a match: no match for Go
            charge(1 + self._size * (len(text) - match.start()) // 20_000, 0)
            end = match.end()
            yield match.start(), end

    def _run(self, run: Callable[[bytes], Any], text: str, max_steps: int) -> bool:
        if self._size * len(text) > max_steps:
            raise PatternError(
                f"error matching regexp: {len(text)} characters are too many for this expression; "
                "make the expression or the text shorter"
            )
        return run(text.encode(errors="replace")) is not None


@lru_cache(maxsize=256)
def compile_pattern(text: str) -> Pattern:
    """The compiled pattern; raises PatternError."""
    return Pattern(text)


def _compiled(text: str, captures: bool) -> Any:
    import re2  # a library of 3 MB, which processes that see no pattern do without

    if len(text) > MAX_PATTERN_CHARACTERS:
        raise PatternError(
            "error parsing regexp: expression too large: "
            f"more than {MAX_PATTERN_CHARACTERS} characters"
        )
    if "\\C" in text and any(token[0] == "\\C" for token in _TOKEN.finditer(text)):
        # One byte of a letter: RE2's C++ library takes it, and Go's, which Nomad's users know, not.
        raise PatternError("error parsing regexp: invalid escape sequence: `\\C`")
    options = re2.Options()
    options.log_errors = False
    options.max_mem = MAX_MEMORY_BYTES
    options.never_capture = not captures
    try:
        return re2.compile(text, options)
    except UnicodeEncodeError:
        raise PatternError("error parsing regexp: invalid UTF-8") from None
    except re2.error as error:
        raw = error.args[0] if error.args else b""
        message = raw.decode(errors="replace") if isinstance(raw, bytes) else str(raw)
        raise PatternError(_go_message(message)) from None


def _go_message(message: str) -> str:
    for ours, theirs in _WORDS:
        if message.startswith(ours):
            message = theirs + message[len(ours) :]
            break
    what, colon, part = message.partition(": ")
    return f"error parsing regexp: {what}: `{part}`" if colon else f"error parsing regexp: {what}"


def _group(match: Any, names: Mapping[str, int], reference: re.Match[str]) -> str:
    if reference[3]:
        return "$"
    name = reference[1] or reference[2]
    if name.isdecimal():
        index = int(name) if len(name) < 4 else 1000
        return (match[index] or "") if index <= match.re.groups else ""
    return (match[name] or "") if name in names else ""

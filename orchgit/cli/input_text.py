"""Texts that commands take from a file, from standard input or from the command line."""

from __future__ import annotations

import sys
from pathlib import Path

from orchgit.errors import InvalidInputError

MAX_BYTES = 1 << 20


def text_of_path(path: str) -> str:
    """Returns the text of a file, or of standard input for `-`. Raises InvalidInputError."""
    shown = "standard input" if path == "-" else path
    try:
        if path == "-":
            data = sys.stdin.buffer.read(MAX_BYTES + 1)
        else:
            with Path(path).open("rb") as file:
                data = file.read(MAX_BYTES + 1)
    except OSError as error:
        raise InvalidInputError(f"cannot read {shown}: {error.strerror or error}") from error
    if len(data) > MAX_BYTES:
        raise InvalidInputError(f"cannot read {shown}: it is larger than {MAX_BYTES} bytes")
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise InvalidInputError(f"cannot read {shown}: it is not UTF-8") from error


def text_or_file(value: str) -> str:
    """Returns `value`, or what `@PATH` or `-` names."""
    if value == "-":
        return text_of_path("-")
    return text_of_path(value[1:]) if value.startswith("@") else value

"""Writes the example of a kind of file."""

from __future__ import annotations

from pathlib import Path

from orchgit.cli.client.http_client import ApiError


def write_example(target: Path, text: str) -> None:
    """Writes a new file; raises ApiError where there is one of this name."""
    if target.exists():
        raise ApiError(f"cannot write {target}: it exists already; name another file")
    target.write_text(text)

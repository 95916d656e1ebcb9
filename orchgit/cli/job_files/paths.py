"""Finds job files on disk: the files and directories named on a command line."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from pathlib import Path

from orchgit.errors import JobFileError

SUFFIXES = (".nomad.hcl", ".nomad", ".hcl")


def found_files(
    paths: Iterable[str], recursive: bool, suffixes: tuple[str, ...] = SUFFIXES
) -> list[str]:
    """Returns the files named and those in the directories named, each once; `-` stays `-`.

    A named file that does not exist fails when it is read.
    """
    found: dict[str, None] = {}
    for path in paths:
        if path != "-" and os.path.isdir(path):
            found.update((each, None) for each in sorted(_below(Path(path), recursive, suffixes)))
        else:
            found[path] = None
    return list(found)


def _below(root: Path, recursive: bool, suffixes: tuple[str, ...]) -> Iterator[str]:
    """Yields the files below a directory, without hidden ones such as `.git`."""
    for folder, folders, names in os.walk(root):
        folders[:] = sorted(each for each in folders if recursive and not each.startswith("."))
        for name in names:
            path = os.path.join(folder, name)
            if name.endswith(suffixes) and not name.startswith(".") and os.path.isfile(path):
                yield os.path.normpath(path)


def said_with_path(error: JobFileError, path: str) -> list[str]:
    """Returns problems under the path that was named, where the reader knows only the base name."""
    base = os.path.basename(path)
    lines = list(error.problems) or [str(error)]
    return [
        path + line.removeprefix(base) if line.startswith(f"{base}:") else line for line in lines
    ]

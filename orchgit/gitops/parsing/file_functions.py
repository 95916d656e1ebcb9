"""What the file functions of a job file (`file()`, `fileset()`...) see: its commit's tree.

Each look is recorded with what it found, so that a cached outcome is used only while every look
would find the same. Paths are relative to the job file's directory, else to the root of the tree.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable

from orchgit.errors import InvalidInputError, OrchgitError
from orchgit.gitops.git.globs import compile_globs
from orchgit.gitops.git.repository import EntryKind, TreeEntry
from orchgit.gitops.parsing.trees import FileTree, confined_path

_GLOB = "\x00glob\x00"
_EVERYTHING = ("**",)
_LFS_POINTER = b"version https://git-lfs.github.com/spec/"


def read_file(tree: FileTree, entry: TreeEntry) -> bytes:
    """Returns a file's content. Raises InvalidInputError for a link, a submodule, a pointer of Git
    LFS, and a file whose path is not UTF-8."""
    if entry.kind is EntryKind.NO_TEXT_PATH:
        raise InvalidInputError("cannot read a file whose path is not UTF-8: rename it")
    if entry.kind is EntryKind.LINK:
        raise InvalidInputError("cannot read a symbolic link: links are not followed")
    if entry.kind is EntryKind.SUBMODULE:
        raise InvalidInputError("cannot read a submodule: submodules are not followed")
    content = tree.read(entry)
    if content.startswith(_LFS_POINTER):
        raise InvalidInputError(
            "cannot read a file of Git LFS: git holds a pointer to it only; store the file itself "
            f"(`git lfs untrack {entry.path}`, then `git add --renormalize {entry.path}`)"
        )
    return content


def seen_at(tree: FileTree, place: str) -> str:
    """Returns what a look at a place finds now: a blob's id, '' for nothing, or a listing's
    digest."""
    if place.startswith(_GLOB):
        base, pattern = place.removeprefix(_GLOB).split("\x00", 1)
        return _digest(_listing(tree, base, pattern))
    entry = tree.entry(place)
    return entry.blob_id if entry is not None else ""


def _listing(tree: FileTree, base: str, pattern: str) -> list[str]:
    wanted = compile_globs((pattern,))
    prefix = f"{base}/" if base else ""
    below = (
        entry.path.removeprefix(prefix)
        for entry in tree.matching(_EVERYTHING)
        if entry.path.startswith(prefix) and entry.kind is EntryKind.FILE
    )
    return [path for path in below if wanted.fullmatch(path)]


def _digest(paths: Iterable[str]) -> str:
    return hashlib.sha256("\n".join(paths).encode()).hexdigest()


class TreeFiles:
    """The files that one job file sees. Raises OSErrors, as the file functions expect."""

    def __init__(self, tree: FileTree, base: str) -> None:
        self._tree = tree
        self._base = base
        self._depends: dict[str, str] = {}

    @property
    def depends(self) -> tuple[tuple[str, str], ...]:
        """The looks so far, as pairs of a place and what `seen_at` returned for it."""
        return tuple(self._depends.items())

    def read(self, path: str) -> bytes:
        entry = self._find(path)
        if entry is None:
            raise FileNotFoundError(f"the commit has no file {path!r}")
        try:
            return read_file(self._tree, entry)
        except OrchgitError as error:
            raise OSError(str(error)) from error

    def exists(self, path: str) -> bool:
        entry = self._find(path)
        return entry is not None and entry.kind is EntryKind.FILE

    def glob(self, base: str, pattern: str) -> list[str]:
        confined = self._confined(base)[0]
        try:
            found = _listing(self._tree, confined, pattern)
        except OrchgitError as error:
            raise OSError(str(error)) from error
        self._depends[f"{_GLOB}{confined}\x00{pattern}"] = _digest(found)
        return found

    def absolute(self, path: str) -> str:
        """Returns the path from the root of the tree; no path of the server is shown."""
        return f"/{self._confined(path)[0]}"

    def _find(self, path: str) -> TreeEntry | None:
        for candidate in self._confined(path):
            self._depends[candidate] = seen_at(self._tree, candidate)
            entry = self._tree.entry(candidate)
            if entry is not None:
                return entry
        return None

    def _confined(self, path: str) -> list[str]:
        beside = confined_path(self._base, path)
        if beside is None:
            raise OSError(f"{path!r} leads out of the repository")
        from_root = confined_path("", path)
        return [beside] if from_root in (None, beside) else [beside, str(from_root)]

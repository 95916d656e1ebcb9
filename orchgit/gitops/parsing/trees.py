"""Trees of files to find jobs in: a commit's, or that of files which are not committed yet."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Protocol

from orchgit.errors import NotFoundError, TooLargeError
from orchgit.gitops.git.limits import GitLimits
from orchgit.gitops.git.repository import EntryKind, Repository, TreeEntry, matching_entries


class FileTree(Protocol):
    """Files by path, relative to the tree's root. Reading never leaves the tree. `commit_id` is
    that of the commit, or stands for it where there is none yet."""

    @property
    def commit_id(self) -> str: ...

    def matching(self, globs: Sequence[str], exclude: Sequence[str] = ()) -> list[TreeEntry]:
        """Returns the entries that match any of the globs and none of `exclude`, sorted by
        path."""
        ...

    def entry(self, path: str) -> TreeEntry | None:
        """Returns the entry at a path, or None."""
        ...

    def read(self, entry: TreeEntry) -> bytes:
        """Returns an entry's content."""
        ...


class CommitTree:
    """The tree of one commit in a mirror."""

    def __init__(self, repository: Repository, commit_id: str) -> None:
        self._repository = repository
        self.commit_id = commit_id

    @cached_property
    def _entries(self) -> dict[str, TreeEntry]:
        return self._repository.tree(self.commit_id)

    def matching(self, globs: Sequence[str], exclude: Sequence[str] = ()) -> list[TreeEntry]:
        return self._repository.files(self.commit_id, globs, exclude)

    def entry(self, path: str) -> TreeEntry | None:
        return self._entries.get(path)

    def read(self, entry: TreeEntry) -> bytes:
        return self._repository.read_blob(entry.blob_id, entry.path)


class MemoryTree:
    """The tree of files given by path and content, with the blob ids that git would give them."""

    commit_id = "not committed"

    def __init__(self, files: Mapping[str, bytes], limits: GitLimits) -> None:
        self._limits = limits
        self._contents = dict(files)
        self._entries = {
            path: TreeEntry(path, blob_id_of(content), EntryKind.FILE)
            for path, content in sorted(files.items())
        }

    def matching(self, globs: Sequence[str], exclude: Sequence[str] = ()) -> list[TreeEntry]:
        found = matching_entries(self._entries.values(), globs, exclude)
        if len(found) > self._limits.max_job_files:
            raise TooLargeError(
                f"cannot read {len(found)} job files at once: the limit max_job_files is "
                f"{self._limits.max_job_files}"
            )
        return found

    def entry(self, path: str) -> TreeEntry | None:
        return self._entries.get(path)

    def read(self, entry: TreeEntry) -> bytes:
        content = self._contents.get(entry.path)
        if content is None:
            raise NotFoundError(f"cannot find {entry.path}")
        if len(content) > self._limits.max_file_bytes:
            raise TooLargeError(
                f"cannot read {entry.path}: it has {len(content)} bytes, and the limit "
                f"max_file_bytes is {self._limits.max_file_bytes}"
            )
        return content


def blob_id_of(content: bytes) -> str:
    """Returns the id that git gives a blob of this content."""
    header = b"blob %d\x00" % len(content)
    return hashlib.sha1(header + content, usedforsecurity=False).hexdigest()


def confined_path(base: str, path: str) -> str | None:
    """Returns `path`, as written in the file `base`, from the tree's root; None if it leads
    outside."""
    if path.startswith("/") or "\x00" in path or "\\" in path:
        return None
    parts = base.split("/")[:-1]
    for part in path.split("/"):
        if part == "..":
            if not parts:
                return None
            parts.pop()
        elif part not in ("", "."):
            parts.append(part)
    return "/".join(parts)

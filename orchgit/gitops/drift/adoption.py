"""Which edits of job files make jobs that were changed by hand what their files say. Pure.

Only plain values are edited. Whether an edited file means exactly the job as it is registered is
checked by reading it (`unexplained`); what cannot be written as an edit is left as it is.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence

from jobspec.writing.edit_values import REMOVED, ValueEdit, edit_values
from jobspec.writing.write_job import duration_text
from orchgit.errors import JobFileError
from orchgit.gitops.drift.comparison import comparable
from orchgit.gitops.drift.differences import (
    Difference,
    compile_ignored,
    differences,
    without_ignored,
)
from orchgit.gitops.git.repository import EntryKind, TreeEntry
from orchgit.gitops.parsing.desired import DesiredJob
from orchgit.gitops.parsing.trees import FileTree, blob_id_of
from orchgit.model.job import Job

MAX_EDITS = 50
"""How many values of one file are edited; a job that differs more was written anew."""


class CannotAdopt(Exception):
    """Says why a change by hand cannot be written as an edit of the job's file."""


def differences_to_adopt(
    wanted: DesiredJob, registered: Job, ignored: Sequence[str]
) -> list[Difference]:
    """Returns what has to change in the file: how the registered job differs from it, without
    ignored paths and the counts of scaling policies."""
    file_job = comparable(wanted, registered)
    return without_ignored(differences(file_job, registered), compile_ignored(ignored))


def edited_file(content: bytes, path: str, found: Sequence[Difference]) -> bytes:
    """Returns the job file with the differences written into it. Raises CannotAdopt."""
    if len(found) > MAX_EDITS:
        raise CannotAdopt(f"{len(found)} values differ: at most {MAX_EDITS} are edited")
    try:
        edited = edit_values(content, path, [_edit(each) for each in found])
    except JobFileError as error:
        raise CannotAdopt(str(error)) from error
    if edited.problems:
        raise CannotAdopt("; ".join(edited.problems[:3]))
    return edited.content


def _edit(found: Difference) -> ValueEdit:
    if found.may_be_secret:
        raise CannotAdopt(f"{found.dotted}: it may be a secret, and is not written to git")
    if found.kind in ("block", "-"):
        raise CannotAdopt(f"{found.dotted}: it is a whole block, not one plain value")
    if found.new is None:
        return ValueEdit(found.path, REMOVED)
    is_duration = found.kind == "duration" and isinstance(found.new, int)
    return ValueEdit(found.path, duration_text(found.new) if is_duration else found.new)


def unexplained(edited: DesiredJob | None, registered: Job, ignored: Sequence[str]) -> str:
    """Returns how the edited file still differs from the registered job, or ''."""
    if edited is None:
        return "the edited file has no such job"
    rest = differences_to_adopt(edited, registered, ignored)
    return f"{rest[0].dotted}: an edit of the file does not set it" if rest else ""


class EditedTree:
    """A tree of files with some of them edited."""

    def __init__(self, tree: FileTree, edited: Mapping[str, bytes]) -> None:
        self._tree = tree
        self._edited = edited
        self.commit_id = tree.commit_id

    def matching(self, globs: Sequence[str], exclude: Sequence[str] = ()) -> list[TreeEntry]:
        return [self._with_edit(entry) for entry in self._tree.matching(globs, exclude)]

    def entry(self, path: str) -> TreeEntry | None:
        found = self._tree.entry(path)
        return None if found is None else self._with_edit(found)

    def _with_edit(self, entry: TreeEntry) -> TreeEntry:
        content = self._edited.get(entry.path)
        if content is None:
            return entry
        return TreeEntry(entry.path, blob_id_of(content), EntryKind.FILE)

    def read(self, entry: TreeEntry) -> bytes:
        content = self._edited.get(entry.path)
        return self._tree.read(entry) if content is None else content


def patch_of(before: Mapping[str, bytes], after: Mapping[str, bytes]) -> str:
    """Returns the edits as a patch for `git apply`."""
    lines: list[str] = []
    for path in sorted(after):
        old = before[path].decode().splitlines(keepends=True)
        new = after[path].decode().splitlines(keepends=True)
        for line in difflib.unified_diff(old, new, f"a/{path}", f"b/{path}"):
            ending = "" if line.endswith("\n") else "\n\\ No newline at end of file\n"
            lines.append(line + ending)
    return "".join(lines)

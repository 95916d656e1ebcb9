"""Which files of a tree are parsed as job files, by the source's globs and by name.

A file whose name ends with `.nomad.hcl`, `.nomad` or `.nomad.json`, or that a path without
wildcards names, is a job file. Any other file that a glob matches is one if it holds a job: files
of variables, Terraform, Packer and agents lie beside job files in many repositories. Pure.
"""

from __future__ import annotations

from dataclasses import dataclass

from orchgit.gitops.git.repository import EntryKind, TreeEntry
from orchgit.gitops.parsing.contents import JOB_FILE_SUFFIXES
from orchgit.gitops.parsing.trees import FileTree
from orchgit.model.repository_policy import POLICY_PATH
from orchgit.model.source import Source

_WILDCARDS = frozenset("*?")


@dataclass(frozen=True, slots=True)
class JobFiles:
    """The entries to parse, sorted by path. `named` are those that a path without wildcards
    names."""

    entries: list[TreeEntry]
    named: frozenset[str]

    def must_be_job(self, path: str) -> bool:
        """Returns false for a file that is ignored if it holds no job."""
        return path in self.named or path.endswith(JOB_FILE_SUFFIXES)


def find_job_files(tree: FileTree, source: Source) -> JobFiles:
    """Returns the files that match the source's paths and none of its exclusions, without
    submodules, the source's var-files and the repository's policy."""
    skipped = {*source.var_files, POLICY_PATH}
    named = {path.removeprefix("./") for path in source.paths if not _WILDCARDS & set(path)}
    entries = [
        entry
        for entry in tree.matching(source.paths, source.exclude)
        if entry.path not in skipped and entry.kind is not EntryKind.SUBMODULE
    ]
    return JobFiles(entries, frozenset(named))

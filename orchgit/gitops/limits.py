"""What a repository may cost. Every limit is named in the error that passing it causes."""

from __future__ import annotations

from dataclasses import dataclass

MIB = 1024 * 1024


@dataclass(frozen=True, slots=True)
class GitLimits:
    """`max_push_bytes` bounds a push to the built-in remote, `max_fetch_bytes` a fetched pack,
    `max_parsed_bytes` what is kept on disk of files that were parsed."""

    max_file_bytes: int = MIB
    max_job_files: int = 20_000
    max_tree_entries: int = 500_000
    max_tree_depth: int = 64
    max_push_bytes: int = 64 * MIB
    max_fetch_bytes: int = 1024 * MIB
    max_git_memory_bytes: int = 4096 * MIB
    max_parsed_bytes: int = 128 * MIB
    max_refs: int = 20_000
    fetch_timeout_s: float = 120.0
    list_timeout_s: float = 20.0
    pack_timeout_s: float = 120.0
    webhook_max_bytes: int = MIB

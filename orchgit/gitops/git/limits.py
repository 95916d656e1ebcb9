"""What a repository may cost. Every limit is named in the error that passing it causes."""

from __future__ import annotations

from dataclasses import dataclass

MIB = 1024 * 1024


@dataclass(frozen=True, slots=True)
class GitLimits:
    """`max_push_bytes` bounds a push to the built-in remote, `max_fetch_bytes` a pack
    fetched from a source, `max_mirror_bytes` one from another server of the cluster (a whole
    repository at most), `max_parsed_bytes` what is kept on disk of files that were parsed.

    A push waits `hold_timeout_s` for a majority of the servers to have its objects, and
    `catch_up_timeout_s` for this server to have those of the commits before it."""

    max_file_bytes: int = MIB
    max_job_files: int = 20_000
    max_tree_entries: int = 500_000
    max_tree_depth: int = 64
    max_push_bytes: int = 64 * MIB
    max_fetch_bytes: int = 1024 * MIB
    max_mirror_bytes: int = 16 * 1024 * MIB
    max_git_memory_bytes: int = 4096 * MIB
    max_parsed_bytes: int = 128 * MIB
    max_refs: int = 20_000
    fetch_timeout_s: float = 120.0
    list_timeout_s: float = 20.0
    pack_timeout_s: float = 120.0
    mirror_timeout_s: float = 3600.0
    mirror_silence_s: float = 15.0
    hold_timeout_s: float = 60.0
    catch_up_timeout_s: float = 10.0
    webhook_max_bytes: int = MIB

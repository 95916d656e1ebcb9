"""What a repository may cost. An error that a limit causes names the limit."""

from __future__ import annotations

from dataclasses import dataclass

MIB = 1024 * 1024


@dataclass(frozen=True, slots=True)
class GitLimits:
    """Limits of git and of the trees it reads.

    `max_push_bytes` bounds a push to the built-in remote, `max_fetch_bytes` a pack fetched from a
    source, `max_mirror_bytes` a pack from another server of the cluster (a whole repository at
    most), `max_preview_bytes` the files of a preview, which are held in memory, and
    `max_parsed_bytes` the disk cache of parsed files.

    git is given up when a remote sends nothing for `silence_timeout_s`, and when listing its refs
    takes longer than `list_timeout_s`, fetching longer than `fetch_timeout_s`, receiving a push
    longer than `pack_timeout_s`.

    A push waits at most `hold_timeout_s` until a majority of the servers has its objects, and
    `catch_up_timeout_s` until this server has those of the commits before it.
    """

    max_file_bytes: int = MIB
    max_job_files: int = 20_000
    max_tree_entries: int = 500_000
    max_tree_depth: int = 64
    max_push_bytes: int = 1024 * MIB
    max_preview_bytes: int = 64 * MIB
    max_fetch_bytes: int = 1024 * MIB
    max_mirror_bytes: int = 16 * 1024 * MIB
    max_git_memory_bytes: int = 4096 * MIB
    max_parsed_bytes: int = 128 * MIB
    max_refs: int = 20_000
    fetch_timeout_s: float = 900.0
    list_timeout_s: float = 20.0
    silence_timeout_s: float = 30.0
    pack_timeout_s: float = 900.0
    mirror_timeout_s: float = 3600.0
    mirror_silence_s: float = 15.0
    hold_timeout_s: float = 60.0
    catch_up_timeout_s: float = 10.0
    webhook_max_bytes: int = MIB

"""Reads the section `client.artifact` into the limits of the agent's fetching processes."""

from __future__ import annotations

from agent.artifacts.plan import FetchLimits
from orchgit.configuration.schema import ArtifactSection
from orchgit.configuration.sizes import parse_bytes
from orchgit.durations import parse_setting_ns

_YEAR_S = 365.0 * 86400
_UNLIMITED = 1 << 62


def artifact_limits(section: ArtifactSection) -> FetchLimits:
    """Returns the limits; 0 is none. Raises InvalidInputError, which names the key."""
    timeouts_s = {
        name: parse_setting_ns(f"client.artifact.{name}", getattr(section, name)) / 1e9 or _YEAR_S
        for name in ("http_read_timeout", "git_timeout", "s3_timeout", "gcs_timeout")
    }
    return FetchLimits(
        read_timeout_s=timeouts_s["http_read_timeout"],
        git_timeout_s=timeouts_s["git_timeout"],
        s3_timeout_s=timeouts_s["s3_timeout"],
        gcs_timeout_s=timeouts_s["gcs_timeout"],
        max_download_bytes=parse_bytes("client.artifact.http_max_size", section.http_max_size)
        or _UNLIMITED,
        max_unpacked_bytes=parse_bytes(
            "client.artifact.decompression_size_limit", section.decompression_size_limit
        )
        or _UNLIMITED,
        max_files=section.decompression_file_count_limit or _UNLIMITED,
        max_ratio=section.decompression_ratio_limit,
        environment=tuple(
            name for one in section.set_environment_variables.split(",") if (name := one.strip())
        ),
        isolated=not section.disable_filesystem_isolation,
        extra_paths=tuple(section.filesystem_isolation_extra_paths),
    )

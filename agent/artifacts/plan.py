"""The plan for the fetching process, and its reply. Both cross a pipe as JSON."""

from __future__ import annotations

from typing import Literal

import msgspec

_GB = 1_000_000_000


class FetchLimits(msgspec.Struct, frozen=True, kw_only=True):
    """What one artifact may cost; the agent's `client { artifact { ... } }`."""

    read_timeout_s: float = 1800.0
    """Of the whole download and unpacking."""
    max_download_bytes: int = 100 * _GB
    max_unpacked_bytes: int = 100 * _GB
    max_files: int = 4096
    """Entries of one archive."""
    max_ratio: int = 200
    """Unpacked bytes for each byte of the archive; small archives are free of it. 0: no limit."""
    environment: tuple[str, ...] = ()
    """Variables of the agent that the fetching process sees, such as HTTPS_PROXY."""


class FetchPlan(msgspec.Struct, frozen=True, kw_only=True):
    """One download, as `source.read_source` understood it."""

    url: str
    """Without credentials and without the options that only the agent reads."""
    headers: dict[str, str] = {}
    checksums: list[str] = []
    """`TYPE:HEX`, all of which must match."""
    archive: str = ""
    """The format to unpack; "" stores the file as it comes."""
    subdir: str = ""
    """The part of the archive that is wanted, where a component may be a pattern."""
    file_name: str = ""
    mode: Literal["any", "file", "dir"] = "any"
    insecure: bool = False
    limits: FetchLimits = FetchLimits()


class FetchReply(msgspec.Struct, frozen=True, kw_only=True):
    """`tree` or `file` is a path below the process's directory; `error` the reason of a failure."""

    tree: str = ""
    file: str = ""
    error: str = ""
    recoverable: bool = False


class FetchError(Exception):
    """An artifact cannot be had; `recoverable` where a later attempt may have more luck."""

    def __init__(self, why: str, recoverable: bool = False) -> None:
        super().__init__(why)
        self.recoverable = recoverable

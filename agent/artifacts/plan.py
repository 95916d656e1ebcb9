"""The plan for the fetching process, and its reply. Both cross a pipe as JSON."""

from __future__ import annotations

import re
from typing import Literal

import msgspec

_GB = 1_000_000_000
_HALF_HOUR_S = 1800.0
EXTRA_PATH = re.compile(r"[fd]:[rwxc]+:/.*")
"""One of `FetchLimits.extra_paths`."""

Getter = Literal["http", "git", "s3", "gcs"]


class FetchLimits(msgspec.Struct, frozen=True, kw_only=True):
    """What one artifact may cost; the agent's `client { artifact { ... } }`."""

    read_timeout_s: float = _HALF_HOUR_S
    """Of the whole download and unpacking, over HTTP."""
    git_timeout_s: float = _HALF_HOUR_S
    s3_timeout_s: float = _HALF_HOUR_S
    gcs_timeout_s: float = _HALF_HOUR_S
    max_download_bytes: int = 100 * _GB
    max_unpacked_bytes: int = 100 * _GB
    max_files: int = 4096
    """Entries of one archive, and objects of one directory of a bucket."""
    max_ratio: int = 200
    """Unpacked bytes for each byte of the archive; small archives are free of it. 0: no limit."""
    environment: tuple[str, ...] = ()
    """Variables of the agent that the fetching process sees, such as HTTPS_PROXY."""
    isolated: bool = True
    """Whether Landlock keeps the fetching process out of the node's files."""
    extra_paths: tuple[str, ...] = ()
    """`f:r:/path` or `d:rx:/path`: what an isolated process may read beside the usual."""

    def timeout_s(self, getter: Getter) -> float:
        return {
            "http": self.read_timeout_s,
            "git": self.git_timeout_s,
            "s3": self.s3_timeout_s,
            "gcs": self.gcs_timeout_s,
        }[getter]


class GitOptions(msgspec.Struct, frozen=True, kw_only=True):
    """What a git source asks for beside its address."""

    ref: str = ""
    """A branch, a tag or a commit; "" is the default branch."""
    depth: int = 0
    """Commits of history; 0 is all of it."""
    ssh_key: str = ""
    """The text of a private key."""


class StoreLogin(msgspec.Struct, frozen=True, kw_only=True):
    """Credentials of an object store; without them requests are not signed."""

    key_id: str = ""
    secret: str = ""
    session_token: str = ""
    region: str = ""
    version: str = ""
    """Of the object; "" is the newest."""
    access_token: str = ""
    """A bearer token, of Google's store."""
    service_account: str = ""
    """The text of Google's key file, for which a token is asked."""


class FetchPlan(msgspec.Struct, frozen=True, kw_only=True):
    """One download, as `source.read_source` understood it."""

    getter: Getter = "http"
    url: str
    """Without credentials and without the options that only the agent reads."""
    headers: dict[str, str] = {}
    checksums: list[str] = []
    """`TYPE:HEX`, all of which must match."""
    checksum_files: list[str] = []
    """Addresses of files that list checksums, each of which must list this file's."""
    archive: str = ""
    """The format to unpack; "" stores the file as it comes."""
    subdir: str = ""
    """The part of the archive that is wanted, where a component may be a pattern."""
    file_name: str = ""
    mode: Literal["any", "file", "dir"] = "any"
    insecure: bool = False
    git: GitOptions = GitOptions()
    login: StoreLogin = StoreLogin()
    limits: FetchLimits = FetchLimits()

    @property
    def timeout_s(self) -> float:
        return self.limits.timeout_s(self.getter)


class FetchReply(msgspec.Struct, frozen=True, kw_only=True):
    """`tree` or `file` is a path below the process's directory; `error` the reason of a failure."""

    tree: str = ""
    file: str = ""
    error: str = ""


class FetchError(Exception):
    """An artifact cannot be had now."""

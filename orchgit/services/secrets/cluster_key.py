"""The cluster key: a file that wraps the root keys, the same on all servers, never replicated."""

from __future__ import annotations

import base64
import binascii
import os
from pathlib import Path

from orchgit.errors import InvalidInputError
from orchgit.services.secrets.sealing import KEY_BYTES, new_key

_FORBIDDEN_MODE = 0o077


def read_or_make_cluster_key(path: Path, *, may_make: bool) -> bytes:
    """Reads the key in `path`; with `may_make`, makes one that only its owner can read.

    A new key is on disk before this returns: what it wraps may be in the log right after.
    """
    if not path.exists() and may_make:
        _make(path)
    try:
        if path.stat().st_mode & _FORBIDDEN_MODE:
            raise InvalidInputError(
                f"cannot use the cluster key {path}: others may read it; run chmod 600 on it"
            )
        return _decoded(path)
    except OSError as error:
        raise InvalidInputError(
            f"cannot read the cluster key {path}: {error.strerror}; copy it from another server, "
            "or take `server.cluster_key_file` out of the configuration"
        ) from error


def _decoded(path: Path) -> bytes:
    try:
        key = base64.b64decode(path.read_bytes().strip(), validate=True)
    except binascii.Error:
        key = b""
    if len(key) != KEY_BYTES:
        raise InvalidInputError(
            f"cannot use the cluster key {path}: it has to be {KEY_BYTES} bytes in base64, as "
            "`openssl rand -base64 32` prints them"
        )
    return key


def _make(path: Path) -> None:
    """Writes the key whole or not at all: a crash leaves only a file that is never read."""
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    fresh = path.with_suffix(".new")
    fresh.unlink(missing_ok=True)
    fd = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    with os.fdopen(fd, "wb") as file:
        file.write(base64.b64encode(new_key()) + b"\n")
        file.flush()
        os.fsync(file.fileno())
    fresh.rename(path)
    directory = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(directory)
    finally:
        os.close(directory)

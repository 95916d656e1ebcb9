"""What the agent must know to remove a network again: a file for each allocation that has one.

The files lie in the data directory. They outlive the state database and the machine's run: an
address that a plugin wrote down as given must be given back even then.
"""

from __future__ import annotations

import contextlib
import os
from pathlib import Path
from typing import Any

import msgspec
import structlog

from agent.networks.cni.configuration import NetworkList
from agent.networks.cni.results import ConnectedInterface
from agent.networks.wanted import WantedNetwork

_log = structlog.get_logger(component="agent")

_SUFFIX = ".json"
_LOCK_SUFFIX = ".lock"
_UNFINISHED_SUFFIX = ".new"


class NetworkRecord(msgspec.Struct, frozen=True, kw_only=True):
    """The network of one allocation. It is written before the first effect, and once more when
    the network is complete."""

    wanted: WantedNetwork
    namespace: str
    namespace_identity: str
    """Tells the namespace from another one at the same path."""
    created_by: str = ""
    state: dict[str, str] = {}
    network: NetworkList | None = None
    """The plugins as they were configured at that time; None: no plugins are needed."""
    search_path: str = ""
    result: dict[str, Any] | None = None
    """What the plugins answered, for CHECK and DEL."""
    interface: ConnectedInterface | None = None
    complete: bool = False


class NetworkRecords:
    """The directory. Its methods wait for the disk: the caller uses a thread."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        for path in directory.glob(f"*{_UNFINISHED_SUFFIX}"):  # an agent was killed writing it
            path.unlink()
        for path in directory.glob(f"*{_LOCK_SUFFIX}"):  # or before it wrote the record
            if not path.with_suffix(_SUFFIX).exists():
                path.unlink()

    def read(self, alloc_id: str) -> NetworkRecord | None:
        """None where the allocation has no network; a file that cannot be read is removed."""
        path = self._path(alloc_id)
        try:
            return msgspec.json.decode(path.read_bytes(), type=NetworkRecord)
        except FileNotFoundError:
            return None
        except msgspec.MsgspecError as error:
            _log.error("cannot read a record of a network", file=str(path), error=str(error))
            path.unlink()
            return None

    def write(self, record: NetworkRecord) -> None:
        """Durable when it returns. OSError on a full disk."""
        self._directory.mkdir(parents=True, exist_ok=True, mode=0o700)
        path = self._path(record.wanted.alloc_id)
        temporary = path.with_suffix(_UNFINISHED_SUFFIX)
        try:
            with temporary.open("wb") as file:
                file.write(msgspec.json.encode(record))
                file.flush()
                os.fsync(file.fileno())
            temporary.replace(path)
        except OSError:
            temporary.unlink(missing_ok=True)
            raise

    def remove(self, alloc_id: str) -> None:
        self._path(alloc_id).unlink(missing_ok=True)

    def open_lock(self, alloc_id: str) -> int:
        """Returns a descriptor of the file that whoever works on the network holds locked."""
        self._directory.mkdir(parents=True, exist_ok=True, mode=0o700)
        path = self._path(alloc_id).with_suffix(_LOCK_SUFFIX)
        return os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)

    def close_lock(self, alloc_id: str, lock_fd: int) -> None:
        """Unlocks; the file goes with the record."""
        path = self._path(alloc_id)
        if not path.exists():
            path.with_suffix(_LOCK_SUFFIX).unlink(missing_ok=True)
        os.close(lock_fd)

    def ids(self) -> list[str]:
        """The allocations that have a network."""
        with contextlib.suppress(FileNotFoundError):
            return sorted(path.stem for path in self._directory.glob(f"*{_SUFFIX}"))
        return []

    def _path(self, alloc_id: str) -> Path:
        assert "/" not in alloc_id, "an allocation's id is a UUID"
        return self._directory / f"{alloc_id}{_SUFFIX}"

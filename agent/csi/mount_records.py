"""Records of what CSI plugins have mounted on the node, one file for each volume of an allocation.

<root>/per-alloc/<alloc id>/<volume id>        where the plugin mounts the volume
<root>/per-alloc/<alloc id>/<volume id>.json   the record, written before the plugin is called
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable
from pathlib import Path

import msgspec
import structlog

from orchgit.errors import DriverError

_log = structlog.get_logger(component="csi")

PER_ALLOC, STAGING = "per-alloc", "staging"
MOUNTED = (PER_ALLOC, STAGING)
"""The directories in which plugins mount volumes."""


class MountRecord(msgspec.Struct, frozen=True):
    alloc_id: str
    name: str
    """The group's name for the volume."""
    namespace: str
    volume_id: str
    external_id: str
    plugin_id: str
    target: str
    staging: str
    """Empty where the plugin stages nothing."""


class MountRecords:
    def __init__(self, root: Path) -> None:
        self._root = root / PER_ALLOC

    def target(self, alloc_id: str, volume_id: str) -> Path:
        return self._root / alloc_id / volume_id

    def all(self) -> list[MountRecord]:
        return _read(self._root.glob("*/*.json"))

    def of_allocation(self, alloc_id: str) -> list[MountRecord]:
        if not alloc_id or "/" in alloc_id:
            return []
        return _read((self._root / alloc_id).glob("*.json"))

    def write(self, held: MountRecord) -> None:
        """Replaces the record as a whole, durably: a full disk leaves the old one, or none. Waits
        for the disk: the caller uses a thread. Raises DriverError."""
        record = _record(Path(held.target))
        part = record.with_suffix(".new")
        try:
            record.parent.mkdir(mode=0o711, parents=True, exist_ok=True)
            with part.open("wb") as file:
                file.write(msgspec.json.encode(held))
                file.flush()
                os.fsync(file.fileno())
            part.replace(record)
        except OSError as error:
            with contextlib.suppress(OSError):
                part.unlink(missing_ok=True)
            raise DriverError(f"cannot write {record}: {error.strerror}", True) from None

    def remove(self, held: MountRecord) -> None:
        target = Path(held.target)
        _record(target).unlink(missing_ok=True)
        with contextlib.suppress(OSError):  # other volumes of the allocation are in it
            os.rmdir(target.parent)


def _record(target: Path) -> Path:
    return target.with_name(f"{target.name}.json")


def _read(records: Iterable[Path]) -> list[MountRecord]:
    """A record that cannot be read is told of and removed, so that the other volumes of the node
    are still released."""
    found: list[MountRecord] = []
    for record in sorted(records):
        try:
            found.append(msgspec.json.decode(record.read_bytes(), type=MountRecord))
        except FileNotFoundError:  # removed meanwhile
            continue
        except msgspec.MsgspecError as error:
            mount = str(record.with_suffix(""))
            _log.error("cannot read a record", file=str(record), mount=mount, error=str(error))
            record.unlink(missing_ok=True)
    return found

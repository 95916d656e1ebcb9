"""Records of what CSI plugins have mounted on the node, one file for each volume of an allocation.

<root>/per-alloc/<alloc id>/<volume id>        where the plugin mounts the volume
<root>/per-alloc/<alloc id>/<volume id>.json   the record, written before the plugin is called
"""

from __future__ import annotations

import contextlib
import json
import os
from pathlib import Path
from typing import Any

from orchgit.errors import DriverError


class MountRecords:
    """A record has `alloc_id`, `name` (the group's), `namespace`, `volume_id`, `external_id`,
    `plugin_id`, `target` and `staging` (empty where the plugin stages nothing)."""

    def __init__(self, root: Path) -> None:
        self._root = root / "per-alloc"

    def target(self, alloc_id: str, volume_id: str) -> Path:
        return self._root / alloc_id / volume_id

    def all(self) -> list[dict[str, Any]]:
        return [_read(path) for path in sorted(self._root.glob("*/*.json"))]

    def of_allocation(self, alloc_id: str) -> list[dict[str, Any]]:
        if not alloc_id or "/" in alloc_id:
            return []
        return [_read(path) for path in sorted((self._root / alloc_id).glob("*.json"))]

    def write(self, held: dict[str, Any]) -> None:
        """Replaces the record as a whole: a full disk leaves the old one, or none. Raises
        DriverError."""
        record = _record(Path(held["target"]))
        part = record.with_suffix(".new")
        try:
            record.parent.mkdir(mode=0o711, parents=True, exist_ok=True)
            part.write_text(json.dumps(held))
            part.replace(record)
        except OSError as error:
            with contextlib.suppress(OSError):
                part.unlink(missing_ok=True)
            raise DriverError(f"cannot write {record}: {error.strerror}", True) from None

    def remove(self, held: dict[str, Any]) -> None:
        target = Path(held["target"])
        _record(target).unlink(missing_ok=True)
        with contextlib.suppress(OSError):  # other volumes of the allocation are in it
            os.rmdir(target.parent)


def _record(target: Path) -> Path:
    return target.with_name(f"{target.name}.json")


def _read(record: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(record.read_text())
    return found

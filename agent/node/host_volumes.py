"""Host volumes made at run time by the built-in `mkdir` plugin, one directory each."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec
import structlog

from agent.local_state.store import LocalState
from orchgit.errors import ConflictError, InvalidInputError, OrchgitError
from orchgit.model.volume import HostVolume

_log = structlog.get_logger(component="agent")

_PLUGIN = "mkdir"


class DynamicHostVolumes:
    """Iterates over the volumes. `changed` is called when there is another one, or one less."""

    def __init__(self, root: Path, local: LocalState, changed: Callable[[], None]) -> None:
        self._root = root
        self._local = local
        self._changed = changed
        self._volumes = {volume.id: volume for volume in local.volumes()}
        self._taking = asyncio.Lock()

    def __iter__(self) -> Iterator[HostVolume]:
        return iter(list(self._volumes.values()))

    async def take(self, wanted: list[HostVolume]) -> None:
        """Make the missing volumes and delete those not wanted. A failure is logged; the servers'
        next list tries again. A registered volume (its path given) is only recorded.
        """
        async with self._taking:
            for volume_id in set(self._volumes) - {volume.id for volume in wanted}:
                await self.delete(volume_id)
            for volume in wanted:
                if volume.id not in self._volumes:
                    await self._make(volume)

    async def _make(self, volume: HostVolume) -> None:
        try:
            if volume.host_path:
                await self._record(volume)
            else:
                await self.create(volume)
        except (OrchgitError, OSError) as error:
            _log.error("cannot make a host volume", volume=volume.name, error=str(error))

    async def create(self, volume: HostVolume) -> HostVolume:
        """Make the volume, or make it again. Returns it with its path."""
        if volume.plugin_id not in ("", _PLUGIN):
            raise InvalidInputError(
                f'cannot create volume "{volume.name}": this node has no plugin '
                f'"{volume.plugin_id}", only "{_PLUGIN}"'
            )
        if any(v.name == volume.name and v.id != volume.id for v in self._volumes.values()):
            raise ConflictError(
                f'cannot create volume "{volume.name}": this node has another of that name'
            )
        path = self._root / _directory_name(volume.id)
        await asyncio.to_thread(path.mkdir, mode=0o777, parents=True, exist_ok=True)
        path.chmod(0o777)
        made = msgspec.structs.replace(volume, host_path=str(path), state="ready")
        await self._record(made)
        return made

    async def _record(self, volume: HostVolume) -> None:
        await self._local.put_volume(volume)
        self._volumes[volume.id] = volume
        self._changed()

    async def delete(self, volume_id: str) -> None:
        """Remove the volume with everything in it; one that is not here is not an error."""
        if self._volumes.pop(volume_id, None) is None:
            return
        self._local.remove_volume(volume_id)
        self._changed()
        path = self._root / _directory_name(volume_id)
        await asyncio.to_thread(shutil.rmtree, path, ignore_errors=True)


def _directory_name(volume_id: str) -> str:
    if not volume_id or not all(c.isalnum() or c == "-" for c in volume_id):
        raise InvalidInputError(f'cannot use "{volume_id}" as the id of a volume')
    return volume_id

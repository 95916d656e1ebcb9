"""Host volumes made at run time by plugins, and directories that were registered as volumes."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec
import structlog

from agent.local_state.store import LocalState
from agent.loops import spawn
from agent.node.volume_plugins import VolumePlugins
from orchgit.errors import ConflictError, DriverError, OrchgitError
from orchgit.model.volume import HostVolume
from orchgit.wire.messages import VolumeResult

_log = structlog.get_logger(component="agent")

_RESTORE_WAIT_S = 5.0
"""How long an agent's start waits for plugins that make volumes again."""


def volumes_root(data_dir: Path) -> Path:
    """Returns where volumes are made; earlier agents named the directory otherwise."""
    earlier = data_dir / "volumes"
    return earlier if earlier.is_dir() else data_dir / "host_volumes"


class DynamicHostVolumes:
    """Iterates over the volumes that tasks may use. `changed` is called when there is another one,
    or one less, or when a plugin failed."""

    def __init__(
        self, plugins: VolumePlugins, local: LocalState, changed: Callable[[], None]
    ) -> None:
        self._plugins = plugins
        self._local = local
        self._changed = changed
        self._volumes = {volume.id: volume for volume in local.volumes()}
        self._errors: dict[str, str] = {}
        self._taking = asyncio.Lock()
        self._restoring: asyncio.Task[None] | None = None

    def __iter__(self) -> Iterator[HostVolume]:
        return iter([each for each in self._volumes.values() if each.id not in self._errors])

    def results(self) -> list[VolumeResult]:
        """Returns what became of each volume that the servers asked for."""
        made = [VolumeResult(each.id, capacity_bytes=each.capacity_bytes) for each in self]
        return [*made, *(VolumeResult(id_, error) for id_, error in self._errors.items())]

    async def restore(self) -> None:
        """Makes the volumes of plugins again, since a restart of the node may have undone a mount.
        A volume is not offered to tasks until it is made again; a plugin that takes long is not
        waited for."""
        self._restoring = spawn(self._make_again(), "host volumes")
        await asyncio.wait([self._restoring], timeout=_RESTORE_WAIT_S)

    async def _make_again(self) -> None:
        made = [each for each in self._volumes.values() if not self._is_registered(each)]
        self._errors |= {each.id: "it is being made again" for each in made}
        async with self._taking:
            await asyncio.gather(*map(self._make, made))

    async def try_again(self) -> None:
        """Makes again what could not be made again: its plugin may be there now."""
        async with self._taking:
            failed = [each for each in self._volumes.values() if each.id in self._errors]
            await asyncio.gather(*map(self._make, failed))

    async def stop(self) -> None:
        """What a plugin is still making is left to the next start."""
        if self._restoring is not None:
            self._restoring.cancel()
            await asyncio.gather(self._restoring, return_exceptions=True)

    async def take(self, wanted: list[HostVolume]) -> None:
        """Makes the volumes that are missing, changed or failed before, and deletes those not
        wanted. A registered volume (its path given) is only recorded. The servers send the list
        when it changes, so a volume that cannot be made is tried as often as that."""
        async with self._taking:
            ids = {volume.id for volume in wanted}
            self._errors = {id_: why for id_, why in self._errors.items() if id_ in ids}
            await asyncio.gather(*map(self.delete, set(self._volumes) - ids))
            missing = []
            for volume in wanted:
                known = self._volumes.get(volume.id)
                as_asked = known is not None and known.request == volume.request
                if not as_asked or volume.id in self._errors:
                    missing.append(volume)
            await asyncio.gather(*map(self._make, missing))

    async def _make(self, volume: HostVolume) -> None:
        try:
            if self._is_registered(volume):
                if not await asyncio.to_thread(Path(volume.host_path).is_dir):
                    raise DriverError(f'"{volume.host_path}" is no directory of this node')
                await self._record(volume)
            else:
                await self.create(volume)
        except (OrchgitError, OSError) as error:
            _log.error("cannot make a host volume", volume=volume.name, error=str(error))
            self._errors[volume.id] = str(error)
            self._changed()

    async def create(self, volume: HostVolume) -> HostVolume:
        """Makes the volume, or makes it again. Returns it with its path."""
        if any(v.name == volume.name and v.id != volume.id for v in self._volumes.values()):
            raise ConflictError(
                f'cannot create volume "{volume.name}": this node has another of that name'
            )
        made = await self._plugins.create(volume)
        changes = {"host_path": made.path, "capacity_bytes": made.capacity_bytes}
        volume = msgspec.structs.replace(volume, state="ready", **changes)
        await self._record(volume)
        return volume

    async def _record(self, volume: HostVolume) -> None:
        await self._local.put_volume(volume)
        self._volumes[volume.id] = volume
        self._errors.pop(volume.id, None)
        self._changed()

    async def delete(self, volume_id: str) -> None:
        """Removes the volume with everything in it; one that is not here is not an error. Where
        the plugin fails, the next list of the servers, or the next start, tries again."""
        volume = self._volumes.get(volume_id)
        if volume is None:
            return
        try:
            if not self._is_registered(volume):
                await self._plugins.delete(volume)
        except (OrchgitError, OSError) as error:
            _log.error("cannot delete a host volume", volume=volume.name, error=str(error))
            return
        del self._volumes[volume_id]
        self._local.remove_volume(volume_id)
        self._changed()

    def _is_registered(self, volume: HostVolume) -> bool:
        """Whether somebody else made the directory, which stays when the volume goes."""
        if not volume.host_path or volume.plugin_id not in ("", "mkdir"):
            return False
        return volume.host_path != str(self._plugins.volumes_dir / volume.id)

"""Mounts the CSI volumes of allocations, and unmounts them.

A volume is staged once on the node, and published for each allocation that uses it. Plugins answer
a second call like the first, so everything may be repeated after a crash. What cannot be unmounted
at the end of its allocation is tried again until it is.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
from collections import defaultdict
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import msgspec
import structlog

from agent.csi.client import CsiClient, CsiError
from agent.csi.mount_records import STAGING, MountRecord, MountRecords
from agent.csi.plugins import CONTROLLER, NODE, CsiPlugins
from agent.hooks.base import SetupError, VolumeSource
from agent.paths import csi_socket_directory
from orchgit.backoff import backoff_s
from orchgit.clock import Clock
from orchgit.errors import ConflictError, DriverError, OrchgitError, UnavailableError
from orchgit.model.allocation import Allocation
from orchgit.model.group import TaskGroup
from orchgit.scheduler.placement.fit import volume_source
from orchgit.wire.csi import capability
from orchgit.wire.messages import ClaimVolumeReply, CsiAnswer, CsiCall

_log = structlog.get_logger(component="agent")

_RELEASE = "Release"
_NODE_EXPAND = "NodeExpandVolume"
_CLAIM_ATTEMPTS = 12
_LEFT_EVERY_S = 15.0
_FIRST_BACKOFF_S, _MAX_BACKOFF_S = 0.2, 15.0

Claim = Callable[[str, str, bool], Awaitable[ClaimVolumeReply]]
"""(allocation, the group's name of the volume, whether to release it)."""


class CsiVolumes:
    """The volumes of one node. `root` is the directory that its plugins mount volumes in."""

    def __init__(self, root: Path, plugins: CsiPlugins, clock: Clock, claim: Claim) -> None:
        self._root = root
        self._records = MountRecords(root)
        self._plugins = plugins
        self._clock = clock
        self._claim = claim
        self._one_at_a_time: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)
        """By plugin: a plugin that hangs holds up no other."""

    async def publish(
        self, alloc: Allocation, group: TaskGroup, runs: bool
    ) -> dict[str, VolumeSource]:
        """Claims and mounts every CSI volume of the group; returns where they are. `runs`: tasks of
        the allocation have survived the agent, with their volumes. Raises SetupError, with the
        plugin's words."""
        found = {}
        held = {each.name: each.target for each in self._records.of_allocation(alloc.id)}
        for name, request in (group.volumes or {}).items():
            if request.type != "csi":
                continue
            if runs and name in held:
                found[name] = VolumeSource(held[name], request.read_only)
                continue
            try:
                claimed = await self._claimed(alloc.id, name)
                path = await self._mount(claimed, alloc.id, name)
            except OrchgitError as error:
                raise SetupError(f'cannot use volume "{name}": {error}', True) from None
            found[name] = VolumeSource(str(path), request.read_only)
        return found

    async def release(self, alloc: Allocation, group: TaskGroup) -> None:
        """Unmounts the group's volumes, gives the claims back, and removes sockets of tasks that
        were plugins. What fails here is left to the servers, which release the claims of
        allocations that have ended."""
        held = self._records.of_allocation(alloc.id)
        done = await asyncio.gather(*map(self._tries_to_unmount, held))
        mounted = {each.volume_id for each, gone in zip(held, done, strict=True) if not gone}
        for name, request in (group.volumes or {}).items():
            if request.type != "csi" or volume_source(request, alloc.name) in mounted:
                continue
            try:
                await self._claim(alloc.id, name, True)
            except OrchgitError as error:
                _log.warning("cannot release a volume yet", volume=name, error=str(error))
        for task in group.tasks:
            if task.csi_plugin_config is not None:
                directory = csi_socket_directory(self._root, alloc.id, task.name)
                await asyncio.to_thread(shutil.rmtree, directory, ignore_errors=True)

    async def _tries_to_unmount(self, held: MountRecord) -> bool:
        """Returns whether it worked. Another plugin's volumes do not wait for one that is away."""
        try:
            await self._unmount(held)
        except (OrchgitError, OSError) as error:
            _log.warning("cannot release a volume yet", volume=held.name, error=str(error))
            return False
        return True

    async def unmount_left(self, is_live: Callable[[str], bool]) -> None:
        """Unmounts the volumes of allocations that have ended: their plugin was away or refused
        then. The servers do not ask for it where the node was lost, and the claim with it."""
        left = [
            held
            for held in await asyncio.to_thread(self._records.all)
            if not is_live(held.alloc_id)
        ]
        await asyncio.gather(*map(self._tries_to_unmount, left))

    async def keep_unmounting_left(self, is_live: Callable[[str], bool]) -> None:
        while True:
            await self._clock.sleep(_LEFT_EVERY_S)
            await self.unmount_left(is_live)

    async def answer(self, call: CsiCall) -> CsiAnswer:
        """Answers what a server asks of a plugin of this node."""
        try:
            request = msgspec.json.decode(call.request)
            if call.method == _RELEASE:
                for held in self._records.of_allocation(request["alloc_id"]):
                    if held.volume_id == request["volume_id"]:
                        await self._unmount(held)
                return CsiAnswer(call.call_id)
            if call.method == _NODE_EXPAND:
                await self._expand(request)
                return CsiAnswer(call.call_id)
            client = self._plugins.client(call.plugin_id, CONTROLLER)
            reply = await client.call(call.method, request)
            return CsiAnswer(call.call_id, msgspec.json.encode(reply))
        except CsiError as error:
            return CsiAnswer(call.call_id, error=str(error), code=error.code)
        except (OrchgitError, OSError) as error:
            return CsiAnswer(call.call_id, error=str(error), code="UNAVAILABLE")

    async def _claimed(self, alloc_id: str, name: str) -> ClaimVolumeReply:
        """The allocation that is replaced may still hold the volume: that is waited for."""
        for attempt in range(_CLAIM_ATTEMPTS):
            try:
                return await self._claim(alloc_id, name, False)
            except (ConflictError, UnavailableError):
                if attempt + 1 == _CLAIM_ATTEMPTS:
                    raise
                await self._clock.sleep(backoff_s(attempt, _FIRST_BACKOFF_S, _MAX_BACKOFF_S))
        raise AssertionError("the loop returns or raises")

    async def _mount(self, claimed: ClaimVolumeReply, alloc_id: str, name: str) -> Path:
        volume, claim = claimed.volume, claimed.claim
        if volume is None or claim is None:
            raise DriverError("the servers gave no claim")
        client = await self._client(volume.plugin_id)
        target = self._records.target(alloc_id, volume.id)
        is_staged = self._plugins.node_info(volume.plugin_id).get("RequiresNodeStageVolume")
        staging = self._root / STAGING / volume.namespace / volume.id
        held = MountRecord(
            alloc_id=alloc_id,
            name=name,
            namespace=volume.namespace,
            volume_id=volume.id,
            external_id=volume.external_id,
            plugin_id=volume.plugin_id,
            target=str(target),
            staging=str(staging) if is_staged else "",
        )
        common = {
            "volume_id": volume.external_id,
            "publish_context": claim.publish_context or {},
            "staging_target_path": held.staging,
            "volume_capability": capability(volume, claim),
            "secrets": volume.secrets or {},
            "volume_context": volume.context or {},
        }
        async with self._one_at_a_time[volume.plugin_id]:
            # What was begun is known before it is begun, so that it can be undone after a crash.
            await asyncio.to_thread(self._records.write, held)
            if held.staging:
                Path(held.staging).mkdir(mode=0o700, parents=True, exist_ok=True)
                await client.call("NodeStageVolume", common)
            readonly = claim.mode == "read"
            publish = {**common, "target_path": str(target), "readonly": readonly}
            await client.call("NodePublishVolume", publish)
            info = self._plugins.node_info(volume.plugin_id)
            if volume.capacity and not readonly and info.get("SupportsExpand"):
                # It may have become larger since it was mounted last; it is mounted all the same.
                wanted = {**common, "capacity_range": {"required_bytes": volume.capacity}}
                try:
                    await client.call("NodeExpandVolume", _expansion(held, wanted))
                except CsiError as error:
                    _log.warning("cannot enlarge a volume", volume=name, error=str(error))
        return target

    async def _expand(self, wanted: dict[str, Any]) -> None:
        """Has the plugin enlarge the file system of a volume wherever this node has mounted it."""
        for held in self._records.all():
            if (held.namespace, held.volume_id) == (wanted["namespace"], wanted["id"]):
                client = await self._client(held.plugin_id)
                async with self._one_at_a_time[held.plugin_id]:
                    await client.call("NodeExpandVolume", _expansion(held, wanted))

    async def _unmount(self, held: MountRecord) -> None:
        client = await self._client(held.plugin_id)
        target = Path(held.target)
        async with self._one_at_a_time[held.plugin_id]:
            if held not in self._records.of_allocation(held.alloc_id):
                return  # unmounted meanwhile
            await _unless_gone(
                client,
                "NodeUnpublishVolume",
                {"volume_id": held.external_id, "target_path": held.target},
            )
            if target.is_dir() and not target.is_symlink():
                with contextlib.suppress(OSError):  # the mount point of a plugin that leaves it
                    os.rmdir(target)
            others = {each.staging for each in self._records.all() if each != held}
            if held.staging and held.staging not in others:
                request = {
                    "volume_id": held.external_id,
                    "staging_target_path": held.staging,
                }
                await _unless_gone(client, "NodeUnstageVolume", request)
                with contextlib.suppress(OSError):
                    os.rmdir(held.staging)
            self._records.remove(held)  # last, so that what fails here is tried again

    async def _client(self, plugin_id: str) -> CsiClient:
        """A plugin that restarts is waited for."""
        for attempt in range(_CLAIM_ATTEMPTS):
            try:
                return self._plugins.client(plugin_id, NODE)
            except DriverError:
                if attempt + 1 == _CLAIM_ATTEMPTS:
                    raise
                await self._clock.sleep(backoff_s(attempt, _FIRST_BACKOFF_S, _MAX_BACKOFF_S))
        raise AssertionError("the loop returns or raises")


def _expansion(held: MountRecord, wanted: dict[str, Any]) -> dict[str, Any]:
    return {
        "volume_id": held.external_id,
        "volume_path": held.target,
        "staging_target_path": held.staging,
        "capacity_range": wanted["capacity_range"],
        "volume_capability": wanted["volume_capability"],
        "secrets": wanted["secrets"],
    }


async def _unless_gone(client: CsiClient, method: str, request: dict[str, Any]) -> None:
    try:
        await client.call(method, request)
    except CsiError as error:
        if error.code != "NOT_FOUND":
            raise

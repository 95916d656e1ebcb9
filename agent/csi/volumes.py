"""Mounts the CSI volumes of allocations, and unmounts them.

A volume is staged once on the node, and published for each allocation that uses it. Plugins answer
a second call like the first, so everything may be repeated after a crash.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import msgspec
import structlog

from agent.csi.client import CsiClient, CsiError
from agent.csi.plugins import CONTROLLER, NODE, CsiPlugins
from agent.hooks.base import SetupError, VolumeSource
from orchgit.backoff import backoff_s
from orchgit.clock import Clock
from orchgit.errors import ConflictError, DriverError, OrchgitError, UnavailableError
from orchgit.model.allocation import Allocation
from orchgit.model.group import TaskGroup
from orchgit.wire.csi import capability
from orchgit.wire.messages import ClaimVolumeReply, CsiAnswer, CsiCall

_log = structlog.get_logger(component="agent")

_RELEASE = "Release"
_CLAIM_ATTEMPTS = 12
_FIRST_BACKOFF_S, _MAX_BACKOFF_S = 0.2, 15.0

Claim = Callable[[str, str, bool], Awaitable[ClaimVolumeReply]]
"""(allocation, the group's name of the volume, whether to release it)."""


class CsiVolumes:
    """The volumes of one node. `root` is the directory that its plugins mount volumes in."""

    def __init__(self, root: Path, plugins: CsiPlugins, clock: Clock, claim: Claim) -> None:
        self._root = root
        self._plugins = plugins
        self._clock = clock
        self._claim = claim
        self._one_at_a_time = asyncio.Lock()

    async def publish(self, alloc: Allocation, group: TaskGroup) -> dict[str, VolumeSource]:
        """Claims and mounts every CSI volume of the group; returns where they are. Raises
        SetupError, with the plugin's words."""
        found = {}
        for name, request in (group.volumes or {}).items():
            if request.type != "csi":
                continue
            try:
                claimed = await self._claimed(alloc.id, name)
                path = await self._mount(claimed, alloc.id)
            except OrchgitError as error:
                raise SetupError(f'cannot use volume "{name}": {error}', True) from None
            found[name] = VolumeSource(str(path), request.read_only)
        return found

    async def release(self, alloc: Allocation, group: TaskGroup) -> None:
        """Unmounts the group's volumes and gives the claims back. What fails here is left to the
        servers, which release the claims of allocations that have ended."""
        for name, request in (group.volumes or {}).items():
            if request.type != "csi":
                continue
            try:
                for held in self._held_by(alloc.id):
                    await self._unmount(held)
                await self._claim(alloc.id, name, True)
            except (OrchgitError, OSError) as error:
                _log.warning("cannot release a volume yet", volume=name, error=str(error))

    async def answer(self, call: CsiCall) -> CsiAnswer:
        """Answers what a server asks of a plugin of this node."""
        try:
            request = msgspec.json.decode(call.request)
            if call.method == _RELEASE:
                for held in self._held_by(request["alloc_id"]):
                    if held["volume_id"] == request["volume_id"]:
                        await self._unmount(held)
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

    async def _mount(self, claimed: ClaimVolumeReply, alloc_id: str) -> Path:
        volume, claim = claimed.volume, claimed.claim
        if volume is None or claim is None:
            raise DriverError("the servers gave no claim")
        client = await self._client(volume.plugin_id)
        target = self._root / "per-alloc" / alloc_id / volume.id
        held = {
            "alloc_id": alloc_id,
            "namespace": volume.namespace,
            "volume_id": volume.id,
            "external_id": volume.external_id,
            "plugin_id": volume.plugin_id,
            "target": str(target),
            "staging": "",
        }
        if self._plugins.node_info(volume.plugin_id).get("RequiresNodeStageVolume"):
            held["staging"] = str(self._root / "staging" / volume.namespace / volume.id)
        common = {
            "volume_id": volume.external_id,
            "publish_context": claim.publish_context or {},
            "staging_target_path": held["staging"],
            "volume_capability": capability(volume, claim),
            "secrets": volume.secrets or {},
            "volume_context": volume.context or {},
        }
        async with self._one_at_a_time:
            target.parent.mkdir(mode=0o711, parents=True, exist_ok=True)
            # What was begun is known before it is begun, so that it can be undone after a crash.
            _record(target).write_text(json.dumps(held))
            if held["staging"]:
                Path(held["staging"]).mkdir(mode=0o700, parents=True, exist_ok=True)
                await client.call("NodeStageVolume", common)
            readonly = claim.mode == "read"
            publish = {**common, "target_path": str(target), "readonly": readonly}
            await client.call("NodePublishVolume", publish)
        return target

    async def _unmount(self, held: dict[str, Any]) -> None:
        client = await self._client(held["plugin_id"])
        target = Path(held["target"])
        async with self._one_at_a_time:
            await _unless_gone(
                client,
                "NodeUnpublishVolume",
                {"volume_id": held["external_id"], "target_path": held["target"]},
            )
            if target.is_dir() and not target.is_symlink():
                with contextlib.suppress(OSError):  # the mount point of a plugin that leaves it
                    os.rmdir(target)
            _record(target).unlink(missing_ok=True)
            if held["staging"] and not self._is_staged_for_others(held["staging"]):
                request = {
                    "volume_id": held["external_id"],
                    "staging_target_path": held["staging"],
                }
                await _unless_gone(client, "NodeUnstageVolume", request)
                with contextlib.suppress(OSError):
                    os.rmdir(held["staging"])
            with contextlib.suppress(OSError):
                os.rmdir(target.parent)

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

    def _held_by(self, alloc_id: str) -> list[dict[str, Any]]:
        if not alloc_id or "/" in alloc_id:
            return []
        records = (self._root / "per-alloc" / alloc_id).glob("*.json")
        return [json.loads(path.read_text()) for path in sorted(records)]

    def _is_staged_for_others(self, staging: str) -> bool:
        records = (self._root / "per-alloc").glob("*/*.json")
        return any(json.loads(path.read_text())["staging"] == staging for path in records)


def _record(target: Path) -> Path:
    return target.with_name(f"{target.name}.json")


async def _unless_gone(client: CsiClient, method: str, request: dict[str, Any]) -> None:
    try:
        await client.call(method, request)
    except CsiError as error:
        if error.code != "NOT_FOUND":
            raise

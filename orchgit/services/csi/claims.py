"""Claims of allocations on CSI volumes: taken before the volume is mounted, released at the end.

A claim is in the state before the storage provider attaches the volume to the node, so that a crash
leaves a claim that is released later, and no attachment that nobody knows of.
"""

from __future__ import annotations

import hmac
from dataclasses import dataclass
from typing import Any

from msgspec.structs import replace

from orchgit.errors import (
    NotAllowedError,
    NotFoundError,
    OrchgitError,
    RefusedError,
    UnavailableError,
)
from orchgit.model.csi import READ, WRITE, CsiClaim, CsiVolume
from orchgit.model.node import NodeStatus
from orchgit.replication.commands.csi_volumes import ClaimCsiVolume, ReleaseCsiClaim
from orchgit.scheduler.placement.fit import volume_source
from orchgit.services.context import UseCaseContext
from orchgit.services.csi.node_calls import RELEASE, NodeCalls, is_gone, may_be_done
from orchgit.services.csi.plugins import CsiPlugin
from orchgit.state.snapshot import Snapshot
from orchgit.wire.csi import capability
from orchgit.wire.messages import ClaimVolumeReply, ClaimVolumeRequest


@dataclass(frozen=True, slots=True)
class CsiUseCases:
    context: UseCaseContext
    calls: NodeCalls

    async def claim_for_node(self, request: ClaimVolumeRequest) -> ClaimVolumeReply:
        """Raises ConflictError while others hold the volume, PluginRefusedError where the storage
        provider does not attach it to the node."""
        with self.context.snapshot() as snapshot:
            volume, claim = _wanted(snapshot, request)
        if request.release:
            await self.release(volume.namespace, volume.id, claim.alloc_id, from_node=True)
            return ClaimVolumeReply()
        plugin = await self.plugin(volume.plugin_id)
        await self._store(volume, claim)
        if plugin.controller_supports("SupportsAttachDetach"):
            try:
                published = await self.call_controller(
                    plugin,
                    "ControllerPublishVolume",
                    {
                        "volume_id": volume.external_id,
                        "node_id": claim.external_node_id,
                        "volume_capability": capability(volume, claim),
                        "readonly": claim.mode == READ,
                        "secrets": volume.secrets or {},
                        "volume_context": volume.context or {},
                    },
                )
            except OrchgitError as error:
                # One that may be attached, or was mounted before, is detached with its release.
                if not may_be_done(error) and volume.claim_of(claim.alloc_id) is None:
                    await self._drop(volume.namespace, volume.id, claim.alloc_id)
                raise
            claim = replace(claim, publish_context=published["publish_context"])
            await self._store(volume, claim)
        return ClaimVolumeReply(volume, claim)

    async def release(
        self, namespace: str, volume_id: str, alloc_id: str, from_node: bool = False
    ) -> None:
        """Releases the claim of an allocation: unmounts (unless the node itself asks, and has done
        so), has the provider detach the volume, and forgets the claim. Raises UnavailableError
        where a part cannot be reached: then the claim stays, and is released later."""
        with self.context.snapshot() as snapshot:
            volume = snapshot.csi_volumes.get(namespace, volume_id)
            claim = volume.claim_of(alloc_id) if volume is not None else None
            if volume is None or claim is None:
                return
            node = snapshot.nodes.get(claim.node_id)
        plugin = (await self.plugins()).get(volume.plugin_id)
        is_down = node is None or node.status == NodeStatus.DOWN
        if not from_node and not is_down:
            given = {"alloc_id": alloc_id, "namespace": namespace, "volume_id": volume.id}
            external = {"external_id": volume.external_id}
            await self.calls.call(claim.node_id, volume.plugin_id, RELEASE, {**given, **external})
        others = [
            each
            for each in volume.claims
            if each.alloc_id != alloc_id and each.node_id == claim.node_id
        ]
        if plugin is None and not is_down:
            raise UnavailableError(f"cannot release volume {volume_id}: its plugin is away")
        detaches = plugin is not None and plugin.controller_supports("SupportsAttachDetach")
        if plugin is not None and detaches and not others and claim.external_node_id:
            request = {
                "volume_id": volume.external_id,
                "node_id": claim.external_node_id,
                "secrets": volume.secrets or {},
            }
            try:
                await self.call_controller(plugin, "ControllerUnpublishVolume", request)
            except RefusedError as error:
                if not is_gone(error):
                    raise
        await self._drop(namespace, volume_id, alloc_id)

    async def plugins(self) -> dict[str, CsiPlugin]:
        """Returns every plugin, by id."""
        return await self.context.caches.csi_plugins.get(self.context.state.store)

    async def plugin(self, plugin_id: str) -> CsiPlugin:
        """Raises RefusedError where no node runs the plugin."""
        plugin = (await self.plugins()).get(plugin_id)
        if plugin is None:
            raise RefusedError(f"no CSI plugin named: {plugin_id} could be found")
        return plugin

    async def call_controller(
        self, plugin: CsiPlugin, method: str, request: dict[str, Any]
    ) -> dict[str, Any]:
        """Calls the first controller that can be reached; what a plugin refuses is final."""
        error: OrchgitError = UnavailableError(
            f"no healthy controller of CSI plugin {plugin.id} can be reached"
        )
        for node_id in plugin.healthy_controllers():
            try:
                return await self.calls.call(node_id, plugin.id, method, request)
            except UnavailableError as away:
                error = away
        raise error

    async def _store(self, volume: CsiVolume, claim: CsiClaim) -> None:
        await self.context.propose(
            ClaimCsiVolume(
                now_ns=self.context.now_ns(),
                namespace=volume.namespace,
                volume_id=volume.id,
                claim=claim,
            )
        )

    async def _drop(self, namespace: str, volume_id: str, alloc_id: str) -> None:
        await self.context.propose(
            ReleaseCsiClaim(
                now_ns=self.context.now_ns(),
                namespace=namespace,
                volume_id=volume_id,
                alloc_id=alloc_id,
            )
        )


def _wanted(snapshot: Snapshot, request: ClaimVolumeRequest) -> tuple[CsiVolume, CsiClaim]:
    node = snapshot.nodes.get(request.node_id)
    if node is None or not hmac.compare_digest(node.secret_id, request.secret_id):
        raise NotAllowedError(
            f"cannot claim volumes for node {request.node_id}: it is unknown, or the secret is not "
            "the one it was registered with"
        )
    alloc = snapshot.allocations.get(request.alloc_id)
    job = snapshot.job_versions.of_allocation(alloc) if alloc is not None else None
    if alloc is None or job is None or alloc.node_id != node.id:
        raise NotFoundError(f"cannot find allocation {request.alloc_id} of node {node.id}")
    group = job.group(alloc.task_group)
    wanted = (group.volumes or {}).get(request.volume_name) if group is not None else None
    if wanted is None or wanted.type != "csi":
        raise NotFoundError(f"cannot find CSI volume {request.volume_name} of the job")
    source = volume_source(wanted, alloc.name)
    volume = snapshot.csi_volumes.get(alloc.namespace, source)
    if volume is None:
        raise NotFoundError(f"volume not found: {source}")
    plugin: Any = (node.csi_node_plugins or {}).get(volume.plugin_id) or {}
    claim = CsiClaim(
        alloc_id=alloc.id,
        node_id=node.id,
        mode=READ if wanted.read_only else WRITE,
        access_mode=wanted.access_mode,
        attachment_mode=wanted.attachment_mode,
        external_node_id=str((plugin.get("NodeInfo") or {}).get("ID", "")),
    )
    options = wanted.mount_options or volume.mount_options
    if wanted.mount_options is not None and volume.mount_options is not None:
        options = wanted.mount_options.over(volume.mount_options)
    return replace(volume, mount_options=options), claim

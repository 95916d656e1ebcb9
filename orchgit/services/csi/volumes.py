"""Registers, creates, expands and deletes CSI volumes, and their snapshots."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from msgspec.structs import replace

from orchgit.errors import NotFoundError, OrchgitError, RefusedError
from orchgit.model.csi import CsiTopology, CsiVolume
from orchgit.replication.commands.csi_volumes import DeleteCsiVolume, PutCsiVolume
from orchgit.services.csi.claims import CsiUseCases
from orchgit.services.csi.node_calls import NODE_EXPAND, is_gone
from orchgit.services.csi.plugins import CsiPlugin
from orchgit.services.namespaces import DEFAULT_NAMESPACE
from orchgit.wire.csi import ACCESS_MODES, volume_capability

_MAX_ID_BYTES = 240
"""Ids are names of files on nodes."""
_ATTACHMENTS = ("file-system", "block-device")


@dataclass(frozen=True, slots=True)
class CsiVolumeUseCases:
    """`csi` calls the plugins."""

    csi: CsiUseCases

    async def register(self, volume: CsiVolume) -> int:
        """Stores a volume that the storage provider has already; its plugin confirms that it can be
        used as asked. Returns the index."""
        _check(volume)
        plugin, known = await self._plugin(volume)
        if not volume.external_id:
            raise RefusedError("volume validation failed: missing external ID")
        request = {
            "volume_id": volume.external_id,
            "volume_context": volume.context or {},
            "volume_capabilities": _capabilities(volume),
            "parameters": volume.parameters or {},
            "secrets": volume.secrets or {},
        }
        if plugin.controllers:
            reply = await self.csi.call_controller(plugin, "ValidateVolumeCapabilities", request)
            if not reply.get("confirmed"):
                raise RefusedError(
                    f"volume {volume.id}: plugin {plugin.id} does not confirm its capabilities: "
                    f"{reply.get('message', '')}"
                )
        volume, nodes_too = await self._expanded(volume, known, plugin)
        wanted = volume.requested_topologies.required if volume.requested_topologies else None
        # Whoever registers it says where it can be used: only a creation is answered with that.
        topologies = volume.topologies or wanted or (known.topologies if known else None)
        index = await self._put(replace(volume, topologies=topologies))
        if known is not None and nodes_too:
            await self._expand_on_nodes(volume, known)
        return index

    async def create(self, volume: CsiVolume) -> CsiVolume:
        """Has the storage provider make the volume, or a known one larger, and stores it."""
        _check(volume)
        plugin, known = await self._plugin(volume)
        if known is not None:
            merged = replace(
                volume,
                external_id=known.external_id,
                context=known.context,
                topologies=known.topologies,
            )
            volume, nodes_too = await self._expanded(merged, known, plugin)
            await self._put(volume)
            if nodes_too:
                await self._expand_on_nodes(volume, known)
            return volume
        if not plugin.controller_supports("SupportsCreateDelete"):
            raise RefusedError(
                f"plugin {plugin.id} cannot create volumes; register one that exists"
            )
        request: dict[str, Any] = {
            "name": _provider_name(volume),
            "volume_capabilities": _capabilities(volume),
            "parameters": volume.parameters or {},
            "secrets": volume.secrets or {},
            **_range(volume),
        }
        if volume.snapshot_id:
            request["volume_content_source"] = {"snapshot": {"snapshot_id": volume.snapshot_id}}
        elif volume.clone_id:
            request["volume_content_source"] = {"volume": {"volume_id": volume.clone_id}}
        if wanted := volume.requested_topologies:
            request["accessibility_requirements"] = {
                "requisite": [{"segments": each.segments or {}} for each in wanted.required or ()],
                "preferred": [{"segments": each.segments or {}} for each in wanted.preferred or ()],
            }
        made = (await self.csi.call_controller(plugin, "CreateVolume", request)).get("volume") or {}
        self._check_not_shared(volume, str(made.get("volume_id", "")))
        topologies = [
            CsiTopology(each.get("segments") or {}) for each in made.get("accessible_topology", ())
        ]
        volume = replace(
            volume,
            external_id=str(made.get("volume_id", "")),
            capacity=int(made.get("capacity_bytes", 0)),
            context=made.get("volume_context") or {},
            topologies=topologies or None,
        )
        await self._put(volume)
        return volume

    async def delete(self, namespace: str, volume_id: str, secrets: dict[str, str]) -> int:
        """Deletes the volume at the storage provider, and forgets it."""
        volume = self._volume(namespace, volume_id)
        if volume.claims:
            raise RefusedError(f"volume in use: {volume_id}")
        plugin = await self.csi.plugin(volume.plugin_id)
        request = {
            "volume_id": volume.external_id,
            "secrets": {**(volume.secrets or {}), **secrets},
        }
        try:
            await self.csi.call_controller(plugin, "DeleteVolume", request)
        except RefusedError as error:
            if not is_gone(error):
                raise
        return await self.deregister(namespace, volume_id, force=False)

    async def deregister(self, namespace: str, volume_id: str, force: bool) -> int:
        """Forgets the volume; the storage provider keeps it."""
        volume = self._volume(namespace, volume_id)
        if volume.claims and not force:
            raise RefusedError(f"volume in use: {volume_id}")
        context = self.csi.context
        applied = await context.propose(
            DeleteCsiVolume(
                now_ns=context.now_ns(), namespace=namespace, volume_id=volume_id, force=force
            )
        )
        return applied.index

    async def detach(self, namespace: str, volume_id: str, node_id: str) -> None:
        """Releases the claims of a node's allocations by hand."""
        volume = self._volume(namespace, volume_id)
        claims = [each for each in volume.claims if each.node_id == node_id]
        if not claims:
            raise RefusedError(f"volume {volume_id} has no claim on node {node_id}")
        for claim in claims:
            await self.csi.release(namespace, volume_id, claim.alloc_id)

    # -- what only the provider knows ----------------------------------------------------------

    async def call(
        self, plugin_id: str, support: str, method: str, request: dict[str, Any]
    ) -> dict[str, Any]:
        """Calls a plugin's controller that says it can. Raises RefusedError where it cannot."""
        plugin = await self.csi.plugin(plugin_id)
        if not plugin.controller_supports(support):
            raise RefusedError(f"plugin {plugin_id} does not offer {method}")
        return await self.csi.call_controller(plugin, method, request)

    def external_volume(self, namespace: str, volume_id: str) -> CsiVolume:
        return self._volume(namespace, volume_id)

    # -- parts ---------------------------------------------------------------------------------

    async def _plugin(self, volume: CsiVolume) -> tuple[CsiPlugin, CsiVolume | None]:
        plugin = await self.csi.plugin(volume.plugin_id)
        with self.csi.context.snapshot() as snapshot:
            known = snapshot.csi_volumes.get(volume.namespace, volume.id)
        if known is not None and known.plugin_id != volume.plugin_id:
            raise RefusedError(f"volume {volume.id} is of plugin {known.plugin_id} already")
        return plugin, known

    def _check_not_shared(self, volume: CsiVolume, external_id: str) -> None:
        """Providers answer a name that they know with the volume that has it."""
        with self.csi.context.snapshot() as snapshot:
            others = snapshot.csi_volumes.all()
        for other in others:
            if (other.plugin_id, other.external_id) == (volume.plugin_id, external_id):
                raise RefusedError(
                    f"cannot create volume {volume.id}: for the name {_provider_name(volume)} the "
                    f"provider has {external_id}, which is volume {other.id} of namespace "
                    f"{other.namespace}; choose another name"
                )

    def _volume(self, namespace: str, volume_id: str) -> CsiVolume:
        with self.csi.context.snapshot() as snapshot:
            volume = snapshot.csi_volumes.get(namespace, volume_id)
        if volume is None:
            raise NotFoundError(f"volume not found: {volume_id}")
        return volume

    async def _expanded(
        self, volume: CsiVolume, known: CsiVolume | None, plugin: CsiPlugin
    ) -> tuple[CsiVolume, bool]:
        """A known volume that is asked for larger is made larger. Returns whether the nodes that
        have mounted it must enlarge its file system, too."""
        if known is None:
            return volume, False
        if volume.requested_capacity_min <= known.capacity:
            return replace(volume, capacity=known.capacity), False
        if not plugin.controller_supports("SupportsExpand"):
            if not plugin.nodes_support("SupportsExpand"):
                raise RefusedError(f"plugin {plugin.id} cannot expand volumes")
            return replace(volume, capacity=volume.requested_capacity_min), True
        request = {
            "volume_id": known.external_id,
            "secrets": volume.secrets or {},
            "volume_capability": _capabilities(volume)[0],
            **_range(volume),
        }
        reply = await self.csi.call_controller(plugin, "ControllerExpandVolume", request)
        larger = replace(volume, capacity=int(reply.get("capacity_bytes", 0)))
        return larger, bool(reply.get("node_expansion_required"))

    async def _expand_on_nodes(self, volume: CsiVolume, known: CsiVolume) -> None:
        """Raises RefusedError that names each node which could not enlarge the volume."""
        wanted = {
            "namespace": volume.namespace,
            "id": volume.id,
            "capacity_range": {"required_bytes": volume.capacity},
            "volume_capability": _capabilities(volume)[0],
            "secrets": volume.secrets or {},
        }
        problems = []
        for node_id in sorted({claim.node_id for claim in known.claims}):
            try:
                await self.csi.calls.call(node_id, volume.plugin_id, NODE_EXPAND, wanted)
            except OrchgitError as error:
                problems.append(f"node {node_id}: {error}")
        if problems:
            raise RefusedError(
                f"volume {volume.id} has {volume.capacity} bytes at its provider, but it cannot be "
                f"enlarged where it is mounted; it is when it is mounted next: "
                f"{'; '.join(problems)}"
            )

    async def _put(self, volume: CsiVolume) -> int:
        context = self.csi.context
        applied = await context.propose(PutCsiVolume(now_ns=context.now_ns(), volume=volume))
        return applied.index


def _provider_name(volume: CsiVolume) -> str:
    """Returns the name by which the provider knows the volume again: volumes of one name in two
    namespaces are two. Names in the default namespace are as Nomad gives them."""
    name = volume.name or volume.id
    return name if volume.namespace == DEFAULT_NAMESPACE else f"{volume.namespace}.{name}"


def _range(volume: CsiVolume) -> dict[str, Any]:
    low, high = volume.requested_capacity_min, volume.requested_capacity_max
    if not low and not high:
        return {}
    return {"capacity_range": {"required_bytes": low, "limit_bytes": high}}


def _capabilities(volume: CsiVolume) -> list[dict[str, Any]]:
    wanted = volume.requested_capabilities or ()
    return [volume_capability(each, volume.mount_options) for each in wanted]


def _check(volume: CsiVolume) -> None:
    problems = []
    if not volume.id:
        problems.append("missing volume ID")
    if "/" in volume.id or volume.id in (".", "..") or not volume.id.isprintable():
        problems.append(f'"{volume.id}" is no id of a volume')
    if len(volume.id.encode("utf-8", "replace")) > _MAX_ID_BYTES:
        problems.append(f"the volume ID has more than {_MAX_ID_BYTES} bytes")
    if not volume.plugin_id:
        problems.append("missing plugin ID")
    if not volume.requested_capabilities:
        problems.append("must include at least one capability block")
    for each in volume.requested_capabilities or ():
        if each.access_mode not in ACCESS_MODES:
            problems.append(f'unknown access mode "{each.access_mode}"')
        if each.attachment_mode not in _ATTACHMENTS:
            problems.append(f'unknown attachment mode "{each.attachment_mode}"')
    if volume.snapshot_id and volume.clone_id:
        problems.append("only one of snapshot_id and clone_id is allowed")
    if volume.requested_capacity_max and (
        volume.requested_capacity_min > volume.requested_capacity_max
    ):
        problems.append("capacity_max must not be smaller than capacity_min")
    if problems:
        raise RefusedError(f"volume validation failed: {'; '.join(problems)}")

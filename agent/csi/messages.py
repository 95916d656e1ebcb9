"""The messages and methods of the Container Storage Interface that orchgit uses.

Names and numbers are those of the specification (csi.v1), which its authors publish under the
Apache license 2.0.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

from agent.csi.protobuf import MessageField, Table


@dataclass(frozen=True, slots=True)
class Method:
    service: str
    name: str
    request: Table
    reply: Table

    @property
    def path(self) -> str:
        return f"/csi.v1.{self.service}/{self.name}"


class PluginCapability(IntEnum):
    CONTROLLER_SERVICE = 1
    VOLUME_ACCESSIBILITY_CONSTRAINTS = 2


class ControllerRpc(IntEnum):
    CREATE_DELETE_VOLUME = 1
    PUBLISH_UNPUBLISH_VOLUME = 2
    LIST_VOLUMES = 3
    GET_CAPACITY = 4
    CREATE_DELETE_SNAPSHOT = 5
    LIST_SNAPSHOTS = 6
    CLONE_VOLUME = 7
    PUBLISH_READONLY = 8
    EXPAND_VOLUME = 9
    LIST_VOLUMES_PUBLISHED_NODES = 10
    VOLUME_CONDITION = 11
    GET_VOLUME = 12


class NodeRpc(IntEnum):
    STAGE_UNSTAGE_VOLUME = 1
    GET_VOLUME_STATS = 2
    EXPAND_VOLUME = 3
    VOLUME_CONDITION = 4


def _text(name: str) -> MessageField:
    return MessageField(name, "string")


def _whole(name: str) -> MessageField:
    return MessageField(name, "int")


def _one(name: str, table: Table) -> MessageField:
    return MessageField(name, table)


def _map(name: str) -> MessageField:
    return MessageField(name, "map")


def _many(name: str, kind: str | Table) -> MessageField:
    return MessageField(name, kind, repeated=True)


_NOTHING: Table = {}
_BOOL_VALUE: Table = {1: MessageField("value", "bool")}
_SECONDS: Table = {1: _whole("seconds"), 2: _whole("nanos")}
_TYPE: Table = {1: _whole("type")}
_CAPABILITIES: Table = {1: _many("capabilities", {1: _one("rpc", _TYPE)})}
_RANGE: Table = {1: _whole("required_bytes"), 2: _whole("limit_bytes")}
_TOPOLOGY: Table = {1: _map("segments")}
_REQUIREMENT: Table = {1: _many("requisite", _TOPOLOGY), 2: _many("preferred", _TOPOLOGY)}
_CAPABILITY: Table = {
    1: _one("block", _NOTHING),
    2: _one("mount", {1: _text("fs_type"), 2: _many("mount_flags", "string")}),
    3: _one("access_mode", {1: _whole("mode")}),
}
_SOURCE: Table = {
    1: _one("snapshot", {1: _text("snapshot_id")}),
    2: _one("volume", {1: _text("volume_id")}),
}
_VOLUME: Table = {
    1: _whole("capacity_bytes"),
    2: _text("volume_id"),
    3: _map("volume_context"),
    4: _one("content_source", _SOURCE),
    5: _many("accessible_topology", _TOPOLOGY),
}
_SNAPSHOT: Table = {
    1: _whole("size_bytes"),
    2: _text("snapshot_id"),
    3: _text("source_volume_id"),
    4: _one("creation_time", _SECONDS),
    5: MessageField("ready_to_use", "bool"),
}
_STATUS: Table = {
    1: _many("published_node_ids", "string"),
    2: _one("volume_condition", {1: MessageField("abnormal", "bool"), 2: _text("message")}),
}

_METHODS = (
    Method(
        "Identity",
        "GetPluginInfo",
        _NOTHING,
        {1: _text("name"), 2: _text("vendor_version"), 3: _map("manifest")},
    ),
    Method(
        "Identity",
        "GetPluginCapabilities",
        _NOTHING,
        {
            1: _many(
                "capabilities",
                {1: _one("service", _TYPE), 2: _one("volume_expansion", _TYPE)},
            )
        },
    ),
    Method("Identity", "Probe", _NOTHING, {1: _one("ready", _BOOL_VALUE)}),
    Method("Controller", "ControllerGetCapabilities", _NOTHING, _CAPABILITIES),
    Method(
        "Controller",
        "CreateVolume",
        {
            1: _text("name"),
            2: _one("capacity_range", _RANGE),
            3: _many("volume_capabilities", _CAPABILITY),
            4: _map("parameters"),
            5: _map("secrets"),
            6: _one("volume_content_source", _SOURCE),
            7: _one("accessibility_requirements", _REQUIREMENT),
        },
        {1: _one("volume", _VOLUME)},
    ),
    Method("Controller", "DeleteVolume", {1: _text("volume_id"), 2: _map("secrets")}, _NOTHING),
    Method(
        "Controller",
        "ControllerPublishVolume",
        {
            1: _text("volume_id"),
            2: _text("node_id"),
            3: _one("volume_capability", _CAPABILITY),
            4: MessageField("readonly", "bool"),
            5: _map("secrets"),
            6: _map("volume_context"),
        },
        {1: _map("publish_context")},
    ),
    Method(
        "Controller",
        "ControllerUnpublishVolume",
        {1: _text("volume_id"), 2: _text("node_id"), 3: _map("secrets")},
        _NOTHING,
    ),
    Method(
        "Controller",
        "ValidateVolumeCapabilities",
        {
            1: _text("volume_id"),
            2: _map("volume_context"),
            3: _many("volume_capabilities", _CAPABILITY),
            4: _map("parameters"),
            5: _map("secrets"),
        },
        {
            1: _one(
                "confirmed",
                {
                    1: _map("volume_context"),
                    2: _many("volume_capabilities", _CAPABILITY),
                    3: _map("parameters"),
                },
            ),
            2: _text("message"),
        },
    ),
    Method(
        "Controller",
        "ListVolumes",
        {1: _whole("max_entries"), 2: _text("starting_token")},
        {
            1: _many("entries", {1: _one("volume", _VOLUME), 2: _one("status", _STATUS)}),
            2: _text("next_token"),
        },
    ),
    Method(
        "Controller",
        "CreateSnapshot",
        {
            1: _text("source_volume_id"),
            2: _text("name"),
            3: _map("secrets"),
            4: _map("parameters"),
        },
        {1: _one("snapshot", _SNAPSHOT)},
    ),
    Method("Controller", "DeleteSnapshot", {1: _text("snapshot_id"), 2: _map("secrets")}, _NOTHING),
    Method(
        "Controller",
        "ListSnapshots",
        {
            1: _whole("max_entries"),
            2: _text("starting_token"),
            3: _text("source_volume_id"),
            4: _text("snapshot_id"),
            5: _map("secrets"),
        },
        {1: _many("entries", {1: _one("snapshot", _SNAPSHOT)}), 2: _text("next_token")},
    ),
    Method(
        "Controller",
        "ControllerExpandVolume",
        {
            1: _text("volume_id"),
            2: _one("capacity_range", _RANGE),
            3: _map("secrets"),
            4: _one("volume_capability", _CAPABILITY),
        },
        {1: _whole("capacity_bytes"), 2: MessageField("node_expansion_required", "bool")},
    ),
    Method(
        "Node",
        "NodeStageVolume",
        {
            1: _text("volume_id"),
            2: _map("publish_context"),
            3: _text("staging_target_path"),
            4: _one("volume_capability", _CAPABILITY),
            5: _map("secrets"),
            6: _map("volume_context"),
        },
        _NOTHING,
    ),
    Method(
        "Node",
        "NodeUnstageVolume",
        {1: _text("volume_id"), 2: _text("staging_target_path")},
        _NOTHING,
    ),
    Method(
        "Node",
        "NodePublishVolume",
        {
            1: _text("volume_id"),
            2: _map("publish_context"),
            3: _text("staging_target_path"),
            4: _text("target_path"),
            5: _one("volume_capability", _CAPABILITY),
            6: MessageField("readonly", "bool"),
            7: _map("secrets"),
            8: _map("volume_context"),
        },
        _NOTHING,
    ),
    Method(
        "Node", "NodeUnpublishVolume", {1: _text("volume_id"), 2: _text("target_path")}, _NOTHING
    ),
    Method("Node", "NodeGetCapabilities", _NOTHING, _CAPABILITIES),
    Method(
        "Node",
        "NodeGetInfo",
        _NOTHING,
        {
            1: _text("node_id"),
            2: _whole("max_volumes_per_node"),
            3: _one("accessible_topology", _TOPOLOGY),
        },
    ),
    Method(
        "Node",
        "NodeExpandVolume",
        {
            1: _text("volume_id"),
            2: _text("volume_path"),
            3: _one("capacity_range", _RANGE),
            4: _text("staging_target_path"),
            5: _one("volume_capability", _CAPABILITY),
            6: _map("secrets"),
        },
        {1: _whole("capacity_bytes")},
    ),
)

METHODS = {method.name: method for method in _METHODS}

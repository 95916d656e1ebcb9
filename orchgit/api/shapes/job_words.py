"""What Go says of a job with a value of the wrong type."""

from __future__ import annotations

import re

from jobspec.blocks.api_shape import WrongTypeError
from orchgit.api.shapes.go_types import described, type_problem

_STRUCTS = {
    "artifact": "TaskArtifact",
    "bind_address": "ConsulGatewayBindAddress",
    "check": "ServiceCheck",
    "cni": "CNIConfig",
    "connect": "ConsulConnect",
    "csi_plugin": "TaskCSIPluginConfig",
    "device": "RequestedDevice",
    "disconnect": "DisconnectStrategy",
    "dispatch_payload": "DispatchPayloadConfig",
    "dns": "DNSConfig",
    "expose": "ConsulExposeConfig",
    "expose_path": "ConsulExposePath",
    "gateway": "ConsulGateway",
    "gateway_proxy": "ConsulGatewayProxy",
    "gateway_tls": "ConsulGatewayTLSConfig",
    "group": "TaskGroup",
    "group_scaling": "ScalingPolicy",
    "header_modifiers": "ConsulHTTPHeaderModifiers",
    "identity": "WorkloadIdentity",
    "ingress": "ConsulIngressConfigEntry",
    "ingress_service": "ConsulIngressService",
    "lifecycle": "TaskLifecycle",
    "linked_service": "ConsulLinkedService",
    "listener": "ConsulIngressListener",
    "logs": "LogConfig",
    "mesh": "ConsulMeshConfigEntry",
    "mesh_gateway": "ConsulMeshGateway",
    "migrate": "MigrateStrategy",
    "mount_options": "CSIMountOptions",
    "network": "NetworkResource",
    "numa": "NUMAResource",
    "parameterized": "ParameterizedJobConfig",
    "periodic": "PeriodicConfig",
    "proxy": "ConsulProxy",
    "reschedule": "ReschedulePolicy",
    "restart": "RestartPolicy",
    "schedule": "TaskSchedule",
    "schedule_cron": "TaskScheduleCron",
    "sds": "ConsulGatewayTLSSDSConfig",
    "sidecar_service": "ConsulSidecarService",
    "sidecar_task": "SidecarTask",
    "task_scaling": "ScalingPolicy",
    "terminating": "ConsulTerminatingConfigEntry",
    "transparent_proxy": "ConsulTransparentProxy",
    "ui": "JobUIConfig",
    "ui_link": "JobUILink",
    "update": "UpdateStrategy",
    "upstreams": "ConsulUpstream",
    "volume": "VolumeRequest",
    "wait": "WaitConfig",
    "weights": "ServiceWeights",
}
"""Structs whose name does not follow from that of their block."""
_KINDS = {
    "duration": "time.Duration",
    "bytes": "[]uint8",
    "strings": "[]string",
    "uint16s": "[]uint16",
    "map": "map[string]string",
    "free": "map[string]interface {}",
    "lists": "map[string][]string",
}

_OF_VALUES = ("[]*port", "[]*check")
"""Lists that hold their structs themselves, not pointers to them."""
_OF_NUMBERS = ("int64", "int", "int8", "uint8", "uint16", "uint32", "uint64", "duration")


def type_words(error: WrongTypeError) -> str:
    """Returns what Go says where it reads the body that holds the job."""
    owner = "JobRegisterRequest" if error.shape is None else _struct(error.shape.name)
    found = described(error.value, error.kind in _OF_NUMBERS)
    path = re.sub(r"\[[^\]]*\]", "", error.path)
    prefix, is_struct, table = error.kind.rpartition("*")
    pointer = "*" if prefix and error.kind not in _OF_VALUES else ""
    kind = f"{prefix}{pointer}api.{_struct(table)}" if is_struct else _KINDS.get(table, table)
    return type_problem(found, f"{owner}.{path}", kind)


def _struct(table: str) -> str:
    words = "".join(each.title() for each in table.split("_"))
    return _STRUCTS.get(table, words)

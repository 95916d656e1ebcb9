"""How a service's part in Consul's mesh is reported; the model keeps it as a tree."""

from __future__ import annotations

from orchgit.jobdiff.shape import Matching, ObjectField, ObjectShape, by, strings

_UPSTREAM = ObjectShape(
    "ConsulUpstreams",
    omit=frozenset(("Config", "MeshGateway")),
    template={
        "Datacenter": "",
        "DestinationName": "",
        "DestinationNamespace": "",
        "DestinationPartition": "",
        "DestinationPeer": "",
        "DestinationType": "",
        "LocalBindAddress": "",
        "LocalBindPort": "0",
        "LocalBindSocketMode": "",
        "LocalBindSocketPath": "",
    },
    objects=(ObjectField("MeshGateway", Matching.SINGLE, ObjectShape("MeshGateway", plain=True)),),
)
_EXCLUDED = (
    "ExcludeInboundPorts",
    "ExcludeOutboundPorts",
    "ExcludeOutboundCIDRs",
    "ExcludeUIDs",
)
_TRANSPARENT_PROXY = ObjectShape(
    "TransparentProxy",
    template={"NoDNS": "false", "OutboundPort": "0", "UID": ""},
    objects=tuple(strings(name, name) for name in _EXCLUDED),
)
_PROXY = ObjectShape(
    "ConsulProxy",
    omit=frozenset(("Config", "Expose", "ExposeConfig", "TransparentProxy", "Upstreams")),
    template={"LocalServiceAddress": "", "LocalServicePort": "0"},
    objects=(
        ObjectField("Upstreams", Matching.KEYED, _UPSTREAM, by("DestinationName")),
        ObjectField(
            "Expose",
            Matching.SINGLE,
            ObjectShape(
                "Expose",
                objects=(ObjectField("Path", Matching.SET, ObjectShape("Paths", plain=True)),),
            ),
        ),
        ObjectField("TransparentProxy", Matching.SINGLE, _TRANSPARENT_PROXY, always=True),
        ObjectField("Config", Matching.FREE_FORM, ObjectShape("Config")),
    ),
)
_SIDECAR_TASK = ObjectShape(
    "SidecarTask",
    omit=frozenset(
        ("Config", "KillTimeout", "LogConfig", "Resources", "ShutdownDelay", "VolumeMounts")
    ),
    brief=True,
    objects=(
        ObjectField("Config", Matching.FREE_FORM, ObjectShape("Config")),
        ObjectField(
            "Resources",
            Matching.SINGLE,
            ObjectShape(
                "Resources",
                template={
                    "Cores": "0",
                    "DiskMB": "0",
                    "IOPS": "0",
                    "MemoryMaxMB": "0",
                    "SecretsMB": "0",
                },
            ),
        ),
        ObjectField(
            "LogConfig", Matching.SINGLE, ObjectShape("LogConfig", omit=frozenset(("Enabled",)))
        ),
    ),
)
CONNECT = ObjectField(
    "connect",
    Matching.SINGLE,
    ObjectShape(
        "ConsulConnect",
        omit=frozenset(("Gateway", "SidecarService", "SidecarTask")),
        template={"Native": "false"},
        objects=(
            ObjectField(
                "SidecarService",
                Matching.SINGLE,
                ObjectShape(
                    "SidecarService",
                    omit=frozenset(("Proxy", "Tags")),
                    template={"DisableDefaultTCPCheck": "false", "Port": ""},
                    objects=(ObjectField("Proxy", Matching.SINGLE, _PROXY),),
                ),
            ),
            ObjectField("SidecarTask", Matching.SINGLE, _SIDECAR_TASK),
            ObjectField("Gateway", Matching.TREE, ObjectShape("Gateway")),
        ),
    ),
)

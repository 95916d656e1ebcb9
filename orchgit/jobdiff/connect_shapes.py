"""How a service's part in Consul's mesh is reported; the model keeps it as a tree."""

from __future__ import annotations

from orchgit.jobdiff.shape import Child, Kind, Shape, by, strings

_UPSTREAM = Shape(
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
    children=(Child("MeshGateway", Kind.SINGLE, Shape("MeshGateway", plain=True)),),
)
_EXCLUDED = (
    "ExcludeInboundPorts",
    "ExcludeOutboundPorts",
    "ExcludeOutboundCIDRs",
    "ExcludeUIDs",
)
_TRANSPARENT_PROXY = Shape(
    "TransparentProxy",
    template={"NoDNS": "false", "OutboundPort": "0", "UID": ""},
    children=tuple(strings(name, name) for name in _EXCLUDED),
)
_PROXY = Shape(
    "ConsulProxy",
    omit=frozenset(("Config", "Expose", "ExposeConfig", "TransparentProxy", "Upstreams")),
    template={"LocalServiceAddress": "", "LocalServicePort": "0"},
    children=(
        Child("Upstreams", Kind.KEYED, _UPSTREAM, by("DestinationName")),
        Child(
            "Expose",
            Kind.SINGLE,
            Shape("Expose", children=(Child("Path", Kind.SET, Shape("Paths", plain=True)),)),
        ),
        Child("TransparentProxy", Kind.SINGLE, _TRANSPARENT_PROXY, always=True),
        Child("Config", Kind.FREE_FORM, Shape("Config")),
    ),
)
_SIDECAR_TASK = Shape(
    "SidecarTask",
    omit=frozenset(
        ("Config", "KillTimeout", "LogConfig", "Resources", "ShutdownDelay", "VolumeMounts")
    ),
    brief=True,
    children=(
        Child("Config", Kind.FREE_FORM, Shape("Config")),
        Child(
            "Resources",
            Kind.SINGLE,
            Shape(
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
        Child("LogConfig", Kind.SINGLE, Shape("LogConfig", omit=frozenset(("Enabled",)))),
    ),
)
CONNECT = Child(
    "connect",
    Kind.SINGLE,
    Shape(
        "ConsulConnect",
        omit=frozenset(("Gateway", "SidecarService", "SidecarTask")),
        template={"Native": "false"},
        children=(
            Child(
                "SidecarService",
                Kind.SINGLE,
                Shape(
                    "SidecarService",
                    omit=frozenset(("Proxy", "Tags")),
                    template={"DisableDefaultTCPCheck": "false", "Port": ""},
                    children=(Child("Proxy", Kind.SINGLE, _PROXY),),
                ),
            ),
            Child("SidecarTask", Kind.SINGLE, _SIDECAR_TASK),
            Child("Gateway", Kind.TREE, Shape("Gateway")),
        ),
    ),
)

"""The special cases as data: how each kind of object inside a job is reported.

What is not listed here is reported by the generic rules alone.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import Enum, auto


class Kind(Enum):
    """How the old and the new value of a field are matched."""

    SINGLE = auto()
    """One object or none."""
    KEYED = auto()
    """A list (or map) of objects, matched by a key: an object can be edited."""
    SET = auto()
    """A list of objects without identity: what differs is one removed and one added."""
    STRINGS = auto()
    """A list of texts, compared as a set."""
    TREE = auto()
    """A free-form map, flattened."""


@dataclass(frozen=True, slots=True)
class Shape:
    """`name` is the report's; `omit` fields are not shown; `template` are fields always shown,
    `joined` are lists shown as one text."""

    name: str
    omit: frozenset[str] = frozenset()
    template: Mapping[str, str] = field(default_factory=dict)
    joined: frozenset[str] = frozenset()
    renamed: Mapping[str, str] = field(default_factory=dict)
    children: tuple[Child, ...] = ()


@dataclass(frozen=True, slots=True)
class Child:
    """A field (attribute of a struct, or key of a map) that holds objects. `implied` stands for
    a value that is not set."""

    attribute: str
    kind: Kind
    shape: Shape
    key: Callable[[object], str] = str
    implied: object = None


def get(value: object, name: str) -> object:
    """A field of a struct or a key of a map."""
    if isinstance(value, Mapping):
        return value.get(name)
    return getattr(value, name, None)


def by(name: str) -> Callable[[object], str]:
    return lambda value: str(get(value, name) or "")


def _strings(attribute: str, name: str) -> Child:
    return Child(attribute, Kind.STRINGS, Shape(name))


def _single(attribute: str, shape: Shape) -> Child:
    return Child(attribute, Kind.SINGLE, shape)


CONSTRAINTS = Child("constraints", Kind.SET, Shape("Constraint"))
AFFINITIES = Child("affinities", Kind.SET, Shape("Affinity"))

_PORT_TEMPLATE = {"HostNetwork": "default"}
_NETWORK = Shape(
    "Network",
    omit=frozenset(("Device", "CIDR", "IP", "MBits")),
    children=(
        Child("reserved_ports", Kind.SET, Shape("Static Port", template=_PORT_TEMPLATE)),
        Child(
            "dynamic_ports",
            Kind.SET,
            Shape(
                "Dynamic Port",
                omit=frozenset(("Value", "IgnoreCollision")),
                template=_PORT_TEMPLATE,
            ),
        ),
        _single("dns", Shape("DNS", joined=frozenset(("Servers", "Searches", "Options")))),
        Child("cni", Kind.TREE, Shape("CNIConfig")),
    ),
)
NETWORKS = Child("networks", Kind.SET, _NETWORK)

_CHECK_RESTART = _single("check_restart", Shape("CheckRestart"))
_CHECK = Shape(
    "Check",
    omit=frozenset(("Advertise",)),
    children=(
        _strings("args", "Args"),
        Child("header", Kind.TREE, Shape("Header")),
        _CHECK_RESTART,
    ),
)
_SERVICE = Shape(
    "Service",
    template={"Cluster": "default", "Namespace": "default", "AddressMode": "auto"},
    omit=frozenset(("TaggedAddresses", "Weights")),
    children=(
        _strings("canary_tags", "CanaryTags"),
        _strings("tags", "Tags"),
        Child("checks", Kind.KEYED, _CHECK, by("name")),
        _CHECK_RESTART,
        Child("connect", Kind.TREE, Shape("ConsulConnect")),
        Child("tagged_addresses", Kind.TREE, Shape("TaggedAddresses")),
        Child("weights", Kind.TREE, Shape("Weights")),
        Child("identity", Kind.TREE, Shape("Identity")),
    ),
)
SERVICES = Child("services", Kind.KEYED, _SERVICE, by("name"))

_IDENTITY = Shape(
    "Identity",
    template={
        "ChangeMode": "",
        "ChangeSignal": "",
        "Env": "false",
        "File": "false",
        "Filepath": "",
        "Name": "",
        "ServiceName": "",
        "TTL": "0",
    },
    children=(_strings("Audience", "Audience"),),
)
_DEFAULT_IDENTITY = {"Name": "default", "Audience": ["nomadproject.io"]}

_DEVICE = Shape("Device", children=(CONSTRAINTS, AFFINITIES))
_RESOURCES = Shape(
    "Resources",
    children=(
        Child("networks", Kind.SET, _NETWORK),
        Child("devices", Kind.KEYED, _DEVICE, by("name")),
        _single("numa", Shape("NUMA", children=(_strings("devices", "Devices"),))),
    ),
)
_TEMPLATE = Shape(
    "Template",
    children=(
        _single("change_script", Shape("ChangeScript", children=(_strings("args", "Args"),))),
        Child("wait", Kind.TREE, Shape("Template")),
    ),
)

TASK_CHILDREN = (
    CONSTRAINTS,
    AFFINITIES,
    Child("config", Kind.TREE, Shape("Config")),
    _single("resources", _RESOURCES),
    _single("log_config", Shape("LogConfig")),
    _single("dispatch_payload", Shape("DispatchPayload")),
    Child("artifacts", Kind.KEYED, Shape("Artifact"), by("relative_dest")),
    SERVICES,
    Child("vault", Kind.TREE, Shape("Vault")),
    Child("consul", Kind.TREE, Shape("Consul")),
    Child("templates", Kind.KEYED, _TEMPLATE, by("dest_path")),
    Child("identity", Kind.SINGLE, _IDENTITY, implied=_DEFAULT_IDENTITY),
    Child("identities", Kind.KEYED, _IDENTITY, by("Name")),
    Child(
        "actions",
        Kind.KEYED,
        Shape("Action", children=(_strings("args", "Args"),)),
        by("name"),
    ),
    Child("volume_mounts", Kind.SET, Shape("VolumeMount")),
    Child("csi_plugin_config", Kind.TREE, Shape("TaskCSIPluginConfig")),
    Child("schedule", Kind.TREE, Shape("Schedule")),
    Child("secrets", Kind.KEYED, Shape("Secret"), by("Name")),
)
TASK_OMIT = frozenset(
    ("Name", "Config", "Vault", "Consul", "CSIPluginConfig", "Identity", "Schedule")
)

GROUP_CHILDREN = (
    CONSTRAINTS,
    AFFINITIES,
    _single("restart_policy", Shape("RestartPolicy")),
    _single("migrate", Shape("Migrate")),
    _single("reschedule_policy", Shape("ReschedulePolicy")),
    _single("disconnect", Shape("Disconnect")),
    _single("ephemeral_disk", Shape("EphemeralDisk")),
    Child("consul", Kind.TREE, Shape("Consul")),
    _single("update", Shape("Update", omit=frozenset(("Stagger",)))),
    NETWORKS,
    SERVICES,
    Child(
        "volumes",
        Kind.KEYED,
        Shape("Volume", children=(_single("mount_options", Shape("MountOptions")),)),
        by("name"),
    ),
    _single(
        "scaling",
        Shape(
            "Scaling",
            omit=frozenset(
                ("ID", "Namespace", "Type", "Target", "Policy", "CreateIndex", "ModifyIndex")
            ),
            children=(Child("policy", Kind.TREE, Shape("Policy")),),
        ),
    ),
)
GROUP_OMIT = frozenset(("Name", "Consul"))

_LINK = Shape("Link", renamed={"URL": "Url"})
JOB_CHILDREN = (
    CONSTRAINTS,
    AFFINITIES,
    _strings("datacenters", "Datacenters"),
    _single("periodic", Shape("Periodic", omit=frozenset(("Specs",)))),
    _single(
        "parameterized_job",
        Shape(
            "ParameterizedJob",
            children=(
                _strings("meta_required", "MetaRequired"),
                _strings("meta_optional", "MetaOptional"),
            ),
        ),
    ),
    Child("multiregion", Kind.TREE, Shape("Multiregion")),
    _single(
        "ui",
        Shape(
            "UI",
            template={"Description": ""},
            children=(Child("Links", Kind.KEYED, _LINK, by("Label")),),
        ),
    ),
)
JOB_OMIT = frozenset(
    (
        "ID",
        "Status",
        "StatusDescription",
        "Version",
        "Stable",
        "CreateIndex",
        "ModifyIndex",
        "JobModifyIndex",
        "SubmitTime",
        "NomadTokenID",
        "DispatchIdempotencyToken",
        "UI",
        "Multiregion",
        "Payload",
    )
)

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
    """A list of objects, matched by a key: an object can be edited."""
    NAMED = auto()
    """A map of objects."""
    ALIKE = auto()
    """A list of services, each matched with the one most like it."""
    SET = auto()
    """A list of objects without identity: what differs is one removed and one added."""
    STRINGS = auto()
    """A list of texts, compared as a set."""
    TREE = auto()
    """A map, flattened all the way down."""
    FREE_FORM = auto()
    """The same of a map that the job's author makes up."""
    PLACED = auto()
    """A list of objects, matched by their places in it."""


@dataclass(frozen=True, slots=True)
class Shape:
    """`name` is the report's; `omit` fields are not shown; `template` are fields always shown,
    `joined` are lists shown as one text. A `plain` object is what its shown fields are: a change
    of nothing shown is no change, and one that only gains fields is added, not edited."""

    name: str
    omit: frozenset[str] = frozenset()
    template: Mapping[str, str] = field(default_factory=dict)
    joined: frozenset[str] = frozenset()
    renamed: Mapping[str, str] = field(default_factory=dict)
    plain: bool = False
    children: tuple[Child, ...] = ()


@dataclass(frozen=True, slots=True)
class Child:
    """A field (attribute of a struct, or key of a map) that holds objects."""

    attribute: str
    kind: Kind
    shape: Shape
    key: Callable[[object], str] = str
    alone: bool = False
    """Whether the only object of one side is the only one of the other, whatever its key."""
    only_changes: bool = False
    """Not shown where nothing changed, even inside an object that is shown."""
    contextual: bool = True
    """Whether its unchanged fields are shown."""


def get(value: object, path: str) -> object:
    """A field of a struct or a key of a map; `a.b` is the field `b` of the field `a`."""
    for name in path.split("."):
        value = value.get(name) if isinstance(value, Mapping) else getattr(value, name, None)
    return value


def by(name: str) -> Callable[[object], str]:
    return lambda value: str(get(value, name) or "")


def _strings(attribute: str, name: str, only_changes: bool = False) -> Child:
    return Child(attribute, Kind.STRINGS, Shape(name), only_changes=only_changes)


def _single(attribute: str, shape: Shape) -> Child:
    return Child(attribute, Kind.SINGLE, shape)


def _plain(attribute: str, name: str, *omit: str) -> Child:
    return _single(attribute, Shape(name, omit=frozenset(omit), plain=True))


CONSTRAINTS = Child("constraints", Kind.SET, Shape("Constraint", plain=True))
AFFINITIES = Child("affinities", Kind.SET, Shape("Affinity", plain=True))

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
        Child("cni.Args", Kind.TREE, Shape("CNIConfig")),
    ),
)
NETWORKS = Child("networks", Kind.SET, _NETWORK)

_CHECK = Shape(
    "Check",
    omit=frozenset(("Advertise",)),
    children=(
        Child("header", Kind.TREE, Shape("Header")),
        _single("check_restart", Shape("CheckRestart")),
    ),
)
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
_SERVICE = Shape(
    "Service",
    template={"Cluster": "default", "Namespace": "default", "AddressMode": "auto"},
    omit=frozenset(("Connect", "Weights", "Identity")),
    children=(
        _strings("canary_tags", "CanaryTags"),
        _strings("tags", "Tags"),
        Child("checks", Kind.KEYED, _CHECK, by("name")),
        Child("connect", Kind.TREE, Shape("ConsulConnect")),
        Child("weights", Kind.TREE, Shape("Weights")),
        _single("identity", _IDENTITY),
    ),
)
SERVICES = Child("services", Kind.ALIKE, _SERVICE)

_RESOURCES = Shape(
    "Resources",
    children=(
        Child("networks", Kind.SET, _NETWORK),
        Child("devices", Kind.KEYED, Shape("Device"), by("name")),
        _single("numa", Shape("NUMA", children=(_strings("devices", "Devices"),))),
    ),
)
_TEMPLATE = Shape(
    "Template",
    omit=frozenset(("Wait",)),
    children=(
        _single("change_script", Shape("ChangeScript", children=(_strings("args", "Args"),))),
        Child("wait", Kind.TREE, Shape("Template")),
    ),
)

TASK_CHILDREN = (
    CONSTRAINTS,
    AFFINITIES,
    Child("config", Kind.FREE_FORM, Shape("Config")),
    _single("resources", _RESOURCES),
    _plain("log_config", "LogConfig", "Enabled"),
    _plain("dispatch_payload", "DispatchPayload"),
    Child("artifacts", Kind.KEYED, Shape("Artifact", plain=True), by("relative_dest")),
    SERVICES,
    Child("vault", Kind.TREE, Shape("Vault")),
    _plain("consul", "Consul"),
    Child("templates", Kind.KEYED, _TEMPLATE, by("dest_path"), alone=True),
    _single("identity", _IDENTITY),
    Child("identities", Kind.KEYED, _IDENTITY, by("Name")),
    Child(
        "actions",
        Kind.PLACED,
        Shape("Action", children=(_strings("args", "Args"),)),
    ),
    Child("volume_mounts", Kind.PLACED, Shape("VolumeMount")),
    Child("schedule", Kind.TREE, Shape("Schedule")),
    Child("secrets", Kind.KEYED, Shape("Secret"), by("Name")),
)
TASK_OMIT = frozenset(
    ("Name", "Config", "Vault", "Consul", "CSIPluginConfig", "Identity", "Schedule")
)

_MOUNT_OPTIONS = Shape("MountOptions", children=(_strings("mount_flags", "MountFlags"),))
_SCALING = Child(
    "scaling",
    Kind.SINGLE,
    Shape(
        "Scaling",
        omit=frozenset(
            ("ID", "Namespace", "Type", "Target", "Policy", "CreateIndex", "ModifyIndex")
        ),
        plain=True,
        children=(Child("policy", Kind.FREE_FORM, Shape("Policy")),),
    ),
    contextual=False,
)
GROUP_CHILDREN = (
    CONSTRAINTS,
    AFFINITIES,
    _plain("restart_policy", "RestartPolicy"),
    _plain("migrate", "Migrate"),
    _plain("reschedule_policy", "ReschedulePolicy"),
    _plain("ephemeral_disk", "EphemeralDisk"),
    _plain("consul", "Consul"),
    _plain("update", "Update", "Stagger"),
    _single("disconnect", Shape("Disconnect", template={"StopOnClientAfter": "nil"})),
    NETWORKS,
    _SCALING,
    SERVICES,
    Child(
        "volumes",
        Kind.NAMED,
        Shape("Volume", children=(_single("mount_options", _MOUNT_OPTIONS),)),
        by("name"),
    ),
)
GROUP_OMIT = frozenset(("Name", "Consul"))
GROUP_OPTIONAL = frozenset(
    ("MaxClientDisconnect", "MaxRunDuration", "ShutdownDelay", "StopAfterClientDisconnect")
)
"""Not shown of a group that is new or gone."""

_LINK = Shape("Link", renamed={"URL": "Url"}, plain=True)
JOB_CHILDREN = (
    _strings("datacenters", "Datacenters", only_changes=True),
    CONSTRAINTS,
    AFFINITIES,
    _single(
        "periodic", Shape("Periodic", children=(_strings("specs", "Specs", only_changes=True),))
    ),
    _single(
        "parameterized_job",
        Shape(
            "ParameterizedJob",
            children=(
                _strings("meta_optional", "MetaOptional"),
                _strings("meta_required", "MetaRequired"),
            ),
        ),
    ),
    Child("multiregion", Kind.TREE, Shape("Multiregion")),
    _single(
        "ui",
        Shape(
            "UI",
            template={"Description": ""},
            children=(Child("Links", Kind.PLACED, _LINK),),
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
        "ConsulNamespace",
    )
)

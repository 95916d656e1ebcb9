"""The special cases as data: how each kind of object inside a job is reported.

What is not listed here is reported by the generic rules alone.
"""

from __future__ import annotations

from orchgit.jobdiff.connect_shapes import CONNECT
from orchgit.jobdiff.shape import Child, Kind, Shape, by, strings


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
    children=(strings("Audience", "Audience"),),
)
_SERVICE = Shape(
    "Service",
    template={"Cluster": "default", "Namespace": "default", "AddressMode": "auto"},
    omit=frozenset(("Connect", "Weights", "Identity")),
    children=(
        strings("canary_tags", "CanaryTags"),
        strings("tags", "Tags"),
        Child("checks", Kind.KEYED, _CHECK, by("name")),
        CONNECT,
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
        _single("numa", Shape("NUMA", children=(strings("devices", "Devices"),))),
    ),
)
_TEMPLATE = Shape(
    "Template",
    omit=frozenset(("Wait",)),
    children=(
        _single("change_script", Shape("ChangeScript", children=(strings("args", "Args"),))),
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
        Shape("Action", children=(strings("args", "Args"),)),
    ),
    Child("volume_mounts", Kind.PLACED, Shape("VolumeMount")),
    Child("schedule", Kind.TREE, Shape("Schedule")),
    Child("secrets", Kind.KEYED, Shape("Secret"), by("Name")),
)
TASK_OMIT = frozenset(
    ("Name", "Config", "Vault", "Consul", "CSIPluginConfig", "Identity", "Schedule")
)

_MOUNT_OPTIONS = Shape("MountOptions", children=(strings("mount_flags", "MountFlags"),))
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
    strings("datacenters", "Datacenters", only_changes=True),
    CONSTRAINTS,
    AFFINITIES,
    _single(
        "periodic", Shape("Periodic", children=(strings("specs", "Specs", only_changes=True),))
    ),
    _single(
        "parameterized_job",
        Shape(
            "ParameterizedJob",
            children=(
                strings("meta_optional", "MetaOptional"),
                strings("meta_required", "MetaRequired"),
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

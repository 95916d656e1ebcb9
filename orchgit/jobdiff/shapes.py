"""The special cases as data: how each kind of object inside a job is reported.

What is not listed here is reported by the generic rules alone.
"""

from __future__ import annotations

from orchgit.jobdiff.connect_shapes import CONNECT
from orchgit.jobdiff.shape import Matching, ObjectField, ObjectShape, by, strings


def _single(attribute: str, shape: ObjectShape) -> ObjectField:
    return ObjectField(attribute, Matching.SINGLE, shape)


def _plain(attribute: str, name: str, *omit: str) -> ObjectField:
    return _single(attribute, ObjectShape(name, omit=frozenset(omit), plain=True))


CONSTRAINTS = ObjectField("constraints", Matching.SET, ObjectShape("Constraint", plain=True))
AFFINITIES = ObjectField("affinities", Matching.SET, ObjectShape("Affinity", plain=True))

_PORT_TEMPLATE = {"HostNetwork": "default"}
_NETWORK = ObjectShape(
    "Network",
    omit=frozenset(("Device", "CIDR", "IP", "MBits")),
    objects=(
        ObjectField(
            "reserved_ports", Matching.SET, ObjectShape("Static Port", template=_PORT_TEMPLATE)
        ),
        ObjectField(
            "dynamic_ports",
            Matching.SET,
            ObjectShape(
                "Dynamic Port",
                omit=frozenset(("Value", "IgnoreCollision")),
                template=_PORT_TEMPLATE,
            ),
        ),
        _single("dns", ObjectShape("DNS", joined=frozenset(("Servers", "Searches", "Options")))),
        ObjectField("cni.Args", Matching.TREE, ObjectShape("CNIConfig")),
    ),
)
NETWORKS = ObjectField("networks", Matching.SET, _NETWORK)

_CHECK = ObjectShape(
    "Check",
    omit=frozenset(("Advertise",)),
    objects=(
        ObjectField("header", Matching.TREE, ObjectShape("Header")),
        _single("check_restart", ObjectShape("CheckRestart")),
    ),
)
_IDENTITY = ObjectShape(
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
    objects=(strings("Audience", "Audience"),),
)
_SERVICE = ObjectShape(
    "Service",
    template={"Cluster": "default", "Namespace": "default", "AddressMode": "auto"},
    omit=frozenset(("Connect", "Weights", "Identity")),
    objects=(
        strings("canary_tags", "CanaryTags"),
        strings("tags", "Tags"),
        ObjectField("checks", Matching.KEYED, _CHECK, by("name")),
        CONNECT,
        ObjectField("weights", Matching.TREE, ObjectShape("Weights")),
        _single("identity", _IDENTITY),
    ),
)
SERVICES = ObjectField("services", Matching.ALIKE, _SERVICE)

_RESOURCES = ObjectShape(
    "Resources",
    objects=(
        ObjectField("networks", Matching.SET, _NETWORK),
        ObjectField("devices", Matching.KEYED, ObjectShape("Device"), by("name")),
        _single("numa", ObjectShape("NUMA", objects=(strings("devices", "Devices"),))),
    ),
)
_TEMPLATE = ObjectShape(
    "Template",
    omit=frozenset(("Wait",)),
    objects=(
        _single("change_script", ObjectShape("ChangeScript", objects=(strings("args", "Args"),))),
        ObjectField("wait", Matching.TREE, ObjectShape("Template")),
    ),
)

TASK_OBJECTS = (
    CONSTRAINTS,
    AFFINITIES,
    ObjectField("config", Matching.FREE_FORM, ObjectShape("Config")),
    _single("resources", _RESOURCES),
    _plain("log_config", "LogConfig", "Enabled"),
    _plain("dispatch_payload", "DispatchPayload"),
    ObjectField(
        "artifacts", Matching.KEYED, ObjectShape("Artifact", plain=True), by("relative_dest")
    ),
    SERVICES,
    ObjectField("vault", Matching.TREE, ObjectShape("Vault")),
    _plain("consul", "Consul"),
    ObjectField("templates", Matching.KEYED, _TEMPLATE, by("dest_path"), alone=True),
    _single("identity", _IDENTITY),
    ObjectField("identities", Matching.KEYED, _IDENTITY, by("Name")),
    ObjectField(
        "actions",
        Matching.PLACED,
        ObjectShape("Action", objects=(strings("args", "Args"),)),
    ),
    ObjectField("volume_mounts", Matching.PLACED, ObjectShape("VolumeMount")),
    ObjectField("schedule", Matching.TREE, ObjectShape("Schedule")),
    ObjectField("secrets", Matching.KEYED, ObjectShape("Secret"), by("Name")),
)
TASK_OMIT = frozenset(
    ("Name", "Config", "Vault", "Consul", "CSIPluginConfig", "Identity", "Schedule")
)

_MOUNT_OPTIONS = ObjectShape("MountOptions", objects=(strings("mount_flags", "MountFlags"),))
_SCALING = ObjectField(
    "scaling",
    Matching.SINGLE,
    ObjectShape(
        "Scaling",
        omit=frozenset(
            ("ID", "Namespace", "Type", "Target", "Policy", "CreateIndex", "ModifyIndex")
        ),
        plain=True,
        objects=(ObjectField("policy", Matching.FREE_FORM, ObjectShape("Policy")),),
    ),
    contextual=False,
)
GROUP_OBJECTS = (
    CONSTRAINTS,
    AFFINITIES,
    _plain("restart_policy", "RestartPolicy"),
    _plain("migrate", "Migrate"),
    _plain("reschedule_policy", "ReschedulePolicy"),
    _plain("ephemeral_disk", "EphemeralDisk"),
    _plain("consul", "Consul"),
    _plain("update", "Update", "Stagger"),
    _single("disconnect", ObjectShape("Disconnect", template={"StopOnClientAfter": "nil"})),
    NETWORKS,
    _SCALING,
    SERVICES,
    ObjectField(
        "volumes",
        Matching.NAMED,
        ObjectShape("Volume", objects=(_single("mount_options", _MOUNT_OPTIONS),)),
        by("name"),
    ),
)
GROUP_OMIT = frozenset(("Name", "Consul"))
GROUP_OPTIONAL = frozenset(
    ("MaxClientDisconnect", "MaxRunDuration", "ShutdownDelay", "StopAfterClientDisconnect")
)
"""Not shown of a group that is new or gone."""

_LINK = ObjectShape("Link", renamed={"URL": "Url"}, plain=True)
JOB_OBJECTS = (
    strings("datacenters", "Datacenters", only_changes=True),
    CONSTRAINTS,
    AFFINITIES,
    _single(
        "periodic", ObjectShape("Periodic", objects=(strings("specs", "Specs", only_changes=True),))
    ),
    _single(
        "parameterized_job",
        ObjectShape(
            "ParameterizedJob",
            objects=(
                strings("meta_optional", "MetaOptional"),
                strings("meta_required", "MetaRequired"),
            ),
        ),
    ),
    ObjectField("multiregion", Matching.TREE, ObjectShape("Multiregion")),
    _single(
        "ui",
        ObjectShape(
            "UI",
            template={"Description": ""},
            objects=(ObjectField("Links", Matching.PLACED, _LINK),),
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

"""The keys of a job that are accepted and have no effect on a node of orchgit, in one table.

`lint`, `job validate`, `job plan` and `job run` warn of what a job sets of them; docs/agent.md has
the same table.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache

import msgspec

from jobspec.rules.findings import Path
from orchgit.model.job import Job
from orchgit.model.service import Service
from orchgit.model.task import Task

_CONSUL = "it is Consul's"
_MESH = "there is no service mesh"


@dataclass(frozen=True, slots=True)
class KeyWithoutEffect:
    """`key` is the path in a job file, `place` the path in the API."""

    key: str
    place: str
    why: str
    driver: str = ""
    """The only driver whose tasks do not heed the key; "" is every driver."""
    provider: str = ""
    """The only provider whose services do not heed the key."""
    defaults: tuple[object, ...] = ()
    """Values that stand in a job that does not set the key, beside empty ones."""
    warned_of: bool = False
    """Whether the rules of `warnings.py`, in Nomad's words, name it already."""
    api_is_silent: bool = False
    """Whether only `lint` warns: the API's answer was recorded without a warning."""
    is_dropped: bool = False
    """Whether the key is only in what was written, since the server's job has no room for it."""

    @property
    def message(self) -> str:
        of_driver = f" with driver {self.driver}" if self.driver else ""
        of_provider = f" with provider {self.provider}" if self.provider else ""
        return f"{self.key} has no effect{of_driver}{of_provider}: {self.why}"


_SERVICE_KEYS = (
    ("enable_tag_override", "EnableTagOverride", "tags change with the job only", "nomad"),
    ("tagged_addresses", "TaggedAddresses", _CONSUL, "nomad"),
    ("weights", "Weights", _CONSUL, "nomad"),
    ("kind", "Kind", _MESH, ""),
    ("check.expose", "Checks.Expose", _MESH, ""),
    ("check.notes", "Checks.Notes", _CONSUL, "nomad"),
    ("check.failures_before_warning", "Checks.FailuresBeforeWarning", _CONSUL, "nomad"),
)
_MOCK_KEYS = (
    ("user", "User"),
    ("volume_mount", "VolumeMounts"),
    ("resources.device", "Resources.Devices"),
)

KEYS_WITHOUT_EFFECT: tuple[KeyWithoutEffect, ...] = (
    KeyWithoutEffect("multiregion", "Multiregion", "a job runs in one region", api_is_silent=True),
    *(
        KeyWithoutEffect(
            f"{owner}service.{key}", f"{place}.Services.{name}", why, provider=provider
        )
        for owner, place in (("group.", "TaskGroups"), ("group.task.", "TaskGroups.Tasks"))
        for key, name, why, provider in _SERVICE_KEYS
    ),
    KeyWithoutEffect(
        "group.network.mbits",
        "TaskGroups.Networks.MBits",
        "bandwidth is not reserved",
        warned_of=True,
    ),
    KeyWithoutEffect("group.task.kind", "TaskGroups.Tasks.Kind", _MESH),
    KeyWithoutEffect(
        "group.task.scaling",
        "TaskGroups.Tasks.ScalingPolicies",
        "an autoscaler reads scaling of groups only",
    ),
    KeyWithoutEffect(
        "group.task.resources.iops",
        "TaskGroups.Tasks.Resources.IOPS",
        "it is not reserved",
        warned_of=True,
    ),
    KeyWithoutEffect(
        "group.task.resources.disk",
        "TaskGroups.Tasks.Resources.DiskMB",
        "write ephemeral_disk in the group",
        api_is_silent=True,
        is_dropped=True,
    ),
    KeyWithoutEffect(
        "group.task.template.vault_grace",
        "TaskGroups.Tasks.Templates.VaultGrace",
        "secrets are read again when they change",
        warned_of=True,
    ),
    KeyWithoutEffect(
        "group.task.vault.allow_token_expiration",
        "TaskGroups.Tasks.Vault.AllowTokenExpiration",
        "a token is renewed as long as the task runs",
    ),
    KeyWithoutEffect(
        "group.task.volume_mount.selinux_label",
        "TaskGroups.Tasks.VolumeMounts.SELinuxLabel",
        "mounts are not labelled",
    ),
    KeyWithoutEffect(
        "group.task.volume_mount.propagation_mode",
        "TaskGroups.Tasks.VolumeMounts.PropagationMode",
        "mounts are private to the task",
        defaults=("private",),
    ),
    KeyWithoutEffect(
        "group.task.volume_mount.read_only",
        "TaskGroups.Tasks.VolumeMounts.ReadOnly",
        "its tasks see the node's own files, and the volume as a link",
        driver="raw_exec",
    ),
    KeyWithoutEffect(
        "group.task.csi_plugin.mount_dir",
        "TaskGroups.Tasks.CSIPluginConfig.MountDir",
        "its task finds the socket by CSI_ENDPOINT",
        driver="raw_exec",
        defaults=("/csi",),
    ),
    KeyWithoutEffect(
        "group.task.csi_plugin.stage_publish_base_dir",
        "TaskGroups.Tasks.CSIPluginConfig.StagePublishBaseDir",
        "volumes are staged and published in the agent's data_dir",
        driver="raw_exec",
        defaults=("/local/csi",),
    ),
    *(
        KeyWithoutEffect(
            f"group.task.{key}",
            f"TaskGroups.Tasks.{name}",
            "it runs nothing",
            driver="mock_driver",
        )
        for key, name in _MOCK_KEYS
    ),
)


@dataclass(frozen=True, slots=True)
class FoundKey:
    """A key without effect that a job sets, and where in the API's shape."""

    key: KeyWithoutEffect
    place: Path


def keys_without_effect(job: Job) -> Iterator[FoundKey]:
    """Yields what the job sets and no other warning names."""
    for key in (each for each in KEYS_WITHOUT_EFFECT if not (each.warned_of or each.is_dropped)):
        for place in _set_places(job, key.place.split("."), (), key):
            yield FoundKey(key, place)


def dropped_keys(spec: dict[str, object]) -> Iterator[FoundKey]:
    """Yields what a parsed job file sets and the server's job does not have."""
    for key in (each for each in KEYS_WITHOUT_EFFECT if each.is_dropped):
        for place in _set_places(spec, key.place.split("."), (), key):
            yield FoundKey(key, place)


def _set_places(
    value: object, names: list[str], place: Path, key: KeyWithoutEffect
) -> Iterator[Path]:
    if isinstance(value, list):
        for at, each in enumerate(value):
            yield from _set_places(each, names, (*place, at), key)
        return
    if not names:
        if value and value not in key.defaults:
            yield place
        return
    if isinstance(value, Task) and key.driver not in ("", value.driver):
        return
    if isinstance(value, Service) and key.provider not in ("", value.provider):
        return
    name, *rest = names
    if isinstance(value, dict) and name in value:
        yield from _set_places(value[name], rest, (*place, name), key)
    if isinstance(value, msgspec.Struct):
        field = _fields(type(value)).get(name)
        if field is not None:
            yield from _set_places(getattr(value, field), rest, (*place, name), key)


@cache
def _fields(struct: type[msgspec.Struct]) -> dict[str, str]:
    """The fields of a struct by their names in the API; msgspec finds them anew at each call."""
    return {each.encode_name: each.name for each in msgspec.structs.fields(struct)}

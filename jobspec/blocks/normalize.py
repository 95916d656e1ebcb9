"""The changes that Nomad's parser makes after decoding: fields filled in, and fields moved."""

from __future__ import annotations

from typing import Any

from jobspec.blocks.decode import Decoder
from jobspec.blocks.table import TABLES

_SECOND_NS = 1_000_000_000
_TEMPLATE = {
    "ChangeMode": "restart",
    "Perms": "0644",
    "Splay": 5 * _SECOND_NS,
    "ErrMissingKey": False,
}
_CHANGE_SCRIPT = {
    "Args": [],
    "Timeout": 5 * _SECOND_NS,
    "FailOnError": False,
    "RunOnFirstRender": False,
}
_VAULT = {"Env": True, "DisableFile": False, "ChangeMode": "restart"}
_SCALING_TYPES = {"cpu": "vertical_cpu", "mem": "vertical_mem"}


def normalize_job(job: dict[str, Any], label: str, decoder: Decoder) -> dict[str, Any]:
    """Completes a decoded job in place; `label` is its default id and name."""
    for key in ("ID", "Name"):
        if job[key] is None:
            job[key] = label
    periodic = job["Periodic"]
    if periodic is not None and (periodic["Spec"] is not None or periodic["Specs"] is not None):
        periodic["SpecType"] = "cron"
    _own_groups(job)
    vault, secrets = job.pop("Vault", None), job.pop("Secrets", None)
    for group in job["TaskGroups"] or ():
        _normalize_group(group, vault, secrets, decoder)
    return job


def _own_groups(job: dict[str, Any]) -> None:
    """A task right below the job is a group of its own, before the written ones."""
    tasks = job.pop("Tasks", None)
    if not tasks:
        return
    own = [{**TABLES["group"].empty, "Name": task["Name"], "Tasks": [task]} for task in tasks]
    job["TaskGroups"] = own + (job["TaskGroups"] or [])


def _normalize_group(
    group: dict[str, Any],
    job_vault: dict[str, Any] | None,
    job_secrets: list[Any] | None,
    decoder: Decoder,
) -> None:
    vault = group.pop("Vault", None) or job_vault
    group_secrets = group.pop("Secrets", None)
    if group["Scaling"] is not None:
        _group_scaling(group["Scaling"], decoder)
    for network in group["Networks"] or ():
        _split_ports(network)
    for task in group["Tasks"] or ():
        _normalize_task(task, decoder)
        if task["Vault"] is None and vault is not None:
            task["Vault"] = dict(vault)
        if task["Vault"] is not None:
            _fill(task["Vault"], _VAULT)
        task["Secrets"] = _secrets(task["Secrets"], group_secrets, job_secrets)


def _secrets(
    own: list[Any] | None, group: list[Any] | None, job: list[Any] | None
) -> list[Any] | None:
    """Nomad adds a task's own secrets again where it means to add its group's."""
    combined = list(own or [])
    if group:
        combined += own or group
    combined += job or []
    return combined or None


def _split_ports(network: dict[str, Any]) -> None:
    """Ports with a static number are reserved ones, and replace written `reserved_ports`."""
    ports = network["DynamicPorts"]
    if not ports:
        return
    network["ReservedPorts"] = [port for port in ports if port["Value"] > 0] or None
    network["DynamicPorts"] = [port for port in ports if port["Value"] <= 0] or None


def _normalize_task(task: dict[str, Any], decoder: Decoder) -> None:
    if "CSIPluginConfig" in task:
        keys = list(task)
        keys.remove("CSIPluginConfig")
        keys.insert(keys.index("VolumeMounts") + 1, "CSIPluginConfig")
        items = {key: task[key] for key in keys}
        task.clear()
        task.update(items)
    for template in task["Templates"] or ():
        _fill(template, _TEMPLATE)
        if template["ChangeScript"] is not None:
            _fill(template["ChangeScript"], _CHANGE_SCRIPT)
    if task["Identities"]:
        _default_identity(task)
    resources = task["Resources"]
    for network in (resources or {}).get("Networks") or ():
        _split_ports(network)
    if task["ScalingPolicies"]:
        _task_scaling(task["ScalingPolicies"], decoder)


def _default_identity(task: dict[str, Any]) -> None:
    identities = task["Identities"]
    for index, identity in enumerate(identities):
        if identity["Name"] in ("", "default"):
            task["Identity"] = identity
            task["Identities"] = identities[:index] + identities[index + 1 :]
            return


def _fill(target: dict[str, Any], defaults: dict[str, Any]) -> None:
    for key, value in defaults.items():
        if target[key] is None:
            target[key] = list(value) if isinstance(value, list) else value


def _group_scaling(policy: dict[str, Any], decoder: Decoder) -> None:
    if policy["Type"] == "":
        policy["Type"] = "horizontal"
    elif policy["Type"] != "horizontal":
        origin = decoder.origins.find(policy)
        assert origin is not None
        expr = origin[0].body.attributes["type"].expr
        decoder.diagnostics.report(
            f'Invalid group scaling type: "{policy["Type"]}"; a group scales "horizontal"ly.',
            expr.start,
            expr.end,
        )


def _task_scaling(policies: list[dict[str, Any]], decoder: Decoder) -> None:
    first: dict[str, int] = {}
    for policy in policies:
        origin = decoder.origins.find(policy)
        assert origin is not None
        block = origin[0].block
        label = origin[0].labels[0].value.lower() if origin[0].labels else ""
        expected = _SCALING_TYPES.get(label)
        if expected is None:
            decoder.diagnostics.report(
                f'Invalid scaling policy name: "{label}"; it must be "cpu" or "mem".',
                block.start,
                block.end,
            )
        elif label in first:
            line, column = decoder.diagnostics.source.position(first[label])
            decoder.diagnostics.report(
                f'Duplicate scaling "{label}" block: only one is allowed; another was defined at '
                f"line {line}, column {column}.",
                block.start,
                block.end,
            )
        elif policy["Type"] not in ("", expected):
            decoder.diagnostics.report(
                f'Invalid scaling policy type: expected "{expected}", found "{policy["Type"]}".',
                block.start,
                block.end,
            )
        else:
            policy["Type"] = expected
        first.setdefault(label, block.start)

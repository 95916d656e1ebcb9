"""The API's tree to the typed job that the server stores.

What clients may leave out gets its default here once and for all, older spellings are translated,
and a value of the wrong type is an InvalidInputError that names its path.
"""

from __future__ import annotations

from typing import Any

import msgspec

from jobspec.blocks.api_shape import ApiShape, shape_of
from jobspec.canonical.stored_form import as_stored
from orchgit.errors import InvalidInputError
from orchgit.model.job import Job
from orchgit.whole_number import settle_numbers, too_large_at

Spec = dict[str, Any]

_KEPT_AS_GIVEN = {
    "CNI",
    "CSIPluginConfig",
    "Config",
    "Connect",
    "Consul",
    "Identities",
    "Identity",
    "Multiregion",
    "ScalingPolicies",
    "Schedule",
    "Secrets",
    "UI",
    "Vault",
    "Wait",
}
"""What the model keeps as a tree of its own, nulls and all."""


def typed_job(canonical: Spec) -> Job:
    """The model of a canonical tree; the tree is used up."""
    if not canonical["Datacenters"]:
        canonical["Datacenters"] = ["*"]
    canonical["Priority"] = canonical["Priority"] or 50
    canonical["NodePool"] = canonical["NodePool"] or "default"
    if canonical["ParameterizedJob"] is not None:
        parameterized = canonical["ParameterizedJob"]
        parameterized["Payload"] = parameterized["Payload"] or "optional"
    if not settle_numbers(as_stored(canonical)):
        place = too_large_at(canonical)
        raise InvalidInputError(f"cannot read Job{place}: the number is beyond 64 bits")
    for group in canonical["TaskGroups"] or ():
        _group(group, canonical)
    try:
        return msgspec.convert(_pruned(canonical, shape_of("job")), Job)
    except msgspec.ValidationError as error:
        what, _, path = str(error).partition(" - at `$")
        where = f"Job{path.rstrip('`')}"
        raise InvalidInputError(f"cannot read {where}: {what[:1].lower()}{what[1:]}") from None


def _pruned(tree: Spec, shape: ApiShape) -> Spec:
    """Leaves out nulls, so that the model's own defaults replace them."""
    nested = shape.nested
    return {
        key: _nested(value, nested[key][1])
        if key in nested and key not in _KEPT_AS_GIVEN
        else value
        for key, value in tree.items()
        if value is not None
    }


def _nested(value: Any, inside: ApiShape) -> Any:
    if isinstance(value, list):
        return [_pruned(item, inside) for item in value]
    if inside is shape_of("volume") or inside is shape_of("bind_address"):
        return {name: _pruned(item, inside) for name, item in value.items()}
    return _pruned(value, inside)


def _group(group: Spec, job: Spec) -> None:
    _old_disconnect(group)
    names = {
        "JOB": job["Name"],
        "TASKGROUP": group["Name"],
        "BASE": f"{job['Name']}-{group['Name']}",
    }
    for service in group["Services"] or ():
        _service(service, job, names)
    for task in group["Tasks"] or ():
        task_names = {**names, "TASK": task["Name"], "BASE": f"{names['BASE']}-{task['Name']}"}
        for service in task["Services"] or ():
            _service(service, job, task_names)
        # Disk is the group's to ask for; what a task asks is left out, as Nomad does.
        task["Resources"]["DiskMB"] = 0
    if group["Scaling"] is not None and group["Scaling"]["Target"] is None:
        group["Scaling"]["Target"] = {
            "Namespace": job["Namespace"],
            "Job": job["ID"],
            "Group": group["Name"],
        }


def _old_disconnect(group: Spec) -> None:
    """The fields that came before the `disconnect` block, as that block."""
    lost_after = group["MaxClientDisconnect"]
    stop_after = group["StopAfterClientDisconnect"]
    prevent = group["PreventRescheduleOnLost"]
    if group["Disconnect"] is not None or not (lost_after or stop_after or prevent):
        return
    group["Disconnect"] = {
        "LostAfter": lost_after,
        "StopOnClientAfter": stop_after,
        "Replace": not prevent,
        "Reconcile": "best_score",
    }


def _service(service: Spec, job: Spec, names: dict[str, str]) -> None:
    service["Name"] = _with_names(service["Name"], names)
    if service["Provider"] == "nomad":
        service["Namespace"] = job["Namespace"]
    for check in service["Checks"] or ():
        check["Name"] = check["Name"] or f'service: "{service["Name"]}" check'


def _with_names(text: Any, names: dict[str, str]) -> Any:
    if isinstance(text, str) and "${" in text:
        for name, value in names.items():
            text = text.replace(f"${{{name}}}", str(value))
    return text

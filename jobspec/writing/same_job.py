"""Compares what two API trees ask for, without the fields that servers fill in."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from jobspec.blocks.api_shape import complete, shape_of
from jobspec.canonicalize import to_job

_SERVER_FIELDS = (
    "Status", "StatusDescription", "Stop", "Stable", "Version", "SubmitTime", "CreateIndex",
    "ModifyIndex", "JobModifyIndex", "Origin", "VersionTag", "ParentID", "Dispatched", "Payload",
    "DispatchIdempotencyToken", "NomadTokenID", "ConsulNamespace", "VaultNamespace",
)  # fmt: skip


_STORED_POLICY = {"ID": "", "Namespace": "", "Target": None, "CreateIndex": 0, "ModifyIndex": 0}
_ADDED_IDENTITY = {"Name": "default", "Audience": ["nomadproject.io"]}


def without_additions(spec: dict[str, Any]) -> dict[str, Any]:
    """A complete API tree without what Nomad's servers add to every job that they store.

    These are each task's default identity, the ids and targets of scaling policies, and a job's
    `Update` that has only the old fields, the groups' own being complete.
    """
    groups = [
        {
            **group,
            "Scaling": group["Scaling"] and {**group["Scaling"], **_STORED_POLICY},
            "Tasks": [_without_added(task) for task in group["Tasks"] or []] or None,
        }
        for group in spec["TaskGroups"] or []
    ]
    update = spec["Update"]
    is_remnant = update is not None and update["HealthCheck"] == ""
    return {**spec, "TaskGroups": groups or None, "Update": None if is_remnant else update}


def _without_added(task: dict[str, Any]) -> dict[str, Any]:
    policies = [{**policy, **_STORED_POLICY} for policy in task["ScalingPolicies"] or ()]
    task = {**task, "ScalingPolicies": policies or None}
    said = {key: value for key, value in (task["Identity"] or {}).items() if value}
    return {**task, "Identity": None} if said == _ADDED_IDENTITY else task


def difference(one: Mapping[str, Any], other: Mapping[str, Any]) -> str:
    """Returns the first part, such as `TaskGroups[0].Count`, in which the jobs differ; '' if none.

    Raises InvalidInputError for a tree that is no job.
    """
    return _first(_asked(one), _asked(other), "")


def _asked(spec: Mapping[str, Any]) -> dict[str, Any]:
    whole = complete(dict(spec), shape_of("job"))
    tree: dict[str, Any] = msgspec.to_builtins(to_job(without_additions(whole)))
    return {key: value for key, value in tree.items() if key not in _SERVER_FIELDS}


def _first(one: Any, other: Any, path: str) -> str:
    if one == other or (_is_float(one, other) and float(one) == float(other)):
        return ""
    if isinstance(one, dict) and isinstance(other, dict):
        for key in {**one, **other}:
            found = _first(one.get(key), other.get(key), f"{path}.{key}".lstrip("."))
            if found:
                return found
        return ""
    if isinstance(one, list) and isinstance(other, list) and len(one) == len(other):
        pairs = enumerate(zip(one, other, strict=True))
        return next(filter(None, (_first(a, b, f"{path}[{i}]") for i, (a, b) in pairs)), "")
    if not one and not other and not isinstance(one, int) and not isinstance(other, int):
        return ""  # nothing said in two ways: null, an empty list, an empty text
    return path


def _is_float(one: Any, other: Any) -> bool:
    """Beyond 64 bits a JSON number is a double, however many digits are written."""
    return (
        isinstance(one, (int, float))
        and isinstance(other, (int, float))
        and (isinstance(one, float) or isinstance(other, float))
    )

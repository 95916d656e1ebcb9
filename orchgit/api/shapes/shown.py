"""How stored objects look in answers: Nomad's rules for keys that are not set.

A model's struct holds every field. Nomad leaves some keys out when they are not set, writes null
for empty lists of a job, and hides what another key says already. The tables of this module hold
these rules; `shown` applies them wherever such a struct stands in an answer.
"""

from __future__ import annotations

import types
from collections.abc import Callable
from functools import cache
from typing import Any, Union, get_args, get_origin, get_type_hints

import msgspec
from msgspec.structs import replace

from orchgit.api.shapes.payloads import packed
from orchgit.model.allocation import Allocation, DesiredTransition
from orchgit.model.base import datetime_of_ns
from orchgit.model.deployment import Deployment
from orchgit.model.evaluation import AllocMetric, Evaluation, ScoreMetaData
from orchgit.model.group import ScalingPolicy, TaskGroup, UpdateStrategy
from orchgit.model.job import Job
from orchgit.model.node import NodeNetwork
from orchgit.model.operator import SchedulerConfig
from orchgit.model.resources import (
    AllocatedPort,
    AllocatedResources,
    NetworkResource,
    Port,
    RequestedDevice,
    Resources,
)
from orchgit.model.service import Service, ServiceCheck
from orchgit.model.task import LogConfig, Task
from orchgit.model.volume import HostVolume, TaskGroupVolumeClaim
from orchgit.services.identifiers import scaling_policy_id

Struct = type[msgspec.Struct]

NO_RESOURCES = Resources(cpu=0, memory_mb=0)
NO_UPDATE = UpdateStrategy(
    stagger_ns=0,
    max_parallel=0,
    health_check="",
    min_healthy_time_ns=0,
    healthy_deadline_ns=0,
    progress_deadline_ns=0,
)


def _all_but(kind: Struct, *names: str) -> frozenset[str]:
    return frozenset(kind.__struct_fields__) - frozenset(names)


LEFT_OUT_WHEN_UNSET: dict[Struct, frozenset[str]] = {
    Evaluation: _all_but(
        Evaluation,
        *("id", "namespace", "priority", "type", "triggered_by", "job_id", "status"),
        *("create_time_ns", "modify_time_ns"),
    ),
    Allocation: frozenset(
        (
            *("desired_description", "desired_transition", "client_description", "task_states"),
            *("alloc_states", "previous_allocation", "next_allocation", "deployment_id"),
            *("deployment_status", "reschedule_tracker", "network_status", "followup_eval_id"),
            *("preempted_allocations", "preempted_by_allocation", "commit_id", "rollout_id"),
            "driver_addresses",
        )
    ),
    NetworkResource: frozenset(NetworkResource.__struct_fields__),
    Port: _all_but(Port, "label", "host_network"),
    AllocatedPort: frozenset(("to", "ignore_collision")),
    ServiceCheck: frozenset(("advertise",)),
    Service: frozenset(("check_restart",)),
    LogConfig: frozenset(("enabled",)),
    HostVolume: frozenset(("constraints", "parameters")),
    Job: frozenset(("origin",)),
    Deployment: frozenset(("commit_id", "rollout_id")),
    SchedulerConfig: frozenset(("numa_enabled",)),
    TaskGroupVolumeClaim: frozenset(("commit_id", "rollout_id")),
}
"""Fields whose key is missing while they hold nothing, among them those without a key in Nomad."""

NULL_WHEN_EMPTY: frozenset[Struct] = frozenset(
    (Job, TaskGroup, Task, Service, Resources, RequestedDevice, NodeNetwork)
)
"""Structs in which an empty list of structs is written as null."""

NEVER_SHOWN: dict[Struct, frozenset[str]] = {
    Evaluation: frozenset(("desired_updates",)),
    Allocation: frozenset(("job_version", "job_type")),
    ScalingPolicy: frozenset(("namespace",)),
}
"""Fields that another key says already: an allocation's job, a policy's target, an evaluation's
annotations."""


def _job(job: Job) -> Job:
    """Sets the update block of the job itself to what concerns all groups: zeros when it has
    none. Packs the payload of a dispatch."""
    given = job.update
    update = NO_UPDATE
    if given is not None and given.max_parallel:
        update = replace(NO_UPDATE, stagger_ns=given.stagger_ns, max_parallel=given.max_parallel)
    groups = [
        replace(group, scaling=_policy(job, group, group.scaling)) if group.scaling else group
        for group in job.task_groups
    ]
    payload = packed(job.payload) if job.payload else job.payload
    return replace(job, update=update, task_groups=groups, payload=payload)


def _policy(job: Job, group: TaskGroup, policy: ScalingPolicy) -> ScalingPolicy:
    return replace(
        policy,
        id=policy.id or scaling_policy_id(job.namespace, job.id, group.name),
        create_index=job.create_index,
        modify_index=job.job_modify_index,
    )


DEFAULT_IDENTITY: dict[str, object] = {
    "Name": "default",
    "Audience": ["nomadproject.io"],
    "ChangeMode": "",
    "ChangeSignal": "",
    "Env": False,
    "ExtraClaims": None,
    "File": False,
    "Filepath": "",
    "ServiceName": "",
    "TTL": 0,
}
"""What every task has that asks for no other; it is not stored, and left out of jobs that come
in (`jobspec.writing.same_job.without_additions`)."""


def _task(task: Task) -> Task:
    services = task.services and [replace(each, task_name=task.name) for each in task.services]
    return replace(task, services=services, identity=task.identity or DEFAULT_IDENTITY)


def _port(port: Port) -> Port:
    return port if port.host_network else replace(port, host_network="default")


def _score(score: ScoreMetaData) -> ScoreMetaData:
    scores = {name: value for name, value in score.scores.items() if name != "normalized-score"}
    return replace(score, scores=scores)


def _metric(metric: AllocMetric) -> AllocMetric:
    """Writes what was exhausted as the whole resources block of the task."""
    exhausted = metric.resources_exhausted
    if exhausted:
        whole = msgspec.to_builtins(NO_RESOURCES)
        exhausted = {task: {**whole, **found} for task, found in exhausted.items()}
    return replace(metric, resources_exhausted=exhausted)


def _evaluation(evaluation: Evaluation) -> Evaluation:
    annotations = evaluation.annotations()
    if annotations is evaluation.plan_annotations:
        return evaluation
    return replace(evaluation, plan_annotations=annotations)


def _allocated(given: AllocatedResources) -> AllocatedResources:
    """Returns the group's networks with the ports and addresses that were given."""
    ports = given.shared.ports
    return given.with_ports(ports) if ports and given.shared.networks else given


_CHANGED: dict[Struct, Callable[[Any], msgspec.Struct]] = {
    AllocatedResources: _allocated,
    Evaluation: _evaluation,
    Job: _job,
    Task: _task,
    Port: _port,
    ScoreMetaData: _score,
    AllocMetric: _metric,
}


def shown(value: Any) -> Any:
    """Returns `value` as it stands in an answer: structs with rules become dicts."""
    kind = type(value)
    if kind is dict:
        return {key: shown(each) for key, each in value.items()}
    if kind is list:
        return [shown(each) for each in value]
    if not isinstance(value, msgspec.Struct):
        return value
    plan = _plan(type(value))
    return value if plan is None else plan.view(value)


_Write = Callable[[Any], Any]


class _Plan:
    """How the fields of one struct are written; made once for each type."""

    def __init__(self, kind: Struct) -> None:
        left_out, hidden = _rule(kind, LEFT_OUT_WHEN_UNSET), _rule(kind, NEVER_SHOWN)
        hints = get_type_hints(kind)
        fields = [field for field in msgspec.structs.fields(kind) if field.name not in hidden]
        self._change = next((_CHANGED[each] for each in kind.__mro__ if each in _CHANGED), None)
        self._names = [field.name for field in fields]
        special = {name: write for name, write in _WRITTEN.items() if name in left_out}
        self._fields = [
            (
                field.encode_name,
                field.name in left_out and field.name not in special,
                special.get(field.name) or _write_of(kind, hints[field.name]),
            )
            for field in fields
        ]

    def view(self, value: msgspec.Struct) -> dict[str, Any]:
        if self._change is not None:
            value = self._change(value)
        found = {}
        values = [getattr(value, name) for name in self._names]
        for (key, left_out, write), each in zip(self._fields, values, strict=True):
            if left_out and not each:
                continue
            written = each if write is None else write(each)
            if written is not msgspec.UNSET:
                found[key] = written
        return found


def _write_of(kind: Struct, hint: Any) -> _Write | None:
    if _is_null_when_empty(kind, hint):
        return _null_when_empty
    return shown if _has_rules(hint) else None


def _null_when_empty(items: list[Any] | None) -> Any:
    return shown(items) if items else None


def _transition(wanted: DesiredTransition) -> Any:
    return msgspec.UNSET if wanted == _NO_TRANSITION else wanted


def _classes(eligible: dict[str, bool] | None) -> Any:
    """Returns an empty map where no class was looked at; absent where it was never set."""
    return msgspec.UNSET if eligible is None else eligible


def _moment(unix_ns: int) -> Any:
    return datetime_of_ns(unix_ns) if unix_ns else msgspec.UNSET


_NO_TRANSITION = DesiredTransition()
_WRITTEN: dict[str, _Write] = {
    "desired_transition": _transition,
    "class_eligibility": _classes,
    "wait_until": _moment,
}
"""Fields that may be left out, of which more than an empty value means that they are not set."""


@cache
def _plan(kind: Struct) -> _Plan | None:
    return _Plan(kind) if _has_rules(kind) else None


def _rule(kind: Struct, table: dict[Struct, frozenset[str]]) -> frozenset[str]:
    return next((table[each] for each in kind.__mro__ if each in table), frozenset())


@cache
def _has_rules(hint: Any) -> bool:
    """Returns whether a value of this type may hold a struct that a table names."""
    return any(
        each in table
        for kind in _structs_in(hint, set())
        for each in kind.__mro__
        for table in _TABLES
    )


def _structs_in(hint: Any, seen: set[Struct]) -> set[Struct]:
    """Returns every struct that a value of this type may hold, also of its own type."""
    if isinstance(hint, type) and issubclass(hint, msgspec.Struct):
        if hint not in seen:
            seen.add(hint)
            for each in get_type_hints(hint).values():
                _structs_in(each, seen)
    else:
        for each in get_args(hint):
            _structs_in(each, seen)
    return seen


_TABLES = (LEFT_OUT_WHEN_UNSET, NULL_WHEN_EMPTY, NEVER_SHOWN, _CHANGED)


def _is_null_when_empty(kind: Struct, hint: Any) -> bool:
    if not any(each in NULL_WHEN_EMPTY for each in kind.__mro__):
        return False
    optional = get_origin(hint) in (Union, types.UnionType) and type(None) in get_args(hint)
    lists = [each for each in get_args(hint) or (hint,) if get_origin(each) is list]
    return bool(lists) and (optional or kind is NodeNetwork) and _of_structs(lists[0])


def _of_structs(hint: Any) -> bool:
    (item,) = get_args(hint)
    return isinstance(item, type) and issubclass(item, msgspec.Struct)

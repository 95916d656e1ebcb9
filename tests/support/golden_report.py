"""Our outcome in the vocabulary of the recorded cases' `expect`."""

from __future__ import annotations

from collections import Counter
from typing import Any

from orchgit.model.allocation import Allocation
from orchgit.model.base import ns_of_datetime
from orchgit.model.deployment import Deployment
from orchgit.model.evaluation import AllocMetric, DesiredUpdates, Evaluation
from orchgit.model.plan import AllocUpdate, Placements, Plan
from orchgit.model.resources import AllocatedResources
from orchgit.scheduler.feasibility.targets import resolve
from tests.support.cluster import ListCluster, allocation_at
from tests.support.golden_world import Played

_COUNTERS = {
    "Ignore": "ignore",
    "Place": "place",
    "Migrate": "migrate",
    "Stop": "stop",
    "InPlaceUpdate": "in_place_update",
    "DestructiveUpdate": "destructive_update",
    "Canary": "canary",
    "Preemptions": "preemptions",
    "Disconnect": "disconnect",
    "Reconnect": "reconnect",
    "RescheduleNow": "reschedule_now",
    "RescheduleLater": "reschedule_later",
}


class Report:
    """Everything of one played case; `plan(i)` for the fields of one plan."""

    def __init__(self, case: dict[str, Any], played: Played) -> None:
        self._case = case
        self._played = played
        self._cluster: ListCluster = played.before
        self._new: dict[str, Allocation] = {}
        self._new_deployments: set[str] = set()
        for plan in played.plans:
            for columns in plan.placements:
                for row in range(len(columns)):
                    self._new[columns.alloc_ids[row]] = allocation_at(columns, row)
            if (
                plan.deployment is not None
                and plan.deployment.id not in self._cluster.deployment_table
            ):
                self._new_deployments.add(plan.deployment.id)
        followups = sorted(played.followups, key=lambda evaluation: evaluation.wait_until)
        self._followup_index = {e.id: i for i, e in enumerate(followups)}
        self._followups = followups

    # --- the evaluation -------------------------------------------------------------------

    def evaluation(self) -> dict[str, Any]:
        outcome = self._played.outcome
        ended = outcome.evaluation
        plans = self._played.plans
        annotations = plans[-1].annotations if plans else None
        report: dict[str, Any] = {
            "eval_status": ended.status,
            "eval_status_description": ended.status_description,
            "eval_deployment": self._deployment_name(ended.deployment_id),
            "eval_blocked_eval_set": bool(ended.blocked_eval),
            "queued_allocations": ended.queued_allocations or {},
            "failed_tg_allocs": {
                group: metrics_report(metric)
                for group, metric in (ended.failed_tg_allocs or {}).items()
            },
            "desired_tg_updates": {
                group: counters(desired)
                for group, desired in (
                    annotations.desired_tg_updates if annotations else {}
                ).items()
            },
            "plans": len(plans),
            "followup_evals": [self._followup(e) for e in self._followups],
            "blocked_evals": [blocked_report(outcome.blocked)] if outcome.blocked else [],
            "claims_after": self._claims(),
        }
        if ended.status == "blocked":
            report["reblocked"] = blocked_report(ended)
        return report

    def _deployment_name(self, deployment_id: str) -> str:
        return "new" if deployment_id in self._new_deployments else deployment_id

    def _followup(self, evaluation: Evaluation) -> dict[str, Any]:
        return {
            "triggered_by": evaluation.triggered_by,
            "wait_until": evaluation.wait_until,
            "wait_offset_s": (evaluation.wait_until - self._case["now"]) / 1e9,
            "status": evaluation.status,
            "status_description": evaluation.status_description,
            "priority": evaluation.priority,
            "type": evaluation.type,
            "previous_eval": evaluation.previous_eval == self._case["eval"]["ID"],
        }

    def _claims(self) -> dict[str, Any]:
        report = {}
        for claim in self._played.after.claims.values():
            new = self._new.get(claim.alloc_id)
            report[f"{claim.job_id}/{claim.task_group_name}/{claim.volume_id}"] = {
                "alloc": f"new:{new.name}" if new is not None else claim.alloc_id,
                "job": claim.job_id,
                "task_group": claim.task_group_name,
                "volume": claim.volume_id,
                "volume_name": claim.volume_name,
            }
        return report

    # --- one plan -------------------------------------------------------------------------

    def plan(self, number: int) -> dict[str, Any]:
        plan = self._played.plans[number]
        places = [
            self._place(columns, row, plan)
            for columns in plan.placements
            for row in range(len(columns))
        ]
        report: dict[str, Any] = {
            "no_op": plan.is_no_op,
            "all_at_once": plan.all_at_once,
            "stops": [self._stop(stop) for stop in plan.stops],
            "places": places,
            "updates": [self._update(update) for update in plan.updates],
            "preemptions": [
                {
                    "alloc": p.alloc_id,
                    "node": p.node_id,
                    "by": self._new[p.preempted_by].name,
                }
                for p in plan.preemptions
            ],
            "scores": self._scores(plan),
            "distribution": self._distribution(plan),
            "deployment_updates": [
                {
                    "deployment": self._deployment_name(change.deployment_id),
                    "status": change.status,
                    "status_description": change.status_description,
                }
                for change in plan.deployment_updates
            ],
        }
        if plan.deployment is not None:
            report["deployment"] = self._deployment(plan.deployment)
        return report

    def _known(self, alloc_id: str) -> Allocation:
        known = self._cluster.allocs.get(alloc_id)
        return known if known is not None else self._played.after.allocs[alloc_id]

    def _stop(self, stop: Any) -> dict[str, Any]:
        known = self._known(stop.alloc_id)
        report = self._about(known)
        report["desired_description"] = stop.desired_description
        if stop.client_status:
            report["client_status"] = stop.client_status
        if stop.followup_eval_id:
            report["followup_eval"] = self._followup_index.get(stop.followup_eval_id, -1)
        self._add_mark(report, known, stop.reschedule_tracker)
        return report

    def _add_mark(self, report: dict[str, Any], known: Allocation, tracker: Any) -> None:
        before = known.reschedule_tracker.last_reschedule if known.reschedule_tracker else ""
        if tracker is not None and tracker.last_reschedule != before:
            report["last_reschedule"] = tracker.last_reschedule

    def _about(self, allocation: Allocation) -> dict[str, Any]:
        return {
            "alloc": allocation.id,
            "name": allocation.name,
            "task_group": allocation.task_group,
            "node": allocation.node_id,
        }

    def _update(self, update: AllocUpdate) -> dict[str, Any]:
        known = self._known(update.alloc_id)
        report = self._about(known) | {"kind": _kind(update)}
        if update.client_status and update.client_status != known.client_status:
            report["client_status"] = update.client_status
        if update.record_client_status:
            report["alloc_states_appended"] = [
                {"field": 0, "time_offset_s": 0, "value": update.record_client_status}
            ]
        if update.followup_eval_id:
            report["followup_eval"] = self._followup_index.get(update.followup_eval_id, -1)
        self._add_mark(report, known, update.reschedule_tracker)
        if update.job_version is not None:
            deployment = (
                known.deployment_id if update.deployment_id is None else update.deployment_id
            )
            resources = update.allocated_resources or known.allocated_resources
            assert resources is not None
            report |= {
                "job_version": update.job_version,
                "deployment": self._deployment_name(deployment) or None,
                "deployment_status_cleared": update.clear_deployment_status,
                "resources": resources_report(resources),
            }
        return report

    def _place(self, columns: Placements, row: int, plan: Plan) -> dict[str, Any]:
        allocation = self._new[columns.alloc_ids[row]]
        resources = allocation.allocated_resources
        assert resources is not None
        report: dict[str, Any] = {
            "name": allocation.name,
            "task_group": allocation.task_group,
            "node": allocation.node_id,
            "node_name": allocation.node_name,
            "job_version": allocation.job_version,
            "canary": row in columns.canary_rows,
            "resources": resources_report(resources),
            "previous_alloc": allocation.previous_allocation or None,
            "deployment": self._deployment_name(allocation.deployment_id) or None,
            "ports": self._ports(allocation),
            "devices": _devices(resources),
            "task_networks": _task_networks(resources),
            "preempts": columns.preempts_of.get(row, []),
            "metrics": _success_metrics(allocation.metrics),
        }
        if allocation.reschedule_tracker is not None:
            report["reschedule_tracker"] = self._tracker(allocation)
        return report

    def _ports(self, allocation: Allocation) -> dict[str, Any]:
        assert allocation.allocated_resources is not None
        shared = allocation.allocated_resources.shared
        static = {
            port.label for network in shared.networks or () for port in network.reserved_ports or ()
        }
        return {
            port.label: {
                "static": port.label in static,
                "value": port.value,
                "to": "same as the port" if port.to == port.value else port.to,
                "host_ip": port.host_ip,
            }
            for port in shared.ports or ()
        }

    def _tracker(self, allocation: Allocation) -> dict[str, Any]:
        tracker = allocation.reschedule_tracker
        assert tracker is not None
        return {
            "last_reschedule": tracker.last_reschedule,
            "events": [
                {
                    "time_offset_s": (event.reschedule_time - self._case["now"]) / 1e9,
                    "prev_alloc": event.prev_alloc_id,
                    "prev_node": event.prev_node_id,
                    "delay_s": event.delay_ns / 1e9,
                }
                for event in tracker.events
            ],
        }

    def _deployment(self, deployment: Deployment) -> dict[str, Any]:
        return {
            "id": self._deployment_name(deployment.id),
            "created": deployment.id in self._new_deployments,
            "status": deployment.status,
            "status_description": deployment.status_description,
            "job_version": deployment.job_version,
            "eval_priority": deployment.eval_priority,
            "task_groups": {
                name: {
                    "desired_total": state.desired_total,
                    "desired_canaries": state.desired_canaries,
                    "placed_canaries": [
                        f"new:{self._new[i].name}" if i in self._new else i
                        for i in state.placed_canaries or ()
                    ],
                    "auto_revert": state.auto_revert,
                    "auto_promote": state.auto_promote,
                    "promoted": state.promoted,
                    "progress_deadline_s": state.progress_deadline_ns / 1e9,
                    "healthy_allocs": state.healthy_allocs,
                    "placed_allocs": state.placed_allocs,
                }
                for name, state in deployment.task_groups.items()
            },
        }

    def _scores(self, plan: Plan) -> dict[str, Any]:
        scores = {}
        for columns in plan.placements:
            for row in range(len(columns)):
                allocation = self._new[columns.alloc_ids[row]]
                meta = allocation.metrics.score_meta_data or [] if allocation.metrics else []
                scores[allocation.name] = {entry.node_id: entry.scores for entry in meta}
        return scores

    def _distribution(self, plan: Plan) -> dict[str, Any]:
        stopped = {stop.alloc_id for stop in plan.stops}
        report: dict[str, Any] = {}
        key = (self._case["eval"]["Namespace"], self._case["eval"]["JobID"])
        groups = {columns.task_group for columns in plan.placements}
        for group in groups:
            placed = [
                self._new[i] for c in plan.placements if c.task_group == group for i in c.alloc_ids
            ]
            staying = [
                a
                for a in self._cluster.allocations_by_job(*key)
                if a.task_group == group and not a.is_terminal and a.id not in stopped
            ]
            report[group] = {
                "placed": self._spread(placed),
                "final": self._spread(placed + staying),
            }
        return report

    def _spread(self, allocations: list[Allocation]) -> dict[str, Any]:
        per_node = Counter(a.node_id for a in allocations)
        targets: dict[str, Counter[str]] = _ByTarget()
        for allocation in allocations:
            node = self._cluster.nodes[allocation.node_id]
            for target in _targets(self._case):
                value = resolve(target, node)
                targets.setdefault(target, Counter())[value or ""] += 1
        return {
            "total": len(allocations),
            "allocs_per_node": sorted(per_node.values(), reverse=True),
            "by": {target: dict(counts) for target, counts in targets.items()},
        }


class _ByTarget(dict[str, Counter[str]]):
    pass


def _targets(case: dict[str, Any]) -> set[str]:
    """The targets that the case's distribution is told by."""
    found: set[str] = set()
    expect = case["expect"]
    for plan in [expect, *expect.get("plan_seq", [])]:
        for group in plan.get("distribution", {}).values():
            for part in group.values():
                found.update(part.get("by", {}))
    return found


def counters(desired: DesiredUpdates) -> dict[str, int]:
    named = {name: getattr(desired, attribute) for name, attribute in _COUNTERS.items()}
    return {name: value for name, value in named.items() if value}


def metrics_report(metric: AllocMetric) -> dict[str, Any]:
    return {
        "NodesEvaluated": metric.nodes_evaluated,
        "NodesFiltered": metric.nodes_filtered,
        "NodesExhausted": metric.nodes_exhausted,
        "NodesInPool": metric.nodes_in_pool,
        "NodePool": metric.node_pool,
        "NodesAvailable": metric.nodes_available or {},
        "ClassFiltered": metric.class_filtered or {},
        "ConstraintFiltered": metric.constraint_filtered or {},
        "ClassExhausted": metric.class_exhausted or {},
        "DimensionExhausted": metric.dimension_exhausted or {},
        "ResourcesExhausted": metric.resources_exhausted or {},
        "CoalescedFailures": metric.coalesced_failures,
    }


def _success_metrics(metric: AllocMetric | None) -> dict[str, Any]:
    return {} if metric is None else {"nodes_evaluated": metric.nodes_evaluated}


def blocked_report(evaluation: Evaluation) -> dict[str, Any]:
    return {
        "triggered_by": evaluation.triggered_by,
        "status": evaluation.status,
        "status_description": evaluation.status_description,
        "priority": evaluation.priority,
        "previous_eval": bool(evaluation.previous_eval),
        "escaped_computed_class": evaluation.escaped_computed_class,
        "class_eligibility": evaluation.class_eligibility or {},
        "node": evaluation.node_id,
        "missing_non_node_resources": evaluation.missing_non_node_resources or [],
    }


def resources_report(resources: AllocatedResources) -> dict[str, Any]:
    tasks = {}
    for name, task in resources.tasks.items():
        report: dict[str, Any] = {
            "cpu": task.cpu.cpu_shares,
            "memory_mb": task.memory.memory_mb,
        }
        if task.memory.memory_max_mb:
            report["memory_max_mb"] = task.memory.memory_max_mb
        if task.cpu.reserved_cores:
            report["cores"] = task.cpu.reserved_cores
        tasks[name] = report
    return {"tasks": tasks, "disk_mb": resources.shared.disk_mb}


def _devices(resources: AllocatedResources) -> dict[str, Any]:
    return {
        name: {
            f"{d.vendor}/{d.type}/{d.name}": {
                "count": len(d.device_ids),
                "instances": d.device_ids,
            }
            for d in task.devices
        }
        for name, task in resources.tasks.items()
        if task.devices
    }


def _task_networks(resources: AllocatedResources) -> dict[str, Any]:
    return {
        name: {
            "device": network.device,
            "ip": network.ip,
            "mbits": network.mbits,
            "reserved": {p.label: p.value for p in network.reserved_ports or ()},
            "dynamic_labels": [p.label for p in network.dynamic_ports or ()],
        }
        for name, task in resources.tasks.items()
        for network in task.networks or ()
    }


def _kind(update: AllocUpdate) -> str:
    if update.job_version is not None:
        return "inplace"
    if update.client_status == "unknown":
        return "disconnect"
    if update.record_client_status:
        return "reconnect"
    return "reschedule_failed" if update.reschedule_tracker is not None else "followup"


def time_ns(moment: Any) -> int:
    return ns_of_datetime(moment)

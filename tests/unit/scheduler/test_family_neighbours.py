"""Cases next to the minimal ones of `tests/golden/scheduler-families`, one thing different."""

from __future__ import annotations

from copy import deepcopy

import pytest

from orchgit.scheduler.reconcile.changes import LOST, MIGRATING, NOT_NEEDED
from tests.support.golden_neighbours import (
    Case,
    current_job,
    decide,
    only_group,
    recorded,
)

_MINUTE_NS = 60 * 10**9


def _allocation(case: Case, name: str) -> Case:
    found: Case = next(each for each in case["allocs"] if each["Name"].endswith(name))
    return found


def _node_of(case: Case, allocation: Case) -> Case:
    found: Case = next(n for n in case["nodes"] if n["ID"] == allocation["NodeID"])
    return found


# --- F01: a lower count


def test_failed_one_of_the_lowest_name_keeps_it_when_the_count_goes_down() -> None:
    case = recorded("F01")
    _allocation(case, "[0]")["Name"] = "api.web[2]"
    assert decide(case).stopped() == [("api.web[2]", NOT_NEEDED)]


def test_failed_one_that_may_not_be_rescheduled_goes_by_its_name_too() -> None:
    case = recorded("F01")
    only_group(case)["ReschedulePolicy"] = {"Attempts": 0, "Unlimited": False}
    decided = decide(case)
    assert decided.stopped() == [("api.web[1]", NOT_NEEDED)]
    assert not decided.evaluation["followup_evals"]


def test_nothing_goes_while_the_count_is_not_exceeded() -> None:
    case = recorded("F01")
    only_group(case)["Count"] = 2
    assert decide(case).stopped() == []


# --- F02, F10: in-place updates and deployments


@pytest.mark.parametrize("status", ["running", "paused", "failed", "cancelled", "successful"])
def test_update_in_place_joins_the_latest_deployment_whatever_its_status(status: str) -> None:
    case = recorded("F10")
    case["deployments"][0]["Status"] = status
    (update,) = decide(case).plan["updates"]
    assert update["deployment"] == case["deployments"][0]["ID"]


def test_health_in_an_earlier_deployment_is_cleared() -> None:
    case = recorded("F10")
    case["allocs"][0] |= {"DeploymentID": "earlier", "DeploymentStatus": {"Healthy": True}}
    (update,) = decide(case).plan["updates"]
    assert update["deployment_status_cleared"]


def test_without_update_block_a_system_job_is_updated_without_deployment() -> None:
    case = recorded("F02")
    only_group(case)["Update"] = None
    (update,) = decide(case).plan["updates"]
    assert (update["kind"], update["deployment"]) == ("inplace", None)


# --- F03: what is not wanted any more


@pytest.mark.parametrize("status", ["failed", "complete", "running", "pending"])
def test_count_of_zero_stops_what_the_servers_did_not_stop(status: str) -> None:
    case = recorded("F03-count")
    for allocation in case["allocs"]:
        allocation["ClientStatus"] = status
    assert [name for name, _ in decide(case).stopped()] == ["api.web[1]", "api.web[1]"]


def test_count_of_zero_leaves_what_the_servers_stopped() -> None:
    case = recorded("F03-count")
    for allocation in case["allocs"]:
        allocation["DesiredStatus"] = "stop"
    decided = decide(case)
    assert not decided.stopped()
    assert not decided.placed()


def test_allocation_of_a_removed_group_on_a_down_node_is_lost() -> None:
    case = recorded("F03-removed")
    case["allocs"][0]["ClientStatus"] = "running"
    _node_of(case, case["allocs"][0])["Status"] = "down"
    assert decide(case).stopped() == [("api.db[1]", LOST)]


# --- F04: sysbatch


@pytest.mark.parametrize(
    ("desired", "client"),
    [("stop", "complete"), ("evict", "complete"), ("run", "lost"), ("run", "failed")],
)
def test_sysbatch_run_that_ended_is_not_repeated(desired: str, client: str) -> None:
    case = recorded("F04")
    case["allocs"][1] |= {"DesiredStatus": desired, "ClientStatus": client}
    assert not decide(case).placed()


def test_changed_sysbatch_job_runs_again_where_it_was_stopped() -> None:
    case = recorded("F04")
    changed = deepcopy(current_job(case))
    changed |= {"Version": 1, "JobModifyIndex": changed["JobModifyIndex"] + 10}
    changed["TaskGroups"][0]["Tasks"][0]["Env"] = {"MODE": "test"}
    case["jobs"].append(changed)
    assert ("api.web[0]", "node-04") in decide(case).placed()


# --- F05: what the servers ended


def test_group_with_a_running_allocation_beside_an_ended_one_starts_no_deployment() -> None:
    case = recorded("F05")
    running = deepcopy(case["allocs"][0])
    running |= {"ID": "a110c000-0000-4000-8000-000000000099", "DesiredStatus": "run"}
    running["Name"] = "api.web[1]"
    case["allocs"].append(running)
    only_group(case)["Count"] = 2
    decided = decide(case)
    assert decided.placed() == [("api.web[0]", "node-01")]
    assert "deployment" not in decided.plan


def test_stopped_failed_one_is_missing_and_not_rescheduled() -> None:
    case = recorded("F05")
    case["allocs"][0] |= {
        "ClientStatus": "failed",
        "RescheduleTracker": {"Events": [], "LastReschedule": "no placement"},
    }
    (place,) = decide(case).plan["places"]
    assert (place["previous_alloc"], place.get("reschedule_tracker")) == (None, None)


# --- F06, F07: out of touch


def test_unknown_allocation_on_a_down_node_is_lost_at_once() -> None:
    case = recorded("rec-still-unknown")
    _node_of(case, case["allocs"][0])["Status"] = "down"
    assert decide(case).stopped() == [("api.web[0]", LOST)]


def test_allocation_without_replace_waits_for_its_down_node() -> None:
    case = recorded("rec-still-unknown")
    only_group(case)["Disconnect"]["Replace"] = False
    _node_of(case, case["allocs"][0])["Status"] = "down"
    decided = decide(case)
    assert (decided.stopped(), decided.placed()) == ([], [])


def test_without_a_wait_a_look_is_taken_at_once_at_what_is_not_to_be_replaced() -> None:
    case = recorded("disc-replace-false")
    only_group(case)["Disconnect"]["LostAfter"] = 0
    for node in case["nodes"]:
        node["Status"] = node["Status"].replace("disconnected", "down")
    decided = decide(case)
    assert decided.updated() == [("api.web[0]", "disconnect")]
    (followup,) = decided.evaluation["followup_evals"]
    assert followup["triggered_by"] == "max-disconnect-timeout"
    assert followup["wait_offset_s"] == 0
    assert decided.plan["updates"][0]["followup_eval"] == 0


@pytest.mark.parametrize("status", ["running", "unknown"])
def test_better_node_counts_only_for_what_runs_there(status: str) -> None:
    case = recorded("rec-best-score-replacement")
    original, replacement = case["allocs"]
    original["ClientStatus"] = status
    replacement["ClientStatus"] = "pending"
    goes = original if status == "unknown" else replacement
    assert [stop["alloc"] for stop in decide(case).plan["stops"]] == [goes["ID"]]


def test_failed_replacement_is_stopped_with_the_others() -> None:
    case = recorded("rec-keep-original")
    replacement = next(each for each in case["allocs"] if each.get("PreviousAllocation"))
    replacement["ClientStatus"] = "failed"
    assert [stop["alloc"] for stop in decide(case).plan["stops"]] == [replacement["ID"]]


def test_system_allocation_that_may_wait_is_left_unknown() -> None:
    case = recorded("F07")
    only_group(case)["Disconnect"] = {"LostAfter": 5 * _MINUTE_NS, "Replace": True}
    assert not decide(case).stopped()


# --- F08, F15: system jobs and nodes that are not ready


@pytest.mark.parametrize("state", ["ineligible", "draining", "initializing"])
def test_old_version_stops_on_a_node_that_is_not_ready(state: str) -> None:
    case = recorded("F08")
    (node,) = case["nodes"]
    node["SchedulingEligibility"] = "ineligible" if state == "ineligible" else "eligible"
    if state == "draining":
        node["DrainStrategy"] = {"Deadline": 0}
    elif state == "initializing":
        node["Status"] = "initializing"
    assert decide(case).stopped() == [("api.web[0]", NOT_NEEDED)]


def test_current_version_is_left_on_a_node_that_is_not_ready() -> None:
    case = recorded("F08")
    case["allocs"][0]["JobVersion"] = 2
    assert not decide(case).stopped()


def test_ready_node_outside_the_datacenters_is_left() -> None:
    case = recorded("F15")
    _node_of(case, case["allocs"][0])["SchedulingEligibility"] = "eligible"
    assert decide(case).stopped() == [("api.web[0]", NOT_NEEDED)]


def test_node_that_left_the_pool_is_left_though_it_is_not_ready() -> None:
    case = recorded("F15")
    _node_of(case, case["allocs"][0])["NodePool"] = "gpu"
    assert decide(case).stopped() == [("api.web[0]", NOT_NEEDED)]


# --- F09: what one node's checks refuse


def test_node_with_the_property_is_used_and_the_other_is_not_told() -> None:
    case = recorded("F09-system-per-node-filter-is")
    other = deepcopy(case["nodes"][0])
    other |= {"ID": "0de00000-0000-4000-8000-000000000077", "Name": "node-77"}
    other["Meta"] = {"rack": "r1"}
    case["nodes"].append(other)
    decided = decide(case)
    assert decided.placed() == [("api.web[0]", "node-77")]
    assert decided.evaluation["failed_tg_allocs"] == {}
    assert decided.evaluation["queued_allocations"] == {"web": 0}


def test_property_that_is_used_up_meanwhile_is_no_failure_either() -> None:
    case = recorded("F09-system-per-node-filter-is")
    for number in (77, 78):
        other = deepcopy(case["nodes"][0])
        other |= {"ID": f"0de00000-0000-4000-8000-0000000000{number}", "Meta": {"rack": "r1"}}
        case["nodes"].append(other)
    decided = decide(case)
    assert len(decided.placed()) == 1
    assert decided.evaluation["failed_tg_allocs"] == {}
    assert decided.evaluation["blocked_evals"] == []


def test_missing_host_volume_is_no_failure() -> None:
    case = recorded("F09-system-per-node-filter-is")
    group = only_group(case)
    group["Constraints"] = []
    group["Volumes"] = {"v": {"Name": "v", "Type": "host", "Source": "data"}}
    decided = decide(case)
    assert decided.evaluation["blocked_evals"] == []
    assert decided.failed["ConstraintFiltered"] == {"missing compatible host volumes": 1}


# --- F11: names


def test_two_that_migrate_by_one_name_get_two_names() -> None:
    case = recorded("F11")
    case["allocs"][1]["DesiredTransition"] = {"Migrate": True}
    assert sorted(name for name, _ in decide(case).placed()) == ["api.web[0]", "api.web[2]"]


def test_name_of_its_own_is_kept_above_the_count() -> None:
    case = recorded("F11")
    case["allocs"][1]["Name"] = "api.web[1]"
    assert [name for name, _ in decide(case).placed()] == ["api.web[2]"]


def test_of_two_that_are_replaced_by_one_name_one_gets_a_free_one() -> None:
    case = recorded("F11")
    for allocation in case["allocs"]:
        allocation["DesiredTransition"] = {}
    changed = deepcopy(current_job(case))
    changed |= {"Version": 1, "JobModifyIndex": changed["JobModifyIndex"] + 10}
    changed["TaskGroups"][0]["Tasks"][0]["Env"] = {"MODE": "test"}
    case["jobs"].append(changed)
    assert sorted(name for name, _ in decide(case).placed()) == ["api.web[0]", "api.web[2]"]


# --- F12: in place or not


def _in_place(change: Case, *, of_group: bool = False, of_task: bool = False) -> bool:
    case = recorded("F10")
    new = current_job(case)
    group = new["TaskGroups"][0]
    (group["Tasks"][0] if of_task else group if of_group else new).update(change)
    plan = decide(case).plan
    return [update["kind"] for update in plan["updates"]] == ["inplace"] and not plan["places"]


def test_change_of_run_duration_payload_or_pool_updates_in_place() -> None:
    assert _in_place({"MaxRunDuration": _MINUTE_NS}, of_group=True)
    assert _in_place({"DispatchPayload": {"File": "x"}}, of_task=True)
    assert _in_place({"NodePool": "all"})


def test_pool_without_the_node_replaces() -> None:
    assert not _in_place({"NodePool": "gpu"})


@pytest.mark.parametrize("level", ["group", "task", ""])
def test_meta_of_the_job_counts_unless_a_level_below_overrides_it(level: str) -> None:
    case = recorded("F10") | {"deployments": []}
    for job in case["jobs"]:
        job["Meta"] = {"rev": str(job["Version"])}
        group = job["TaskGroups"][0]
        if level:
            (group if level == "group" else group["Tasks"][0])["Meta"] = {"rev": "fixed"}
    assert bool(decide(case).plan["places"]) == (not level)


def test_system_allocation_that_comes_back_in_an_old_version_is_updated_in_place() -> None:
    case = recorded("F12")
    old, new = sorted(case["jobs"], key=lambda job: job["Version"])
    new["TaskGroups"] = deepcopy(old["TaskGroups"])
    (update,) = decide(case).plan["updates"]
    assert update["kind"] == "inplace"
    assert update["alloc_states_appended"][0]["value"] == "running"


# --- F13: migrations


def test_batch_allocation_that_was_stopped_counts_as_rescheduled() -> None:
    case = recorded("batch-alloc-stop")
    (place,) = [each for each in decide(case).plan["places"] if each["previous_alloc"]]
    assert place["reschedule_tracker"]["last_reschedule"] == "ok"


def test_service_allocation_that_was_stopped_keeps_its_tracker_out() -> None:
    case = recorded("F13")
    case["nodes"][0]["SchedulingEligibility"] = "eligible"
    decided = decide(case)
    assert decided.stopped() == [("api.web[1]", MIGRATING)]
    assert "reschedule_tracker" not in decided.plan["places"][0]


# --- F14: room and scores


def test_evictions_are_scored_with_the_evicted_still_there() -> None:
    case = recorded("pre-memory")
    (node,), (task,) = case["nodes"], only_group(case)["Tasks"]
    held = [a["AllocatedResources"]["Tasks"]["server"] for a in case["allocs"]]
    cpu = task["Resources"]["CPU"] + sum(each["Cpu"]["CpuShares"] for each in held)
    memory = task["Resources"]["MemoryMB"] + sum(each["Memory"]["MemoryMB"] for each in held)
    resources = node["NodeResources"]
    free_cpu = 1 - cpu / resources["Cpu"]["CpuShares"]
    free_memory = 1 - memory / resources["Memory"]["MemoryMB"]
    assert free_memory < 0, "fuller than full"
    (of_placed,) = decide(case).plan["scores"].values()
    assert of_placed[node["ID"]]["binpack"] == pytest.approx(
        (20 - 10**free_cpu - 10**free_memory) / 18
    )


# --- F16: disks


@pytest.mark.parametrize("wanted", [{"Sticky": True}, {"Migrate": True}, {}])
def test_data_that_stays_or_moves_prefers_the_old_node(wanted: Case) -> None:
    case = recorded("F16")
    only_group(case)["EphemeralDisk"] = {"SizeMB": 200, **wanted}
    old = min(case["jobs"], key=lambda job: job["Version"])
    old["TaskGroups"][0]["EphemeralDisk"] = {"SizeMB": 100, **wanted}
    (placed,) = decide(case).placed()
    assert (placed[1] == "node-01") == bool(wanted)


def test_node_that_is_not_ready_is_not_preferred() -> None:
    case = recorded("F16")
    case["nodes"][0]["SchedulingEligibility"] = "ineligible"
    assert decide(case).placed() == [("api.web[1]", "node-02")]


# --- also seen


def test_failed_one_on_a_node_that_is_down_keeps_its_delay() -> None:
    case = recorded("F14")
    case["nodes"][0]["Status"] = "down"
    decided = decide(case)
    assert decided.desired["RescheduleLater"] == 1
    assert decided.updated() == [("api.web[1]", "followup")]


def test_each_node_has_count_allocations_of_a_system_group() -> None:
    case = recorded("F15")
    only_group(case)["Count"] = 3
    names = [name for name, _ in decide(case).placed()]
    assert names == ["api.web[0]", "api.web[1]", "api.web[2]"]


def test_multiregion_deployment_becomes_pending_once_it_is_known() -> None:
    case = recorded("multiregion-complete")
    case["deployments"][0] |= {"Status": "initializing"}
    case["deployments"][0]["TaskGroups"]["web"]["HealthyAllocs"] = 0
    (update,) = decide(case).plan["deployment_updates"]
    assert (update["status"], update["status_description"]) == (
        "pending",
        "Deployment is pending, waiting for peer region",
    )


def test_disconnected_allocation_is_replaced_though_the_deployment_is_paused() -> None:
    case = recorded("disc-replace-now")
    job = current_job(case)
    job["TaskGroups"][0]["Update"] = {"MaxParallel": 1}
    case["deployments"] = [
        {
            "ID": "de910000-0000-4000-8000-000000000001",
            "Namespace": "default",
            "JobID": job["ID"],
            "JobVersion": job["Version"],
            "JobCreateIndex": job["CreateIndex"],
            "Status": "paused",
            "TaskGroups": {"web": {"DesiredTotal": job["TaskGroups"][0]["Count"]}},
        }
    ]
    decided = decide(case)
    assert [name for name, _ in decided.placed()] == ["api.web[0]"]
    assert decided.updated() == [("api.web[0]", "disconnect")]
    assert not decided.stopped()


@pytest.mark.parametrize("promoted", [True, False])
def test_beside_waiting_canaries_the_newest_good_version_runs(promoted: bool) -> None:
    case = recorded("canary-noncanary-node-down")
    old = min(case["deployments"], key=lambda each: each["JobVersion"])
    old["TaskGroups"]["web"] |= {"Promoted": promoted, "DesiredCanaries": 1}
    (place,) = decide(case).plan["places"]
    assert place["job_version"] == (0 if promoted else 1)


def test_classes_that_were_looked_at_are_not_explained_again() -> None:
    case = recorded("con-equal-missing")
    case["scheduler_config"]["PreemptionConfig"]["ServiceSchedulerEnabled"] = True
    filtered = decide(case).failed["ConstraintFiltered"]
    assert set(filtered) == {"computed class ineligible"}


@pytest.mark.parametrize("count", [1, 2])
def test_class_that_a_placement_before_looked_at_is_told_as_known(count: int) -> None:
    """The one node with room is taken by the first of them."""
    case = recorded("con-equal")
    os_names = [node["Attributes"]["os.name"] for node in case["nodes"]]
    case["jobs"][0]["Constraints"][0]["RTarget"] = "none of them" if count == 1 else os_names[0]
    only_group(case)["Count"] = count
    only_group(case)["Constraints"] = [{"Operand": "distinct_hosts", "RTarget": "true"}]
    told = set(decide(case).failed["ConstraintFiltered"])
    assert ("computed class ineligible" in told) == (count == 2)

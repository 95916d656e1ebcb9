"""Cases next to the recorded ones: one thing is different, and what must come out is known from
the documentation, the formulas or a recorded case of another kind."""

from __future__ import annotations

from copy import deepcopy

import pytest

from tests.support.golden_neighbours import Case, current_job, decide, only_group, recorded

NOT_NEEDED = "alloc not needed due to job update"
UPDATING = "alloc is being updated due to job update"


# --- out of touch -------------------------------------------------------------------------------


def _out_of_touch(count: int, unknown_name: str) -> Case:
    """One allocation is unknown and waits for another evaluation, two run; so many are wanted."""
    case = recorded("disc-replace-followup")
    case["eval"]["ID"] = "e7a10000-0000-4000-8000-000000000002"
    unknown, running = case["allocs"]
    third = deepcopy(running) | {"ID": "a110c000-0000-4000-8000-000000000003"}
    names = [name for name in ("api.web[0]", "api.web[1]", "api.web[2]") if name != unknown_name]
    unknown["Name"], running["Name"], third["Name"] = unknown_name, *names
    case["allocs"].append(third)
    only_group(case)["Count"] = count
    return case


def test_evaluation_that_is_not_its_own_does_not_replace_what_is_out_of_touch() -> None:
    decided = decide(_out_of_touch(3, "api.web[0]"))
    assert not decided.placed()
    assert decided.desired == {"Ignore": 3}


@pytest.mark.parametrize("unknown", ["api.web[0]", "api.web[2]"])
def test_disconnected_allocation_does_not_count_as_running_when_the_count_is_lowered(
    unknown: str,
) -> None:
    assert not decide(_out_of_touch(2, unknown)).stopped()


def test_highest_name_goes_though_it_is_out_of_touch() -> None:
    assert decide(_out_of_touch(1, "api.web[2]")).stopped() == [("api.web[2]", NOT_NEEDED)]


@pytest.mark.parametrize("own_evaluation", [True, False])
def test_allocation_without_replace_stays_unknown_when_its_time_is_up(own_evaluation: bool) -> None:
    case = recorded("disc-expired-exactly")
    only_group(case)["Disconnect"]["Replace"] = False
    if not own_evaluation:
        case["allocs"][0]["FollowupEvalID"] = ""
    decided = decide(case)
    assert not decided.stopped()
    assert not decided.placed()
    assert not decided.updated()
    assert decided.desired == {"Ignore": 2}


def test_disconnected_and_replaced_allocation_is_counted_as_ignored() -> None:
    case = recorded("disc-expired-replaced")
    only_group(case)["Disconnect"]["LostAfter"] = 10**16
    assert decide(case).desired == {"Ignore": 2}


def test_update_in_place_reaches_what_is_out_of_touch() -> None:
    case = recorded("disc-update")
    old, new = sorted(case["jobs"], key=lambda job: job["Version"])
    new["TaskGroups"][0]["Tasks"] = old["TaskGroups"][0]["Tasks"]
    decided = decide(case)
    assert decided.updated() == [("api.web[0]", "inplace"), ("api.web[1]", "inplace")]
    assert not any("client_status" in update for update in decided.plan["updates"])


@pytest.mark.parametrize("coming_back", [True, False])
def test_canary_out_of_touch_takes_nobodys_place(coming_back: bool) -> None:
    case = recorded("canary-all-healthy-unpromoted")
    for job in case["jobs"]:
        job["TaskGroups"][0]["Disconnect"] = {"LostAfter": 3600 * 10**9, "Replace": True}
    (canary,) = [each for each in case["allocs"] if each["JobVersion"] == 1]
    if coming_back:
        canary["AllocStates"] = [{"Field": 0, "Value": "unknown", "Time": "2027-03-01T11:59:00Z"}]
    else:
        (node,) = [each for each in case["nodes"] if each["ID"] == canary["NodeID"]]
        node["Status"] = "disconnected"
    decided = decide(case)
    assert not decided.stopped()
    assert not decided.placed()
    assert [update["alloc"] for update in decided.plan["updates"]] == [canary["ID"]]


@pytest.mark.parametrize("better", ["original", "replacement"])
@pytest.mark.parametrize("order", [1, -1])
def test_of_two_that_come_back_together_one_stays(better: str, order: int) -> None:
    case = recorded(f"rec-best-score-{better}")
    original, replacement = case["allocs"]
    replacement["AllocStates"] = deepcopy(original["AllocStates"])
    case["allocs"] = case["allocs"][::order]
    decided = decide(case)
    goes, stays = (replacement, original) if better == "original" else (original, replacement)
    assert [stop["alloc"] for stop in decided.plan["stops"]] == [goes["ID"]]
    assert [update["alloc"] for update in decided.plan["updates"]] == [stays["ID"]]
    assert not decided.placed()


def _come_back(original: Case, replacement: Case, leader: str = "") -> str:
    """Which one stays, of two with these tasks, where the longest running one is wanted."""
    case = recorded("rec-longest-running-replacement")
    for allocation, states in zip(case["allocs"], (original, replacement), strict=True):
        allocation["TaskStates"] = states
    for job in case["jobs"]:
        tasks = job["TaskGroups"][0]["Tasks"]
        job["TaskGroups"][0]["Tasks"] = [
            deepcopy(tasks[0]) | {"Name": name, "Leader": name == leader} for name in ("a", "b")
        ]
    (stop,) = decide(case).plan["stops"]
    return "replacement" if stop["alloc"] == case["allocs"][0]["ID"] else "original"


def _started(minute: int, restarted: int | None = None) -> Case:
    zero = "0001-01-01T00:00:00Z"
    again = zero if restarted is None else f"2027-03-01T11:{restarted:02d}:00Z"
    start = f"2027-03-01T11:{minute:02d}:00Z"
    return {"State": "running", "StartedAt": start, "LastRestart": again}


def test_of_several_tasks_the_oldest_says_how_long_an_allocation_runs() -> None:
    original = {"a": _started(10), "b": _started(11, restarted=50)}
    replacement = {"a": _started(20), "b": _started(20)}
    assert _come_back(original, replacement) == "original"
    assert _come_back(replacement, original) == "replacement"


def test_leader_says_how_long_an_allocation_runs() -> None:
    original = {"a": _started(10), "b": _started(11, restarted=50)}
    replacement = {"a": _started(20), "b": _started(20)}
    assert _come_back(original, replacement, leader="b") == "replacement"
    assert _come_back(original, replacement, leader="a") == "original"


# --- in place or anew ---------------------------------------------------------------------------


@pytest.mark.parametrize("level", ["group", "task"])
def test_templates_that_are_rendered_at_a_restart_need_new_tasks(level: str) -> None:
    case = recorded("update-restart-policy")
    group = only_group(case)
    owner = group if level == "group" else group["Tasks"][0]
    owner["RestartPolicy"]["RenderTemplates"] = True
    assert "DestructiveUpdate" in decide(case).desired


def test_two_that_must_be_apart_from_now_on_cannot_stay_together() -> None:
    case = recorded("disc-update")
    old, new = sorted(case["jobs"], key=lambda job: job["Version"])
    new["TaskGroups"][0]["Tasks"] = old["TaskGroups"][0]["Tasks"]
    new["Constraints"] = [{"Operand": "distinct_hosts", "RTarget": "true"}]
    first, second = case["allocs"]
    second |= {"NodeID": first["NodeID"], "ClientStatus": "running", "AllocStates": None}
    decided = decide(case)
    assert decided.desired["DestructiveUpdate"] == 2
    assert len({place["node"] for place in decided.plan["places"]}) == 2


def test_lone_allocation_stays_when_hosts_must_be_distinct() -> None:
    case = recorded("update-priority")
    current_job(case)["Constraints"] = [{"Operand": "distinct_hosts", "RTarget": "true"}]
    assert decide(case).desired == {"InPlaceUpdate": 1}


# --- system jobs --------------------------------------------------------------------------------


def _system_update(**job: object) -> Case:
    """A system job on two nodes whose newest version is not out yet."""
    case = recorded("sys-rolling-newer") | {"deployments": []}
    current_job(case).update(job)
    return case


def test_system_job_leaves_a_node_that_its_new_version_does_not_want() -> None:
    only_here = {"LTarget": "${node.unique.name}", "Operand": "=", "RTarget": "node-01"}
    decided = decide(_system_update(Constraints=[only_here]))
    assert decided.placed() == [("agent.web[0]", "node-01")]
    assert decided.stopped() == [("agent.web[0]", UPDATING)] * 2
    assert decided.desired == {"DestructiveUpdate": 2, "Place": 1}
    assert not decided.evaluation["failed_tg_allocs"]
    assert not decided.evaluation["blocked_evals"]


def test_node_without_room_does_not_hold_back_a_system_jobs_other_nodes() -> None:
    for full in (0, 1):
        case = _system_update()
        case["nodes"][full]["NodeResources"]["Memory"]["MemoryMB"] = 1
        decided = decide(case)
        assert [node for _, node in decided.placed()] == [case["nodes"][1 - full]["Name"]]


# --- rescheduling -------------------------------------------------------------------------------


@pytest.mark.parametrize(("unlimited", "kept"), [(False, 8), (True, 6)])
def test_attempts_that_count_are_not_forgotten(unlimited: bool, kept: int) -> None:
    """With a limit all within the interval are kept; without one the last five."""
    case = recorded("resched-attempts-left")
    allocation = case["allocs"][0]
    events = allocation["RescheduleTracker"]["Events"]
    allocation["RescheduleTracker"]["Events"] = [deepcopy(events[-1]) for _ in range(7)]
    for job in case["jobs"]:
        job["TaskGroups"][0]["ReschedulePolicy"] |= {
            "Attempts": 0 if unlimited else 20,
            "Unlimited": unlimited,
        }
    (place,) = decide(case).plan["places"]
    assert len(place["reschedule_tracker"]["events"]) == kept


# --- networks -----------------------------------------------------------------------------------


def _interpolated_network(**meta: str) -> Case:
    case = recorded("net-host-network-template")
    for node in case["nodes"]:
        node["Meta"] = dict(meta)
    return case


def test_interpolated_host_network_is_explained_with_its_value() -> None:
    failed = decide(_interpolated_network(net="nowhere")).failed
    assert list(failed["ConstraintFiltered"]) == ['missing host network "nowhere" for port "rpc"']


def test_interpolated_host_network_without_a_value_is_not_valid() -> None:
    failed = decide(_interpolated_network()).failed
    reason = 'invalid host network "${meta.net}" template for port "rpc"'
    assert list(failed["ConstraintFiltered"]) == [reason]


@pytest.mark.parametrize(("version", "placed"), [("0.11.3", True), ("0.12.0", False), ("", False)])
def test_agents_that_cannot_tell_of_bridges_may_have_one(version: str, placed: bool) -> None:
    case = recorded("net-bridge-missing")
    for node in case["nodes"]:
        node["Attributes"]["nomad.version"] = version
    assert bool(decide(case).placed()) == placed


def test_port_on_the_default_host_network_needs_one() -> None:
    case = recorded("net-static")
    for node in case["nodes"]:
        for network in node["NodeResources"]["NodeNetworks"]:
            for address in network["Addresses"]:
                address["Alias"] = "private"
    (reason,) = decide(case).failed["ConstraintFiltered"]
    assert reason.startswith('missing host network "default" for port')


# --- constraints --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "apart"),
    [("", True), ("true", True), ("T", True), ("1", True), ("FALSE", False), ("maybe", False)],
)
def test_forms_of_constraint_that_ask_for_distinct_hosts(value: str, apart: bool) -> None:
    case = recorded("distinct-hosts-false")
    (wish,) = current_job(case)["Constraints"]
    wish["RTarget"] = value
    assert len(decide(case).placed()) == (1 if apart else 2)


@pytest.mark.parametrize(
    ("glob", "matching"),
    [("eu-*", {"eu-west", "eu-north"}), ("*-*st", {"eu-west", "us-east"}), ("eu-wes?", set())],
)
def test_only_stars_stand_for_other_signs_in_names_of_datacenters(
    glob: str, matching: set[str]
) -> None:
    case = recorded("place-dc-glob")
    for job in case["jobs"]:
        job["Datacenters"] = [glob]
    decided = decide(case)
    datacenters = {node["Name"]: node["Datacenter"] for node in case["nodes"]}
    assert {datacenters[node] for _, node in decided.placed()} <= matching
    assert bool(decided.placed()) == bool(matching)
    if not matching:
        assert decided.failed["NodesEvaluated"] == 0


def test_volume_of_one_writer_may_be_read() -> None:
    case = recorded("vol-dynamic-single-writer-self")
    for job in case["jobs"]:
        for request in job["TaskGroups"][0]["Volumes"].values():
            request["ReadOnly"] = True
    assert len(decide(case).placed()) == 2


@pytest.mark.parametrize(("word", "placed"), [("T", True), ("TRUE", True), ("yes", False)])
def test_driver_that_only_an_attribute_tells_of(word: str, placed: bool) -> None:
    case = recorded("con-driver-missing")
    for node in case["nodes"]:
        node["Drivers"] = {}
        for name in [name for name in node["Attributes"] if name.startswith("driver.")]:
            node["Attributes"][name] = word
    assert bool(decide(case).placed()) == placed


# --- resources ----------------------------------------------------------------------------------


def test_reserved_cores_are_not_shared_by_tasks_that_never_run_together() -> None:
    """A core of 2500 MHz before the main task, which takes 8000 of the node's 10000 MHz."""
    case = recorded("ex-cores-placed") | {"allocs": []}
    for job in case["jobs"]:
        group = job["TaskGroups"][0]
        group["Count"] = 1
        main = group["Tasks"][0]
        first = deepcopy(main) | {"Name": "first", "Lifecycle": {"Hook": "prestart"}}
        first["Resources"] |= {"Cores": 1, "CPU": 0}
        main["Resources"] |= {"Cores": 0, "CPU": 8000}
        group["Tasks"] = [first, main]
    assert decide(case).failed["DimensionExhausted"] == {"cpu": len(case["nodes"])}
    for job in case["jobs"]:
        job["TaskGroups"][0]["Tasks"][1]["Resources"]["CPU"] = 7000
    assert len(decide(case).placed()) == 1


# --- scores -------------------------------------------------------------------------------------


def test_namesakes_in_other_namespaces_count_as_the_same_group() -> None:
    case = recorded("score-anti-affinity-two-nodes")
    (alone,) = decide(case).plan["scores"].values()
    case["jobs"] += [deepcopy(job) | {"Namespace": "another"} for job in case["jobs"]]
    for allocation in case["allocs"]:
        allocation["Namespace"] = "another"
    assert decide(case).plan["scores"]["api.web[0]"] == alone
    for allocation in case["allocs"]:
        allocation["ClientStatus"] = "complete"
    first = decide(case).plan["scores"]["api.web[0]"]
    assert {scores["job-anti-affinity"] for scores in first.values()} == {0.0}

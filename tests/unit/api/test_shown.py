"""How stored objects look in answers: which keys are left out, null or hidden."""

from __future__ import annotations

import base64
from typing import Any

import cramjam

from orchgit.api.shapes import nomad_json
from orchgit.api.shapes.shown import shown
from orchgit.model.allocation import Allocation, DesiredTransition
from orchgit.model.evaluation import AllocMetric, Evaluation, ScoreMetaData
from orchgit.model.group import ScalingPolicy, UpdateStrategy
from orchgit.model.job import JobOrigin
from orchgit.model.resources import (
    AllocatedPort,
    AllocatedResources,
    AllocatedShared,
    NetworkResource,
    Port,
)
from orchgit.model.service import Service
from orchgit.model.volume import TaskGroupVolumeClaim
from tests.support.factories import make_group, make_job, make_task


def tree(value: Any) -> Any:
    return nomad_json.tree(value)


def test_fresh_evaluation_shows_only_what_every_evaluation_has() -> None:
    assert set(tree(Evaluation(id="e"))) == {
        *("ID", "Namespace", "Priority", "Type", "TriggeredBy", "JobID", "Status"),
        *("CreateTime", "ModifyTime"),
    }


def test_evaluation_writes_the_time_it_waits_for_as_a_time() -> None:
    encoded = nomad_json.encode(Evaluation(wait_until=1_700_000_000_000_000_000))
    assert b'"WaitUntil":"2023-11-14T22:13:20Z"' in encoded


def test_evaluation_that_saw_no_class_shows_an_empty_class_eligibility() -> None:
    assert tree(Evaluation(class_eligibility={}))["ClassEligibility"] == {}


def test_allocation_leaves_out_a_transition_that_wants_nothing() -> None:
    assert "DesiredTransition" not in tree(Allocation())
    wanted = Allocation(desired_transition=DesiredTransition(migrate=False))
    assert tree(wanted)["DesiredTransition"]["Migrate"] is False


def test_keys_that_nomad_lacks_are_left_out_while_unset() -> None:
    assert "Origin" not in tree(make_job())
    assert "CommitID" not in tree(TaskGroupVolumeClaim())
    assert tree(make_job(origin=JobOrigin(source="demo")))["Origin"]["Source"] == "demo"


def test_empty_lists_of_a_job_are_null_and_its_meta_is_not() -> None:
    found = tree(make_job(constraints=[], affinities=[], meta={}))
    assert (found["Constraints"], found["Affinities"], found["Meta"]) == (None, None, {})


def test_job_shows_an_update_block_of_zeros_beside_those_of_its_groups() -> None:
    own = tree(make_job(update=UpdateStrategy(max_parallel=2, canary=1)))["Update"]
    assert (own["MaxParallel"], own["Stagger"]) == (2, 30_000_000_000)
    assert (own["Canary"], own["HealthCheck"], own["MinHealthyTime"]) == (0, "", 0)
    assert not any(tree(make_job(update=None))["Update"].values())


def test_network_shows_what_is_set_and_the_default_host_network() -> None:
    network = NetworkResource(mode="host", dynamic_ports=[Port(label="http")])
    group = make_group(networks=[network])
    (found,) = tree(make_job(task_groups=[group]))["TaskGroups"][0]["Networks"]
    assert found == {
        "Mode": "host",
        "DynamicPorts": [{"Label": "http", "HostNetwork": "default"}],
    }


def test_allocated_port_keeps_its_value_of_zero() -> None:
    assert tree(AllocatedPort(label="x")) == {"Label": "x", "Value": 0, "HostIP": ""}


def test_service_of_a_task_names_its_task() -> None:
    task = make_task(name="web", services=[Service(name="s")])
    job = make_job(task_groups=[make_group(tasks=[task])])
    (found,) = tree(job)["TaskGroups"][0]["Tasks"][0]["Services"]
    assert found["TaskName"] == "web"
    assert "CheckRestart" not in found


def test_scaling_policy_of_a_group_has_its_id_wherever_the_job_is_shown() -> None:
    job = make_job(task_groups=[make_group(scaling=ScalingPolicy(max=3))])
    first, again = (tree(job)["TaskGroups"][0]["Scaling"]["ID"] for _ in range(2))
    assert first == again
    assert len(first) == 36


def test_exhausted_resources_are_a_whole_block_and_scores_have_no_sum() -> None:
    metric = AllocMetric(
        resources_exhausted={"t": {"MemoryMB": 5}},
        score_meta_data=[ScoreMetaData(scores={"binpack": 0.5, "normalized-score": 0.5})],
    )
    found = tree(metric)
    assert found["ResourcesExhausted"]["t"]["MemoryMB"] == 5
    assert found["ResourcesExhausted"]["t"]["CPU"] == 0
    assert found["ScoreMetaData"][0]["Scores"] == {"binpack": 0.5}


def test_values_without_rules_are_passed_on_as_they_are() -> None:
    value = {"a": [1, None, "x"]}
    assert shown(value) == value


def test_payload_of_a_dispatch_is_packed_as_clients_expect() -> None:
    sent = b"hello hello hello hello hello"
    job = make_job(payload=base64.b64encode(sent).decode())
    packed = base64.b64decode(tree(job)["Payload"])
    assert bytes(cramjam.snappy.decompress_raw(packed)) == sent
    assert len(packed) < len(sent)
    assert tree(make_job())["Payload"] is None


def test_network_has_the_address_of_a_port_without_a_fixed_number() -> None:
    asked = NetworkResource(
        reserved_ports=[Port(label="fixed", value=80)], dynamic_ports=[Port(label="http")]
    )
    ports = [
        AllocatedPort(label="fixed", value=80, host_ip="::1"),
        AllocatedPort(label="http", value=20000, host_ip="127.0.0.1"),
    ]
    found = AllocatedResources(shared=AllocatedShared(networks=[asked])).with_ports(ports)
    assert [each.ip for each in found.shared.networks or ()] == ["127.0.0.1"]
    fixed_only = AllocatedShared(networks=[NetworkResource(reserved_ports=asked.reserved_ports)])
    found = AllocatedResources(shared=fixed_only).with_ports(ports[:1])
    assert [each.ip for each in found.shared.networks or ()] == ["::1"]


def test_stored_payload_that_is_no_base64_is_shown_as_it_is() -> None:
    assert tree(make_job(payload="abcde"))["Payload"] == "abcde"

"""Which services are registered as tasks start and end, and what the event stream tells of them."""

from __future__ import annotations

import msgspec
import pytest

from orchgit.model.allocation import DriverAddress, TaskState
from orchgit.model.node import Node
from orchgit.model.service import Service
from orchgit.replication.events import AppliedBatch, Effects
from orchgit.state.changes import Changes
from orchgit.state.service_catalog import services_of_allocation
from tests.support.factories import make_job
from tests.unit.replication.conftest import Cluster

_FIRST = DriverAddress(ip="172.20.0.2", ports={"http": 80})
_SECOND = DriverAddress(ip="172.20.0.3", ports={"http": 80})


@pytest.fixture
def placed(cluster: Cluster) -> tuple[Node, str]:
    job = make_job()
    group = job.task_groups[0]
    own = Service(name="own", provider="nomad", address_mode="driver", port_label="9000")
    shared = Service(name="shared", provider="nomad", port_label="9001")
    task = msgspec.structs.replace(group.tasks[0], name="t", services=[own])
    group = msgspec.structs.replace(group, tasks=[task], services=[shared])
    job = msgspec.structs.replace(job, task_groups=[group])
    node = cluster.node(attributes={"unique.network.ip-address": "10.0.0.9"})
    cluster.register(job)
    (alloc_id,) = cluster.place(job, node)
    cluster.effects = Effects()
    return node, alloc_id


def _report(cluster: Cluster, placed: tuple[Node, str], state: str, **given: DriverAddress) -> None:
    node, alloc_id = placed
    states = {"t": TaskState(state=state)}
    cluster.report(node, alloc_id, task_states=states, driver_addresses=given)


def _registered(cluster: Cluster, alloc_id: str) -> dict[str, str]:
    with cluster.see() as snapshot:
        found = services_of_allocation(snapshot, cluster.alloc(alloc_id))
    return {each["ServiceName"]: each["Address"] for each in found}


def _told(cluster: Cluster) -> list[tuple[str, str, str]]:
    """The events since the last call: type, service and address."""
    batch = AppliedBatch(0, Changes(), cluster.effects, cluster.store.snapshot)
    services = [each for each in batch.events if each.topic == "Service"]
    cluster.effects = Effects()
    payloads = [(each.type, each.payload["Service"]) for each in services]
    return [
        (type_.removeprefix("Service"), one["ServiceName"], one["Address"])
        for type_, one in payloads
    ]


def test_services_of_a_task_are_registered_while_it_runs(
    cluster: Cluster, placed: tuple[Node, str]
) -> None:
    _report(cluster, placed, "pending")
    assert _registered(cluster, placed[1]) == {"shared": "10.0.0.9"}
    assert _told(cluster) == [("Registration", "shared", "10.0.0.9")]
    _report(cluster, placed, "running", t=_FIRST)
    assert _registered(cluster, placed[1]) == {"own": "172.20.0.2", "shared": "10.0.0.9"}
    assert _told(cluster) == [("Registration", "own", "172.20.0.2")]
    _report(cluster, placed, "dead")
    assert _registered(cluster, placed[1]) == {"shared": "10.0.0.9"}
    assert _told(cluster) == [("Deregistration", "own", "172.20.0.2")]


def test_new_address_of_a_task_is_a_new_registration(
    cluster: Cluster, placed: tuple[Node, str]
) -> None:
    _report(cluster, placed, "running", t=_FIRST)
    _told(cluster)
    _report(cluster, placed, "running", t=_SECOND)
    assert _registered(cluster, placed[1])["own"] == "172.20.0.3"
    assert _told(cluster) == [("Registration", "own", "172.20.0.3")]
    _report(cluster, placed, "running")
    assert _registered(cluster, placed[1]) == {"shared": "10.0.0.9"}


def test_services_are_deregistered_when_the_allocation_is_lost(
    cluster: Cluster, placed: tuple[Node, str]
) -> None:
    node, alloc_id = placed
    _report(cluster, placed, "running", t=_FIRST)
    _told(cluster)
    cluster.report(node, alloc_id, status="lost")
    assert _registered(cluster, alloc_id) == {}
    told = sorted(_told(cluster))
    assert told == [
        ("Deregistration", "own", "172.20.0.2"),
        ("Deregistration", "shared", "10.0.0.9"),
    ]

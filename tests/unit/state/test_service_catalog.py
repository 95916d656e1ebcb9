"""Which services a running allocation registers."""

from __future__ import annotations

from pathlib import Path

import msgspec

from orchgit.model.allocation import ClientStatus, NetworkStatus
from orchgit.model.service import Service
from orchgit.state.service_catalog import services_of_allocation
from tests.support.factories import NOW_NS, make_allocation, make_job, make_node
from tests.support.state import open_store


def test_service_whose_address_mode_gives_no_address_is_left_out(tmp_path: Path) -> None:
    services = [
        Service(name=mode, provider="nomad", address_mode=mode)
        for mode in ("host", "driver", "alloc", "alloc_ipv6")
    ]
    job = make_job()
    group = msgspec.structs.replace(job.task_groups[0], services=services)
    job = msgspec.structs.replace(job, task_groups=[group])
    node = make_node(attributes={"unique.network.ip-address": "10.0.0.9"})
    running = make_allocation(job, node, client_status=ClientStatus.RUNNING)
    network = NetworkStatus(interface_name="eth0", address="172.26.64.5")
    store = open_store(tmp_path)
    txn = store.begin()
    txn.begin_entry(5, NOW_NS)
    txn.jobs.put(job)
    txn.job_versions.put(job)
    txn.nodes.put(node)
    txn.end_entry()
    store.publish(txn.commit(5), 5)
    with store.snapshot() as snapshot:
        found = {
            each["ServiceName"]: each["Address"]
            for each in services_of_allocation(snapshot, running)
        }
        assert found == {"host": "10.0.0.9"}
        connected = msgspec.structs.replace(running, network_status=network)
        found = {
            each["ServiceName"]: each["Address"]
            for each in services_of_allocation(snapshot, connected)
        }
        assert found == {"host": "10.0.0.9", "alloc": "172.26.64.5"}
    store.close()

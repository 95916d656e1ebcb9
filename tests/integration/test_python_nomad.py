"""python-nomad, a client that people use, against a development server of its own."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import nomad
import pytest
from nomad.api import exceptions

from tests.support.dev_server import DevServer, dev_server
from tests.support.polling import until_blocking

JOB_HCL = """
job "py" {
  type = "service"
  group "g" {
    count = 1
    network {
      port "http" {}
    }
    service {
      name     = "py"
      port     = "http"
      provider = "nomad"
    }
    scaling {
      enabled = true
      min     = 0
      max     = 3
    }
    task "t" {
      driver = "raw_exec"
      config {
        command = "/bin/sh"
        args    = ["-c", "echo out; exec sleep 3600"]
      }
      resources {
        cpu    = 20
        memory = 16
      }
    }
  }
}
"""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DevServer]:
    with dev_server(tmp_path_factory.mktemp("python-nomad")) as server:
        yield server


@pytest.fixture(scope="module")
def client(server: DevServer) -> nomad.Nomad:
    address, _, port = server.address.removeprefix("http://").rpartition(":")
    return nomad.Nomad(host=address, port=int(port), timeout=20)


@pytest.fixture(scope="module")
def allocation(client: nomad.Nomad) -> dict[str, Any]:
    """The running allocation of the job `py`."""
    client.job.register_job("py", {"Job": client.jobs.parse(JOB_HCL)})
    return until_blocking(
        lambda: next(
            (
                each
                for each in client.job.get_allocations("py")
                if each["ClientStatus"] == "running"
            ),
            None,
        ),
        problem="the job does not run",
    )


def test_parsed_job_is_registered_and_read(client: nomad.Nomad, allocation: dict[str, Any]) -> None:
    assert "py" in client.jobs
    assert client.job["py"]["Status"] == "running"
    assert client.job.get_summary("py")["Summary"]["g"]["Running"] >= 1  # others scale the job
    assert client.job.get_versions("py")["Versions"][0]["ID"] == "py"
    assert client.job.plan_job("py", {"Job": client.job["py"], "Diff": True})["Diff"]
    with pytest.raises(exceptions.URLNotFoundNomadException):
        client.job.get_job("nosuch")


def test_lists_take_prefix_filter_and_pages(
    client: nomad.Nomad, allocation: dict[str, Any]
) -> None:
    assert [each["ID"] for each in client.jobs.get_jobs(prefix="p", filter_='Type == "service"')]
    assert client.allocations.get_allocations(prefix=allocation["ID"][:8])
    client.job.evaluate_job("py")  # earlier evaluations may be collected
    assert client.evaluations.get_evaluations()
    assert client.nodes.get_nodes()[0]["Status"] == "ready"
    with pytest.raises(exceptions.BaseNomadException):
        client.jobs.get_jobs(filter_="nonsense")


def test_allocation_its_node_and_its_logs_are_read(
    client: nomad.Nomad, allocation: dict[str, Any]
) -> None:
    alloc_id = allocation["ID"]
    assert client.allocation.get_allocation(alloc_id)["Job"]["ID"] == "py"
    assert client.node.get_node(allocation["NodeID"])["Datacenter"] == "dc1"
    evaluation_id = client.job.evaluate_job("py")["EvalID"]  # earlier ones may be collected
    assert client.evaluation.get_evaluation(evaluation_id)["JobID"] == "py"
    assert client.client.allocation.read_allocation_stats(alloc_id)
    logs = client.client.stream_logs.stream(alloc_id, "t", "stdout", plain=True)
    assert "out" in logs
    assert client.client.ls.list_files(alloc_id)


def test_job_is_scaled_with_an_event_and_found_by_its_policy(
    client: nomad.Nomad, allocation: dict[str, Any]
) -> None:
    until_blocking(
        lambda: client.job.get_deployment("py")["Status"] == "successful",
        problem="the deployment does not end",
    )
    body = {"Count": 2, "Target": {"Group": "g"}, "Message": "more"}
    answer = client.job.request("py", "scale", method="post", json=body)
    assert answer.status_code == 200, answer.text
    status = client.job.request("py", "scale", method="get").json()
    assert status["TaskGroups"]["g"]["Events"][0]["Message"] == "more"
    policies = client.scaling.get_scaling_policies(job="py")
    assert client.scaling.get_scaling_policy(policies[0]["ID"])["Max"] == 3


def test_variables_namespaces_and_pools_are_written_and_read(client: nomad.Nomad) -> None:
    client.variable.create_variable("app/x", {"Items": {"k": "v"}})
    assert client.variable.get_variable("app/x")["Items"] == {"k": "v"}
    assert [each["Path"] for each in client.variables.get_variables(prefix="app")] == ["app/x"]
    client.namespace.create_namespace({"Name": "team", "Description": "d"})
    assert client.namespace.get_namespace("team")["Description"] == "d"
    client.namespace.delete_namespace("team")
    assert "team" not in client.namespaces


def test_search_status_agent_and_metrics_answer(
    client: nomad.Nomad, allocation: dict[str, Any]
) -> None:
    assert "py" in client.search.search("py", "jobs")["Matches"]["jobs"]
    assert client.status.leader.get_leader()
    assert client.agent.get_agent()["config"]
    assert client.agent.get_members()["Members"]
    assert client.regions.get_regions() == ["global"]
    assert client.metrics.get_metrics()
    assert client.operator.get_configuration()["Servers"]
    assert client.system.initiate_garbage_collection()


def test_events_of_a_job_are_streamed(client: nomad.Nomad, allocation: dict[str, Any]) -> None:
    thread, stop, events = client.event.stream.get_stream(index=0, topic={"Job": "py"}, timeout=2)
    thread.start()
    try:
        batch = events.get(timeout=20)
    finally:
        stop.set()
        thread.join(timeout=30)  # the client looks at `stop` when nothing came for its time-out
    assert not thread.is_alive()
    assert batch["Events"][0]["Topic"] == "Job"


def test_job_is_stopped_and_purged(client: nomad.Nomad) -> None:
    spec = client.jobs.parse(JOB_HCL.replace('job "py"', 'job "gone"'))
    client.job.register_job("gone", {"Job": spec})
    client.job.deregister_job("gone", purge=True)
    assert "gone" not in client.jobs

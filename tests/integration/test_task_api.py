"""A task reaches the HTTP API by the socket among its secrets, with its own identity alone."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.support.polling import until_blocking
from tests.support.server_rig import ServerRig, server_rig

TASK: dict[str, Any] = {
    "Name": "t",
    "Driver": "raw_exec",
    "Config": {"command": "/bin/sh", "args": ["-c", "env -0 > local/env; exec sleep 600"]},
    "Identity": {"Env": True},
}


@pytest.fixture(scope="module")
def rig(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerRig]:
    with server_rig(tmp_path_factory.mktemp("api")) as rig:
        rig.wait_ready_node()
        yield rig


@pytest.fixture(scope="module")
def task(rig: ServerRig) -> dict[str, str]:
    return started(rig, "asks")


def started(rig: ServerRig, job_id: str) -> dict[str, str]:
    """Returns the environment of a running task."""
    rig.register({"ID": job_id, "TaskGroups": [{"Name": "g", "Tasks": [TASK]}]})
    [alloc] = rig.wait_for(
        f"/v1/job/{job_id}/allocations",
        lambda found: bool(found) and found[0]["ClientStatus"] == "running",
    )
    printed = Path(rig.agent.config.alloc_root) / alloc["ID"] / "t" / "local" / "env"
    lines = until_blocking(lambda: printed.exists() and printed.read_text()).split("\0")
    return dict(line.split("=", 1) for line in lines if line)


def ask(task: dict[str, str], method: str, path: str, **options: Any) -> httpx.Response:
    address = task["NOMAD_UNIX_ADDR"]
    assert address == f"unix:{task['NOMAD_SECRETS_DIR']}/api.sock"
    with client_of(task) as client:
        return client.request(method, path, **options)


@contextlib.contextmanager
def client_of(task: dict[str, str], timeout_s: float = 20) -> Iterator[httpx.Client]:
    """The address of a socket has 107 bytes at most; paths of tests may be longer."""
    secrets = os.open(task["NOMAD_SECRETS_DIR"], os.O_PATH | os.O_DIRECTORY)
    transport = httpx.HTTPTransport(uds=f"/proc/self/fd/{secrets}/api.sock")
    try:
        with httpx.Client(
            transport=transport, base_url="http://localhost", timeout=timeout_s
        ) as client:
            yield client
    finally:
        os.close(secrets)


def test_task_reads_and_writes_the_api_with_its_token(task: dict[str, str]) -> None:
    token = {"Authorization": f"Bearer {task['NOMAD_TOKEN']}"}
    found = ask(task, "GET", "/v1/jobs", headers=token)
    assert "asks" in [each["ID"] for each in found.json()]
    assert found.headers["x-nomad-index"]
    variable = {"Path": "nomad/jobs/asks", "Items": {"k": "v" * 100_000}}
    written = ask(task, "PUT", "/v1/var/nomad/jobs/asks", headers=token, json=variable)
    assert written.status_code == 400
    variable["Items"] = {"k": "v" * 10_000}
    token = {"X-Nomad-Token": task["NOMAD_TOKEN"]}
    written = ask(task, "PUT", "/v1/var/nomad/jobs/asks", headers=token, json=variable)
    assert written.json()["Items"] == variable["Items"]


def test_request_without_a_token_of_a_workload_is_refused(task: dict[str, str]) -> None:
    assert ask(task, "GET", "/v1/jobs").status_code == 401
    forged = task["NOMAD_TOKEN"][:-8] + "AAAAAAAA"
    for token in ("nonsense", forged):
        answer = ask(task, "GET", "/v1/jobs", headers={"X-Nomad-Token": token})
        assert (answer.status_code, answer.text) == (403, "Forbidden")


def test_client_that_leaves_ends_its_blocking_query(task: dict[str, str]) -> None:
    token = {"X-Nomad-Token": task["NOMAD_TOKEN"]}
    index = ask(task, "GET", "/v1/jobs", headers=token).headers["x-nomad-index"]
    with client_of(task, timeout_s=0.3) as client, pytest.raises(httpx.ReadTimeout):
        client.get("/v1/jobs", params={"index": index, "wait": "60s"}, headers=token)
    assert ask(task, "GET", "/v1/jobs", headers=token).status_code == 200


def test_socket_is_served_again_after_the_agent_restarts_and_ends_with_the_allocation(
    rig: ServerRig,
) -> None:
    task = started(rig, "ends")
    token = {"X-Nomad-Token": task["NOMAD_TOKEN"]}
    rig.run(rig.agent.stop())
    with pytest.raises(httpx.ConnectError):
        ask(task, "GET", "/v1/jobs", headers=token)
    rig.run(rig.start_agent())

    def answered() -> bool:
        return ask(task, "GET", "/v1/jobs", headers=token).status_code == 200

    until_blocking(answered, retried=(httpx.ConnectError,))
    rig.http.delete("/v1/job/ends")
    rig.wait_for("/v1/job/ends/allocations", lambda found: found[0]["ClientStatus"] == "complete")
    with pytest.raises(httpx.ConnectError):
        ask(task, "GET", "/v1/jobs", headers=token)

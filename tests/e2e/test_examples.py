"""Every job of examples/jobs runs: `orchgit dev` pushes them all to its demo repository."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support import docker_engine
from tests.support.dev_server import DevServer, dev_server, git
from tests.support.image_registry import ImageRegistry

EXAMPLES = Path(__file__).parents[2] / "examples/jobs"


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DevServer]:
    """After its first rollout: a push before that end would make it a degraded one."""
    with dev_server(tmp_path_factory.mktemp("demo") / "data") as server:
        server.wait_for(
            "/v1/gitops/rollouts", lambda found: bool(found) and found[-1]["FinishedTime"] > 0
        )
        yield server


def test_demo_rollout_with_every_example_gets_healthy(demo: DevServer) -> None:
    rollout = demo.get("/v1/gitops/rollouts")[-1]
    assert rollout["Status"] == "healthy", rollout
    assert {each["File"] for each in rollout["Jobs"]} == {p.name for p in EXAMPLES.glob("*.hcl")}


def test_service_examples_run_and_batch_completes(demo: DevServer) -> None:
    for job_id, count in (("web", 1), ("rolling", 3), ("system", 1), ("sticky", 1)):
        demo.running_allocations(job_id, count)
    found = demo.wait_for(
        "/v1/job/batch/allocations",
        lambda answer: [each["ClientStatus"] for each in answer] == ["complete"],
    )
    assert "report of commit" in demo.log(found[0]["ID"], "report")


def test_periodic_example_is_launched_by_force(demo: DevServer) -> None:
    demo.wait_for("/v1/jobs", lambda found: any(each["ID"] == "periodic" for each in found))
    done = demo.cli("job", "periodic", "force", "periodic")
    assert done.code == 0, done.text
    jobs = demo.wait_for(
        "/v1/jobs",
        lambda found: any(
            each["ID"].startswith("periodic/periodic-") and each["Status"] == "dead"
            for each in found
        ),
    )
    assert jobs


def test_readme_steps_clone_edit_and_push_deploy_the_change(
    demo: DevServer, tmp_path: Path
) -> None:
    demo.running_allocations("web")
    git(tmp_path, "clone", f"{demo.address}/git/demo.git")
    clone = tmp_path / "demo"
    text = (clone / "web.nomad.hcl").read_text()
    (clone / "web.nomad.hcl").write_text(text.replace("Hello from orchgit", "Good morning"))
    git(clone, "commit", "-am", "Say good morning")
    pushed = git(clone, "push").text
    assert "~ web: update 1" in pushed
    assert "Healthy after" in pushed
    found = demo.cli("status")
    assert "web" in found.out


@pytest.mark.skipif(
    shutil.which("crun") is None and shutil.which("runc") is None, reason="no OCI runtime"
)
def test_isolated_example_runs_as_nobody_in_its_own_pid_namespace(shared_dev: DevServer) -> None:
    example = str(EXAMPLES / "isolated.nomad.hcl")
    done = shared_dev.cli("job", "run", "-var", "isolated=true", example)
    assert done.code == 0, done.text
    [alloc] = shared_dev.wait_for(
        "/v1/job/isolated/allocations",
        lambda found: [each["ClientStatus"] for each in found] == ["complete"],
    )
    assert shared_dev.log(alloc["ID"], "probe") == "pid 1 as nobody\n"


@docker_engine.needs_docker
@pytest.mark.docker
def test_docker_example_runs_in_a_container(tmp_path: Path) -> None:
    engine = docker_engine.engine()
    config = tmp_path / "agent.hcl"
    config.write_text(
        f'plugin "docker" {{\n  config {{\n    endpoint = "{engine.endpoint}"\n  }}\n}}\n'
    )
    with (
        ImageRegistry().serve() as registry,
        dev_server(tmp_path / "data", "-no-demo", "-config", str(config)) as server,
    ):
        registry.put("box", docker_engine.image_tar("of the example"))
        image = f"{registry.address}/box:1"
        server.wait_for(
            "/v1/nodes", lambda nodes: nodes[0]["Drivers"]["docker"]["Healthy"], timeout_s=30
        )
        done = server.cli(
            *("job", "run", "-var", "docker=true", "-var", f"image={image}"),
            str(EXAMPLES / "docker.nomad.hcl"),
        )
        assert done.code == 0, done.text
        [alloc] = server.running_allocations("docker")
        assert server.log(alloc["ID"], "box") == "inside a container\n"
        server.wait_for(
            f"/v1/allocation/{alloc['ID']}",
            lambda found: (
                f"Downloading image {image}"
                in [event["DisplayMessage"] for event in found["TaskStates"]["box"]["Events"]]
            ),
        )
        # Tests share the engine: other containers may run in it.
        own = {"name": alloc["ID"]}
        with engine.client() as api:
            [container] = api.containers(filters=own)
            server.kill9()
            server.start()
            [kept] = server.running_allocations("docker")
            assert kept["ID"] == alloc["ID"]
            assert [each["Id"] for each in api.containers(filters=own)] == [container["Id"]]
            stopped = server.cli("job", "stop", "-yes", "docker")
            assert stopped.code == 0, stopped.text
            server.wait_for(
                f"/v1/allocation/{alloc['ID']}", lambda found: found["ClientStatus"] == "complete"
            )
            assert api.containers(filters=own) == []

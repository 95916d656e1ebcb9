"""The request made from a docker task's config."""

from __future__ import annotations

from pathlib import Path

import pytest

from agent.drivers.base import TaskPort, TaskResources
from agent.drivers.config import decode_config
from agent.drivers.docker.config import DockerConfig
from agent.drivers.docker.container import container_name, container_request
from agent.drivers.docker.options import DockerOptions, DockerVolumeOptions
from orchgit.errors import DriverError
from tests.support.driver_rigs import task_config

_PORTS = (TaskPort("http", 23456, 80, "10.0.0.1"), TaskPort("admin", 23457))


_CAUTIOUS = DockerOptions()
_ALLOC_ID = "6b6f2a54-0000-4000-8000-000000000001"


def request(directory: Path, options: DockerOptions = _CAUTIOUS, **config: object) -> dict:
    resources = config.pop("_resources", TaskResources())
    task = task_config(directory, {}, alloc_id=_ALLOC_ID, ports=_PORTS, resources=resources)
    decoded = decode_config("docker", "web", {"image": "i", **config}, DockerConfig)
    return container_request(task, decoded, options, cores=4)


def test_ports_are_published_where_they_were_given(tmp_path: Path) -> None:
    made = request(tmp_path, ports=["http", "admin"])
    assert made["HostConfig"]["PortBindings"] == {
        "80/tcp": [{"HostIp": "10.0.0.1", "HostPort": "23456"}],
        "80/udp": [{"HostIp": "10.0.0.1", "HostPort": "23456"}],
        "23457/tcp": [{"HostIp": "", "HostPort": "23457"}],
        "23457/udp": [{"HostIp": "", "HostPort": "23457"}],
    }
    assert set(made["ExposedPorts"]) == set(made["HostConfig"]["PortBindings"])
    assert request(tmp_path, ports=["http"], network_mode="host")["ExposedPorts"] == {}


def test_command_and_entrypoint_are_the_images_unless_given(tmp_path: Path) -> None:
    assert not {"Cmd", "Entrypoint"} & set(request(tmp_path))
    made = request(tmp_path, command="serve", args=["-v"], entrypoint=["/init"])
    assert (made["Cmd"], made["Entrypoint"]) == (["serve", "-v"], ["/init"])
    assert request(tmp_path, args=["-v"])["Cmd"] == ["-v"]


@pytest.mark.parametrize(
    ("resources", "config", "expected"),
    [
        (TaskResources(memory_mb=64), {}, {"Memory": 64 << 20, "MemorySwap": 64 << 20}),
        (
            TaskResources(memory_mb=64, memory_max_mb=128),
            {},
            {"Memory": 128 << 20, "MemoryReservation": 64 << 20},
        ),
        (TaskResources(memory_mb=64), {"memory_hard_limit": 256}, {"Memory": 256 << 20}),
        (TaskResources(cpu_shares=500), {}, {"CpuShares": 500}),
        (TaskResources(reserved_cores=(1, 3)), {}, {"CpusetCpus": "1,3"}),
        (TaskResources(reserved_cores=(1, 3)), {"cpu_hard_limit": True}, {"CpuQuota": 200_000}),
        (TaskResources(cpu_fraction=0.125), {"cpu_hard_limit": True}, {"CpuQuota": 50_000}),
        (TaskResources(), {"cpuset_cpus": "0-1"}, {"CpusetCpus": "0-1"}),
    ],
)
def test_limits(
    tmp_path: Path, resources: TaskResources, config: dict[str, object], expected: dict[str, object]
) -> None:
    host = request(tmp_path, _resources=resources, **config)["HostConfig"]
    assert {name: host[name] for name in expected} == expected


def test_blocks_come_as_maps_or_as_lists_of_maps(tmp_path: Path) -> None:
    for ulimit in ({"nofile": "10:20", "core": "0"}, [{"nofile": "10:20"}, {"core": "0"}]):
        assert request(tmp_path, ulimit=ulimit)["HostConfig"]["Ulimits"] == [
            {"Name": "nofile", "Soft": 10, "Hard": 20},
            {"Name": "core", "Soft": 0, "Hard": 0},
        ]
    with pytest.raises(DriverError, match="cannot set ulimit nofile"):
        request(tmp_path, ulimit={"nofile": "many"})
    for block in ({"disable": True}, [{"disable": True}]):
        assert request(tmp_path, healthchecks=block)["Healthcheck"] == {"Test": ["NONE"]}
    logging = [{"type": "journald", "config": [{"tag": "x"}]}]
    expected = {"Type": "journald", "Config": {"tag": "x"}}
    assert request(tmp_path, logging=logging)["HostConfig"]["LogConfig"] == expected


def test_addresses_and_names_in_a_network(tmp_path: Path) -> None:
    made = request(tmp_path, network_mode="front", ipv4_address="10.1.2.3", network_aliases=["web"])
    assert made["NetworkingConfig"] == {
        "EndpointsConfig": {
            "front": {"IPAMConfig": {"IPv4Address": "10.1.2.3"}, "Aliases": ["web"]}
        }
    }


def test_plugin_options_allow_privileged_tasks_and_volumes(tmp_path: Path) -> None:
    trusted = DockerOptions(allow_privileged=True, volumes=DockerVolumeOptions(enabled=True))
    host = request(tmp_path, trusted, privileged=True, volumes=["/etc:/x:ro"])["HostConfig"]
    assert host["Privileged"] is True
    assert host["Binds"] == ["/etc:/x:ro"]


@pytest.mark.parametrize("source", ["/", "/etc", "../../..", "local/out"])
def test_no_path_outside_the_allocation_is_mounted(tmp_path: Path, source: str) -> None:
    """Not by a link that the task made either."""
    task = task_config(tmp_path, {}, alloc_id=_ALLOC_ID)
    (Path(task.task_dir.local_dir) / "out").symlink_to("/etc")
    with pytest.raises(DriverError, match="only paths in the allocation's directory"):
        request(tmp_path, volumes=[f"{source}:/x"])


def test_names_are_fit_for_the_engine(tmp_path: Path) -> None:
    task = task_config(tmp_path, {}, attempt=3)
    assert container_name(task) == f"web-{task.alloc_id}-3"

"""What a podman task asks of the engine, and what is refused before it is asked."""

from __future__ import annotations

from pathlib import Path

import pytest

from agent.drivers.base import NetworkIsolation, TaskResources
from agent.drivers.config import decode_options
from agent.drivers.docker.flavour import PreparedContainer
from agent.drivers.podman.config import PodmanOptions
from agent.drivers.podman.flavour import PodmanFlavour
from orchgit.errors import DriverError
from tests.support.driver_rigs import task_config

_MIB = 1 << 20


def prepared(
    directory: Path,
    config: dict[str, object],
    network: NetworkIsolation | None = None,
    **options: object,
) -> PreparedContainer:
    task = task_config(
        directory,
        {"image": "i:1", **config},
        resources=TaskResources(memory_mb=100),
        network=network,
    )
    return PodmanFlavour(decode_options("podman", options, PodmanOptions)).prepare(task)


def host_config(wanted: PreparedContainer) -> dict[str, object]:
    host = wanted.request["HostConfig"]
    assert isinstance(host, dict)
    return host


@pytest.mark.parametrize(
    ("image", "root", "path", "named"),
    [
        ("docker-archive:/local/a.tar", "web/local", "a.tar", ""),
        ("docker-archive:/alloc/data/a.tar:r/x:1", "alloc", "data/a.tar", "r/x:1"),
        ("oci-archive:local/a.tar:1", "web", "local/a.tar", ""),
        ("oci-archive:/srv/a.tar", None, "/srv/a.tar", ""),
    ],
)
def test_archive_is_looked_for_where_the_job_says(
    tmp_path: Path, image: str, root: str | None, path: str, named: str
) -> None:
    wanted = prepared(tmp_path, {"image": image}).image
    assert wanted.archive == path
    assert wanted.archive_root.endswith(f"/{root}" if root else "")
    assert bool(wanted.archive_root) == bool(root)
    assert wanted.is_named == bool(named)
    assert wanted.name.given == image
    if named:
        assert wanted.name.local_name == named


@pytest.mark.parametrize("key", ["tlsVerify", "tls_verify"])
def test_certificate_of_the_registry_is_checked_unless_the_job_says_otherwise(
    tmp_path: Path, key: str
) -> None:
    assert not prepared(tmp_path, {}).image.name.skip_tls_verify
    assert not prepared(tmp_path, {"auth": {key: True}}).image.name.skip_tls_verify
    assert prepared(tmp_path, {"auth": {key: False}}).image.name.skip_tls_verify


@pytest.mark.parametrize(
    ("driver", "asked", "is_readable"),
    [
        ("nomad", "k8s-file", True),
        ("", "k8s-file", True),
        ("journald", "journald", False),
        ("none", "none", False),
    ],
)
def test_output_is_read_from_drivers_that_give_it_back(
    tmp_path: Path, driver: str, asked: str, is_readable: bool
) -> None:
    wanted = prepared(tmp_path, {"logging": {"driver": driver}})
    assert host_config(wanted)["LogConfig"] == {"Type": asked, "Config": {}}
    assert wanted.has_readable_logs == is_readable


def test_swap_may_have_no_limit_or_one_above_the_memory(tmp_path: Path) -> None:
    assert host_config(prepared(tmp_path, {"memory_swap": "-1"}))["MemorySwap"] == -1
    assert host_config(prepared(tmp_path, {"memory_swap": "150m"}))["MemorySwap"] == 150 * _MIB
    assert host_config(prepared(tmp_path, {}))["MemorySwap"] == 100 * _MIB


@pytest.mark.parametrize(
    ("config", "options", "reason"),
    [
        ({"memory_swap": "50m"}, {}, "memory_swap .* below the task's memory of 100 MiB"),
        ({"memory_reservation": "500m"}, {}, "memory_reservation .* above the task's memory"),
        ({"memory_swappiness": 101}, {}, "cannot set memory_swappiness to 101: use 0 to 100"),
        ({"memory_swappiness": -1}, {}, "cannot set memory_swappiness to -1"),
        ({"logging": {"driver": "syslog"}}, {}, 'logging driver "syslog" of podman: use nomad'),
        ({"image": "docker-archive:"}, {}, "write docker-archive:PATH"),
        ({"image": "oci-archive:https://h/a.tar"}, {}, "an artifact block downloads"),
        (
            {"image": "docker-archive:/etc/shadow"},
            {"volumes": {"enabled": False}},
            "podman.volumes.enabled",
        ),
        ({"auth": {"tls_verfy": False}}, {}, "tls_verfy.*tls_verify"),
    ],
)
def test_what_cannot_work_is_refused_before_the_engine_is_asked(
    tmp_path: Path, config: dict[str, object], options: dict[str, object], reason: str
) -> None:
    with pytest.raises(DriverError, match=reason):
        prepared(tmp_path, config, **options)


def test_container_has_the_host_name_of_its_group(tmp_path: Path) -> None:
    network = NetworkIsolation(mode="bridge", namespace="/ns", hostname="shop")
    assert prepared(tmp_path, {}, network).request["Hostname"] == "shop"


def test_in_the_groups_network_the_nodes_dns_is_left_out_and_hosts_are_added(
    tmp_path: Path,
) -> None:
    hosts = tmp_path / "hosts"
    hosts.write_text("127.0.0.1 localhost\n")
    network = NetworkIsolation(mode="bridge", namespace="/ns", hosts_file=str(hosts))
    wanted = prepared(tmp_path, {"extra_hosts": ["db:10.0.0.9"]}, network, dns_servers=["10.0.0.3"])
    host = host_config(wanted)
    assert (host["NetworkMode"], host["Dns"], host["ExtraHosts"]) == ("ns:/ns", [], [])
    mounts = host["Mounts"]
    assert isinstance(mounts, list)
    (mounted,) = [mount["Source"] for mount in mounts if mount["Target"] == "/etc/hosts"]
    assert Path(mounted).read_text() == "127.0.0.1 localhost\n10.0.0.9 db\n"
    assert host_config(prepared(tmp_path, {}, dns_servers=["10.0.0.3"]))["Dns"] == ["10.0.0.3"]

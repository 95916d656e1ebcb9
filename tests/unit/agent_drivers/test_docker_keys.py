"""Every key of a docker task and every option of the plugin has an effect."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from agent.drivers.base import TaskPort, TaskResources
from agent.drivers.config import decode_options
from agent.drivers.docker.config import DockerConfig
from agent.drivers.docker.driver import DockerFlavour
from agent.drivers.docker.flavour import EngineSettings, PreparedContainer
from agent.drivers.docker.options import DockerOptions
from agent.drivers.podman.config import PodmanConfig, PodmanOptions
from agent.drivers.podman.flavour import PodmanFlavour
from orchgit.errors import DriverError
from tests.support.driver_rigs import task_config

DOCKER_KEYS: dict[str, object] = {
    "image": "other:1",
    "platform": "linux/arm64",
    "load": "image.tar",
    "force_pull": True,
    "image_pull_timeout": "1m",
    "auth": {"username": "a", "password": "b"},
    "auth_soft_fail": True,
    "command": "/bin/x",
    "args": ["a"],
    "entrypoint": ["/init"],
    "ports": ["http"],
    "port_map": {"http": 80},
    "network_mode": "host",
    "network_aliases": ["web"],
    "ipv4_address": "10.0.0.2",
    "ipv6_address": "fd00::2",
    "mac_address": "02:42:ac:11:00:02",
    "advertise_ipv6_address": True,
    "hostname": "h",
    "extra_hosts": ["a:10.0.0.1"],
    "dns_servers": ["10.0.0.3"],
    "dns_search_domains": ["example.org"],
    "dns_options": ["ndots:1"],
    "volumes": ["/srv:/srv"],
    "volume_driver": "local",
    "mount": {"type": "tmpfs", "target": "/t", "tmpfs_options": {"size": 1000, "mode": 511}},
    "mounts": [{"type": "volume", "target": "/v", "source": "v", "volume_options": {}}],
    "devices": [{"host_path": "/dev/null"}],
    "labels": {"a": "b"},
    "work_dir": "/w",
    "init": True,
    "interactive": True,
    "tty": True,
    "privileged": True,
    "readonly_rootfs": True,
    "cap_add": ["net_raw"],
    "cap_drop": ["chown"],
    "group_add": ["5"],
    "security_opt": ["no-new-privileges"],
    "sysctl": {"net.core.somaxconn": "16384"},
    "ulimit": {"nofile": "1:2"},
    "storage_opt": {"size": "1G"},
    "pid_mode": "host",
    "ipc_mode": "private",
    "userns_mode": "host",
    "uts_mode": "host",
    "cgroupns": "host",
    "shm_size": 1000,
    "pids_limit": 20,
    "memory_hard_limit": 900,
    "cpu_hard_limit": True,
    "cpu_cfs_period": 50_000,
    "cpuset_cpus": "0",
    "oom_score_adj": 100,
    "runtime": "runc",
    "logging": {"type": "journald"},
    "healthchecks": {"disable": True},
    "container_exists_attempts": 9,
}
PODMAN_KEYS: dict[str, object] = {
    **{
        name: DOCKER_KEYS[name]
        for name in (
            *("image", "force_pull", "image_pull_timeout", "auth", "auth_soft_fail", "command"),
            *("args", "entrypoint", "labels", "hostname", "ports", "network_mode", "extra_hosts"),
            *("dns_servers", "volumes", "init", "tty", "privileged", "readonly_rootfs", "cap_add"),
            *("cap_drop", "security_opt", "sysctl", "ulimit", "pids_limit", "cpu_hard_limit"),
            "cpu_cfs_period",
        )
    },
    "working_dir": "/w",
    "tmpfs": ["/t"],
    "devices": ["/dev/null"],
    "selinux_opts": ["type:x"],
    "apparmor_profile": "p",
    "userns": "auto",
    "shm_size": "9m",
    "memory_reservation": "9m",
    "memory_swap": "900m",
    "memory_swappiness": 3,
    "logging": {"driver": "journald"},
}
_NEEDS = {"cpu_cfs_period": {"cpu_hard_limit": True}, "volume_driver": {"volumes": ["v:/v"]}}
_ALL_ALLOWED = {
    "allow_privileged": True,
    "allow_caps": ["all"],
    "volumes": {"enabled": True},
}


def prepared(
    directory: Path, engine: str, config: dict[str, object], **options: object
) -> tuple[PreparedContainer, EngineSettings]:
    task = task_config(
        directory,
        {"image": "i:1", **config},
        ports=(TaskPort("http", 23456),),
        resources=TaskResources(cpu_fraction=0.5),
        job_id="j",
    )
    given = {**_ALL_ALLOWED, **options}
    flavour = (
        DockerFlavour(decode_options("docker", given, DockerOptions))
        if engine == "docker"
        else PodmanFlavour(decode_options("podman", given, PodmanOptions))
    )
    return flavour.prepare(task), flavour.settings


@pytest.mark.parametrize(
    ("engine", "name"),
    [
        *(("docker", field.encode_name) for field in msgspec.structs.fields(DockerConfig)),
        *(("podman", field.encode_name) for field in msgspec.structs.fields(PodmanConfig)),
    ],
)
def test_every_key_changes_what_the_engine_is_asked(tmp_path: Path, engine: str, name: str) -> None:
    keys = DOCKER_KEYS if engine == "docker" else PODMAN_KEYS
    base = _NEEDS.get(name, {})
    without, _ = prepared(tmp_path, engine, dict(base))
    with_it, _ = prepared(tmp_path, engine, {**base, name: keys[name]})
    assert with_it != without


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("endpoint", "unix:///x"),
        ("tls", {"ca": "/ca"}),
        ("auth", {"helper": "h"}),
        ("gc", {"image": False}),
        ("pull_activity_timeout", "9s"),
        ("pids_limit", 9),
        ("container_exists_attempts", 9),
        ("extra_labels", ["job_id"]),
        ("logging", {"type": "journald"}),
        ("disable_log_collection", True),
        ("volumes", {"enabled": True, "selinuxlabel": "z"}),
    ],
)
def test_every_option_changes_the_driver_or_its_requests(
    tmp_path: Path, name: str, value: object
) -> None:
    assert prepared(tmp_path, "docker", {}, **{name: value}) != prepared(tmp_path, "docker", {})


@pytest.mark.parametrize(
    ("config", "reason"),
    [
        ({"gpus": "all"}, 'cannot use gpus .* device "nvidia/gpu"'),
        ({"isolation": "hyperv"}, "cannot use isolation .* Windows"),
        ({"runtime": "kata"}, "docker.allow_runtimes"),
        ({"pids_limit": 100}, "docker.pids_limit"),
        ({"cgroupns": "x"}, 'cannot set cgroupns to "x": use host or private'),
        ({"shm_size": -1}, "cannot set shm_size to -1"),
        ({"cap_add": ["sys_admin"]}, "docker.allow_caps"),
        ({"volumes": ["/a:/b:x"]}, '"x" is none of'),
        ({"pul_timeout": "1m"}, "pul_timeout"),
        ({"mount": {"target": "/x", "readnly": True}}, r'"mount\.readnly".*"(mount\.)?readonly"'),
    ],
)
def test_what_cannot_be_had_is_refused_with_the_way_out(
    tmp_path: Path, config: dict[str, object], reason: str
) -> None:
    with pytest.raises(DriverError, match=reason):
        prepared(tmp_path, "docker", config, pids_limit=50, allow_caps=["chown"])

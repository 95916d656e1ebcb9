"""`podman` by its service socket: what the conformance suite does not ask."""

from __future__ import annotations

import asyncio
import os
import secrets
import signal
from collections.abc import Awaitable, Callable
from pathlib import Path

import docker
import msgspec
import psutil
import pytest

from agent.drivers import cgroups
from agent.drivers.base import (
    ExitResult,
    Mount,
    NetworkIsolation,
    TaskConfig,
    TaskHandle,
    TaskPort,
    TaskResources,
)
from agent.drivers.config import decode_options
from agent.drivers.docker.process_watch import NOTICE_S
from agent.drivers.podman.config import PodmanOptions
from agent.drivers.podman.driver import PodmanDriver
from agent.networks import namespaces
from agent.supervisor import proc
from orchgit.clock import FakeClock, SystemClock
from orchgit.errors import DriverError
from tests.support import podman_engine
from tests.support.docker_engine import image_tar
from tests.support.driver_rigs import log_text, task_config
from tests.support.image_registry import PASSWORD, USER, ImageRegistry
from tests.support.polling import until

pytestmark = [podman_engine.needs_podman, pytest.mark.long]


def task(directory: Path, text: str, config: dict[str, object], **fields: object) -> TaskConfig:
    given = {"image": podman_engine.IMAGE, "network_mode": "host", "command": "/bin/sh"}
    alloc_id = f"{secrets.token_hex(4)}-0000-4000-8000-000000000007"
    whole = {**given, "args": ["-c", text], **config}
    return task_config(directory, whole, alloc_id=alloc_id, **fields)


def run(
    directory: Path, scenario: Callable[[PodmanDriver], Awaitable[None]], **options: object
) -> None:
    async def body() -> None:
        given = {"socket_path": f"unix:{podman_engine.socket()}", **options}
        made = PodmanDriver(
            directory, decode_options("podman", given, PodmanOptions), SystemClock()
        )
        try:
            async with asyncio.timeout(60):
                await scenario(made)
        finally:
            await made.close()

    asyncio.run(body())


def run_once(directory: Path, wanted: TaskConfig, **options: object) -> str:
    async def scenario(made: PodmanDriver) -> None:
        handle = await made.start_task(wanted)
        await made.wait_task(handle)
        await made.destroy_task(handle)

    run(directory, scenario, **options)
    return log_text(wanted)


def test_keys_of_the_config_reach_the_container(tmp_path: Path) -> None:
    volume = tmp_path / "volume"
    volume.mkdir()
    (volume / "greeting").write_text("hello\n")
    config: dict[str, object] = {
        "volumes": [f"{volume}:/data:ro"],
        "tmpfs": ["/scratch"],
        "working_dir": "/data",
        "labels": {"team": "a"},
        "ulimit": {"nofile": "512:512", "nproc": "4096"},
        "cap_drop": ["all"],
        "readonly_rootfs": True,
        "memory_reservation": "40m",
        "shm_size": "8m",
        "pids_limit": 50,
    }
    text = (
        "cat greeting; touch /scratch/a && echo made; touch /x || echo frozen; ulimit -n; echo $A;"
        "cat /proc/self/status | while read n v; do [ $n = CapEff: ] && echo $v; done; exit 0"
    )
    wanted = task(tmp_path, text, config, env={"A": "b c"}, resources=TaskResources(memory_mb=64))
    told: list[dict] = []

    async def scenario(made: PodmanDriver) -> None:
        handle = await made.start_task(wanted)
        with docker.APIClient(f"unix://{podman_engine.socket()}", version="auto") as api:
            told.append(api.inspect_container(handle.state["container"]))
        assert (await made.wait_task(handle)).successful
        await made.destroy_task(handle)

    run(tmp_path, scenario)
    assert log_text(wanted).split("\n")[:-1] == [
        *("hello", "made", "frozen", "512", "b c", "0000000000000000")
    ]
    host = told[0]["HostConfig"]
    assert (host["Memory"], host["MemoryReservation"]) == (64 << 20, 40 << 20)
    assert (host["ShmSize"], host["PidsLimit"]) == (8 << 20, 50)
    assert told[0]["Config"]["Labels"]["team"] == "a"


@pytest.mark.parametrize(
    ("config", "options", "reason"),
    [
        ({"privileged": True}, {}, "podman.allow_privileged"),
        ({"cap_add": ["sys_admin"]}, {}, "podman.allow_caps"),
        ({"volumes": ["/etc:/x"]}, {"volumes": {"enabled": False}}, "podman.volumes.enabled"),
        ({"network_mode": "task:web"}, {}, "cannot share the network of task web"),
        ({"shm_size": "lots"}, {}, 'cannot set shm_size to "lots"'),
        ({"devices": ["a:b:c:d"]}, {}, 'cannot use device "a:b:c:d"'),
        ({"volume": ["x"]}, {}, r'"volume".*"volumes"'),
        ({"init_path": "/x"}, {}, "cannot use init_path in the podman config"),
    ],
)
def test_what_the_node_does_not_allow_is_refused(
    tmp_path: Path, config: dict[str, object], options: dict[str, object], reason: str
) -> None:
    async def scenario(made: PodmanDriver) -> None:
        with pytest.raises(DriverError, match=reason):
            await made.start_task(task(tmp_path, "true", config))

    run(tmp_path, scenario, **options)


def test_container_joins_the_network_namespace_of_its_group(tmp_path: Path) -> None:
    hosts = tmp_path / "hosts"
    hosts.write_text("10.9.9.9 other\n")
    path = tmp_path / "namespace"

    async def scenario(made: PodmanDriver) -> None:
        await namespaces.create(path)
        network = NetworkIsolation(mode="bridge", namespace=str(path), hosts_file=str(hosts))
        wanted = task(
            tmp_path,
            "ls -l /proc/self/ns/net; cat /etc/hosts",
            {"network_mode": "", "ports": ["http"]},
            network=network,
            ports=(TaskPort("http", 8080),),
        )
        handle = await made.start_task(wanted)
        await made.wait_task(handle)
        await made.destroy_task(handle)
        said = log_text(wanted)
        assert f"net:[{path.stat().st_ino}]" in said
        assert "10.9.9.9 other" in said

    try:
        run(tmp_path, scenario)
    finally:
        namespaces.remove(path)


def test_protected_image_is_pulled_with_the_jobs_credentials(tmp_path: Path) -> None:
    with ImageRegistry(True, port=podman_engine.registry_port()).serve() as served:
        name = secrets.token_hex(6)
        served.put(name, image_tar(name))
        config: dict[str, object] = {
            "image": f"{served.address}/{name}:1",
            "auth": {"username": USER, "password": PASSWORD},
        }
        assert run_once(tmp_path, task(tmp_path, "cat /mark", config)) == name


def test_volume_of_the_group_is_mounted_read_only(tmp_path: Path) -> None:
    volume = tmp_path / "volume"
    volume.mkdir()
    mounts = (Mount(str(volume), "/frozen", read_only=True),)
    wanted = task(tmp_path, "touch /frozen/x || echo no", {}, mounts=mounts)
    assert run_once(tmp_path, wanted) == "no\n"


def test_registry_without_a_certificate_is_used_where_the_job_says_so(tmp_path: Path) -> None:
    with ImageRegistry(True).serve() as served:
        name = secrets.token_hex(6)
        served.put(name, image_tar(name))
        login = {"username": USER, "password": PASSWORD}
        config: dict[str, object] = {"image": f"{served.address}/{name}:1"}
        text = "cat /mark"

        async def scenario(made: PodmanDriver) -> None:
            with pytest.raises(DriverError, match=r"TLS handshake|HTTPS"):
                await made.start_task(task(tmp_path, text, {**config, "auth": login}))

        run(tmp_path, scenario)
        wrong = {**login, "password": "wrong", "tlsVerify": False}

        async def refused(made: PodmanDriver) -> None:
            with pytest.raises(DriverError, match="cannot pull image"):
                await made.start_task(task(tmp_path, text, {**config, "auth": wrong}))

        run(tmp_path, refused)
        config["auth"] = {**login, "tlsVerify": False}
        assert run_once(tmp_path, task(tmp_path, text, config)) == name


@pytest.mark.parametrize("kind", ["docker-archive", "oci-archive"])
def test_image_is_loaded_from_an_archive_of_the_task(tmp_path: Path, kind: str) -> None:
    wanted = task(tmp_path, "echo loaded", {"image": f"{kind}:/local/image.tar"})
    with docker.APIClient(f"unix://{podman_engine.socket()}", version="auto") as api:
        url = f"{api.base_url}/v4.0.0/libpod/images/{podman_engine.IMAGE}/get"
        archive = api.get(url, params={"format": kind})
        archive.raise_for_status()
    Path(wanted.task_dir.local_dir, "image.tar").write_bytes(archive.content)
    assert run_once(tmp_path, wanted) == "loaded\n"


@pytest.mark.parametrize("driver", ["none", "passthrough"])
def test_task_whose_output_the_engine_does_not_keep_ends(tmp_path: Path, driver: str) -> None:
    wanted = task(tmp_path, "echo unseen; exit 3", {"logging": {"driver": driver}})

    async def scenario(made: PodmanDriver) -> None:
        handle = await made.start_task(wanted)
        assert (await made.wait_task(handle)).exit_code == 3
        await made.destroy_task(handle)

    run(tmp_path, scenario)
    assert log_text(wanted) == ""


def test_no_line_is_lost_when_the_agent_is_restarted(tmp_path: Path) -> None:
    """The engine tells only the second in which a line was written."""
    text = "n=0; while [ $n -lt 300 ]; do echo $n; n=$((n+1)); sleep 0.01; done"
    wanted = task(tmp_path, text, {})
    handles: list[TaskHandle] = []

    async def begin(made: PodmanDriver) -> None:
        handles.append(await made.start_task(wanted))
        await until(lambda: "10" in log_text(wanted).split())

    async def go_on(made: PodmanDriver) -> None:
        assert await made.recover_task(handles[0])
        lines = len(log_text(wanted).split())
        await until(lambda: len(log_text(wanted).split()) > lines)

    async def finish(made: PodmanDriver) -> None:
        await made.wait_task(handles[0])
        await made.destroy_task(handles[0])

    run(tmp_path, begin)
    run(tmp_path, go_on)
    run(tmp_path, finish)
    lines = log_text(wanted).split()
    assert [number for number in map(str, range(300)) if number not in lines] == []


@pytest.mark.skipif(
    "memory" not in cgroups.detect().controllers and cgroups.detect().mode != "v2",
    reason="needs a memory controller",
)
def test_task_beyond_its_memory_limit_is_reported_out_of_memory(tmp_path: Path) -> None:
    results: list[ExitResult] = []

    async def scenario(made: PodmanDriver) -> None:
        for text in ("x=a; while :; do x=$x$x; done", "sleep 1000"):
            wanted = task(tmp_path, text, {}, resources=TaskResources(memory_mb=20))
            handle = await made.start_task(wanted)
            if "sleep" in text:
                await made.signal_task(handle, "SIGKILL")
            results.append(await made.wait_task(handle))
            await made.destroy_task(handle)

    run(tmp_path, scenario)
    assert [(each.exit_code, each.oom_killed) for each in results] == [(137, True), (137, False)]


def test_end_that_podman_does_not_notice_is_reported(tmp_path: Path) -> None:
    """Podman hears of an end from conmon. Where that was killed too, the kernel still tells."""
    results: list[ExitResult] = []
    clock = FakeClock()

    async def scenario() -> None:
        options = PodmanOptions(socket_path=f"unix:{podman_engine.socket()}")
        made = PodmanDriver(tmp_path, options, clock)
        handle = await made.start_task(task(tmp_path, "exec sleep 1000", {}))
        os.kill(psutil.Process(handle.pid).ppid(), signal.SIGKILL)
        os.kill(handle.pid, signal.SIGKILL)
        waiting = asyncio.create_task(made.wait_task(handle))

        while not waiting.done():
            await clock.advance(NOTICE_S)
            await asyncio.wait([waiting], timeout=0.05)
        results.append(await waiting)
        await made.destroy_task(handle)
        await made.close()

    asyncio.run(asyncio.wait_for(scenario(), 120))
    assert [each.exit_code for each in results] == [-1]
    assert "podman has not noticed" in results[0].error


def test_running_container_whose_process_the_agent_does_not_see_goes_on(tmp_path: Path) -> None:
    """An engine that counts pids in another namespace names a pid that is another process here."""
    clock = FakeClock()

    async def scenario() -> None:
        options = PodmanOptions(socket_path=f"unix:{podman_engine.socket()}")
        made = PodmanDriver(tmp_path, options, clock)
        handle = await made.start_task(task(tmp_path, "exec sleep 1000", {}))
        assert int(handle.state["ticks"]) == proc.start_ticks(handle.pid)
        await made.close()
        made = PodmanDriver(tmp_path, options, clock)
        state = {name: text for name, text in handle.state.items() if name != "ticks"}
        other = await asyncio.create_subprocess_exec("sleep", "1000")
        handle = msgspec.structs.replace(handle, pid=other.pid, state=state)
        assert await made.recover_task(handle)
        other.kill()
        await other.wait()
        waiting = asyncio.create_task(made.wait_task(handle))
        for _ in range(3):
            await clock.advance(NOTICE_S)
            await asyncio.wait([waiting], timeout=0.2)
        assert not waiting.done()
        await made.destroy_task(handle)
        await made.close()
        await asyncio.gather(waiting, return_exceptions=True)

    asyncio.run(asyncio.wait_for(scenario(), 120))

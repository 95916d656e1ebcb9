"""Images of docker tasks: pulled with credentials, once for many tasks, loaded, removed."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import json
import os
import secrets
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from agent.drivers.base import TaskConfig
from agent.drivers.config import decode_options
from agent.drivers.docker.driver import DockerDriver
from agent.drivers.docker.options import DockerOptions
from orchgit.clock import Clock, FakeClock, SystemClock
from orchgit.errors import DriverError
from tests.support import docker_engine
from tests.support.driver_rigs import log_text, task_config
from tests.support.image_registry import PASSWORD, USER, ImageRegistry
from tests.support.polling import until

pytestmark = [docker_engine.needs_docker, pytest.mark.docker]

LOGIN = {"username": USER, "password": PASSWORD}


@contextlib.contextmanager
def registry(protected: bool = False) -> Iterator[ImageRegistry]:
    with ImageRegistry(protected).serve() as served:
        yield served


def fresh(served: ImageRegistry, **fields: str) -> str:
    """The address of an image that no engine has yet."""
    name = secrets.token_hex(6)
    served.put(name, docker_engine.image_tar(name), **fields)
    return f"{served.address}/{name}:1"


def task(directory: Path, image: str, text: str = "echo ran", **config: object) -> TaskConfig:
    given = {"image": image, "network_mode": "host", "command": "/bin/sh", "args": ["-c", text]}
    alloc_id = f"{secrets.token_hex(4)}-0000-4000-8000-000000000005"
    return task_config(directory, {**given, **config}, alloc_id=alloc_id)


@contextlib.asynccontextmanager
async def a_driver(
    directory: Path, clock: Clock | None = None, told: list[str] | None = None, **options: object
) -> AsyncIterator[DockerDriver]:
    endpoint = docker_engine.engine().endpoint
    decoded = decode_options("docker", {"endpoint": endpoint, **options}, DockerOptions)

    def report(alloc_id: str, task: str, message: str) -> None:
        if told is not None:
            told.append(message)

    made = DockerDriver(directory, decoded, clock or SystemClock(), report)
    try:
        async with asyncio.timeout(60):
            yield made
    finally:
        await made.close()


async def run_to_end(made: DockerDriver, wanted: TaskConfig) -> str:
    handle = await made.start_task(wanted)
    await made.wait_task(handle)
    await made.destroy_task(handle)
    return log_text(wanted)


def test_image_is_pulled_and_the_task_told_of_it(tmp_path: Path) -> None:
    async def body() -> None:
        told: list[str] = []
        async with a_driver(tmp_path, told=told) as made:
            assert await run_to_end(made, task(tmp_path, image)) == "ran\n"
            assert told == [f"Downloading image {image}"]
            assert await run_to_end(made, task(tmp_path, image)) == "ran\n"
            assert len(told) == 1  # the engine has it now

    with registry() as served:
        image = fresh(served)
        asyncio.run(body())


def test_image_is_pulled_by_its_digest(tmp_path: Path) -> None:
    async def body() -> None:
        async with a_driver(tmp_path) as made:
            assert await run_to_end(made, task(tmp_path, f"{name}@{digest}")) == "ran\n"
            with pytest.raises(DriverError, match="cannot pull image"):
                await made.start_task(task(tmp_path, f"{name}@sha256:{'0' * 64}"))

    with registry() as served:
        digest = served.put("exact", docker_engine.image_tar("exact"))
        name = f"{served.address}/exact"
        asyncio.run(body())


def test_image_of_another_platform_is_pulled_for_the_one_that_is_wanted(tmp_path: Path) -> None:
    async def body() -> None:
        async with a_driver(tmp_path) as made:
            with pytest.raises(DriverError, match=r"cannot (use|pull) image"):
                await made.start_task(task(tmp_path, image, platform="linux/arm64"))
            assert await run_to_end(made, task(tmp_path, image, platform="linux/amd64")) == "ran\n"

    with registry() as served:
        image = fresh(served)
        asyncio.run(body())


def test_force_pull_and_latest_fetch_an_image_that_is_there(tmp_path: Path) -> None:
    async def body() -> None:
        async with a_driver(tmp_path) as made:
            for tag, forced, expected in (("1", False, "old"), ("1", True, "new")):
                text = "cat /mark"
                wanted = task(tmp_path, f"{name}:{tag}", text, force_pull=forced)
                assert await run_to_end(made, wanted) == expected
                served.put("moving", docker_engine.image_tar("new"))
            served.put("moving", docker_engine.image_tar("1st"), tag="latest")
            assert await run_to_end(made, task(tmp_path, name, "cat /mark")) == "1st"
            served.put("moving", docker_engine.image_tar("2nd"), tag="latest")
            assert await run_to_end(made, task(tmp_path, name, "cat /mark")) == "2nd"

    with registry() as served:
        name = f"{served.address}/moving"
        served.put("moving", docker_engine.image_tar("old"))
        asyncio.run(body())


def test_missing_image_is_a_recoverable_error_that_names_it(tmp_path: Path) -> None:
    async def body() -> None:
        async with a_driver(tmp_path) as made:
            with pytest.raises(
                DriverError, match=f"cannot pull image {name}: .*(not found|unknown)"
            ) as seen:
                await made.start_task(task(tmp_path, name))
            assert seen.value.recoverable

    with registry() as served:
        name = f"{served.address}/nowhere:1"
        asyncio.run(body())


@pytest.mark.parametrize("source", ["job", "file", "credHelpers", "credsStore", "helper"])
def test_protected_image_is_pulled_with_credentials(
    tmp_path: Path, source: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    programs = tmp_path / "programs"
    programs.mkdir()
    program = programs / "docker-credential-vault"
    answer = json.dumps({"Username": USER, "Secret": PASSWORD})
    program.write_text(
        f"#!/bin/sh\nread server\necho $server > {tmp_path}/asked\necho '{answer}'\n"
    )
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{programs}:{os.environ['PATH']}")

    async def body() -> None:
        encoded = base64.b64encode(f"{USER}:{PASSWORD}".encode()).decode()
        files = {
            "file": {"auths": {f"https://{served.address}": {"auth": encoded}}},
            "credHelpers": {"credHelpers": {served.address: "vault"}},
            "credsStore": {"auths": {served.address: {}}, "credsStore": "vault"},
        }
        auth: dict[str, object] = {}
        if source in files:
            (tmp_path / "auth.json").write_text(json.dumps(files[source]))
            auth = {"auth": {"config": str(tmp_path / "auth.json")}}
        elif source == "helper":
            auth = {"auth": {"helper": "vault"}}
        own = {"auth": [LOGIN]} if source == "job" else {}
        async with a_driver(tmp_path, **auth) as made:
            assert await run_to_end(made, task(tmp_path, image, **own)) == "ran\n"

    with registry(protected=True) as served:
        image = fresh(served)
        asyncio.run(body())
        if source not in ("job", "file"):
            assert (tmp_path / "asked").read_text().strip() == served.address


def test_wrong_or_missing_credentials_pull_nothing(tmp_path: Path) -> None:
    async def body() -> None:
        async with a_driver(tmp_path, auth={"helper": "nonesuch"}) as made:
            wrong = {"auth": {"username": USER, "password": "no"}}
            with pytest.raises(DriverError, match="cannot pull image"):
                await made.start_task(task(tmp_path, image, **wrong))
            with pytest.raises(DriverError, match="cannot run docker-credential-nonesuch"):
                await made.start_task(task(tmp_path, image))
            with pytest.raises(DriverError, match="cannot pull image"):
                await made.start_task(task(tmp_path, image, auth_soft_fail=True))

    with registry(protected=True) as served:
        image = fresh(served)
        asyncio.run(body())


def test_tasks_of_one_image_share_its_pull(tmp_path: Path) -> None:
    async def body() -> None:
        async with a_driver(tmp_path) as made:
            served.stalled.clear()
            wanted = [task(tmp_path, image) for _ in range(5)]
            starting = [asyncio.create_task(made.start_task(one)) for one in wanted]
            await until(lambda: bool(blobs()))
            for one in starting[:2]:
                one.cancel()
            served.stalled.set()
            await asyncio.wait(starting)
            for one in starting[2:]:
                await made.wait_task(one.result())
                await made.destroy_task(one.result())
            assert len(blobs()) == 2  # its config and its layer, once each

    def blobs() -> list[str]:
        return [path for path in served.requests if "/blobs/" in path]

    with registry() as served:
        image = fresh(served)
        asyncio.run(body())


@pytest.mark.parametrize(
    ("config", "options", "reason"),
    [
        ({"image_pull_timeout": "300ms"}, {}, "it took longer than 0.3 s"),
        ({}, {"pull_activity_timeout": "300ms"}, "no progress for 0.3 s"),
    ],
)
def test_stalled_pull_is_given_up(
    tmp_path: Path, config: dict[str, object], options: dict[str, object], reason: str
) -> None:
    async def body() -> None:
        async with a_driver(tmp_path, **options) as made:
            served.stalled.clear()
            with pytest.raises(DriverError, match=f"cannot pull image {image}: {reason}") as seen:
                await made.start_task(task(tmp_path, image, **config))
            assert seen.value.recoverable
            served.stalled.set()

    with registry() as served:
        image = fresh(served)
        asyncio.run(body())


def test_image_is_loaded_from_an_archive_of_the_task(tmp_path: Path) -> None:
    name = f"loaded-{secrets.token_hex(6)}:1"

    async def body() -> None:
        async with a_driver(tmp_path) as made:
            wanted = task(tmp_path, name, load="image.tar")
            with docker_engine.engine().client() as api:
                api.tag(docker_engine.IMAGE, *name.split(":"))
                saved = b"".join(api.get_image(name))
                api.remove_image(name)
            Path(wanted.task_dir.local_dir, "image.tar").write_bytes(saved)
            assert await run_to_end(made, wanted) == "ran\n"
            with docker_engine.engine().client() as api:
                api.remove_image(name)
            for path in ("../image.tar", "none.tar"):
                with pytest.raises(DriverError, match="cannot load the image archive"):
                    await made.start_task(task(tmp_path, name, load=path))
            other = task(tmp_path, "other:1", load="image.tar")
            Path(other.task_dir.local_dir, "image.tar").write_bytes(saved)
            with pytest.raises(DriverError, match=f"the archive image.tar has only {name}"):
                await made.start_task(other)

    asyncio.run(body())


def test_image_goes_a_while_after_its_last_task(tmp_path: Path) -> None:
    clock = FakeClock()

    def there() -> bool:
        with docker_engine.engine().client() as api:
            return any(image in (one["RepoTags"] or ()) for one in api.images())

    async def body() -> None:
        async with a_driver(tmp_path, clock, gc={"image_delay": "3m"}) as made:
            first = await made.start_task(task(tmp_path, image, "sleep 100"))
            second = await made.start_task(task(tmp_path, image, "sleep 100"))
            await made.destroy_task(first)
            await clock.advance(400)
            assert there()
            await made.destroy_task(second)
            await clock.advance(100)
            await run_to_end(made, task(tmp_path, image))  # the delay begins anew
            await clock.advance(100)
            assert there()
            await clock.advance(100)
            await until(lambda: not there())

    with registry() as served:
        image = fresh(served)
        asyncio.run(body())


def test_image_goes_though_the_agent_was_restarted_within_the_delay(tmp_path: Path) -> None:
    clock = FakeClock()

    def there(image: str) -> bool:
        with docker_engine.engine().client() as api:
            return any(image in (one["RepoTags"] or ()) for one in api.images())

    async def body(unused: str, used: str) -> None:
        async with a_driver(tmp_path, clock, gc={"image_delay": "3m"}) as made:
            await run_to_end(made, task(tmp_path, unused))
            handle = await made.start_task(task(tmp_path, used, "sleep 100"))
        async with a_driver(tmp_path, clock, gc={"image_delay": "3m"}) as made:
            await made.end_orphans(lambda alloc_id: True)
            assert await made.recover_task(handle)
            await clock.advance(170)
            assert there(unused)
            await clock.advance(20)
            await until(lambda: not there(unused))
            assert there(used)
            await made.destroy_task(handle)

    with registry() as served:
        asyncio.run(body(fresh(served), fresh(served)))


def test_container_is_kept_where_the_node_says_so(tmp_path: Path) -> None:
    async def body() -> None:
        async with a_driver(tmp_path, gc={"container": False}) as made:
            wanted = task(tmp_path, docker_engine.IMAGE, "sleep 100")
            handle = await made.start_task(wanted)
            await made.destroy_task(handle)
            await made.end_orphans(lambda _: False)
            with docker_engine.engine().client() as api:
                found = api.inspect_container(handle.state["container"])
                assert found["State"]["Status"] == "exited"
                api.remove_container(handle.state["container"])

    asyncio.run(body())


def test_containers_of_no_allocation_are_looked_for_again_and_again(tmp_path: Path) -> None:
    """As one that an engine made after the agent had given the request up."""
    clock = FakeClock(time.time_ns())
    known = [True]

    async def body() -> None:
        dangling = {"period": "5m", "creation_grace": "8m"}
        async with a_driver(tmp_path, clock, gc={"dangling_containers": dangling}) as made:
            await made.end_orphans(lambda _: known[0])
            handle = await made.start_task(task(tmp_path, docker_engine.IMAGE, "sleep 100"))
            known[0] = False
            await clock.advance(301)
            assert await made.recover_task(handle)  # it may be about to be known
            while await made.recover_task(handle):
                await clock.advance(301)
            await made.destroy_task(handle)

    asyncio.run(body())

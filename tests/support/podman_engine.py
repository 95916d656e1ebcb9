"""A service of Podman for the tests that need one, with directories of its own; the image is made
of busybox, so nothing is downloaded."""

from __future__ import annotations

import atexit
import functools
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

import docker
import pytest

from tests.support.docker_engine import image_tar
from tests.support.polling import until_blocking
from tests.support.ports import free_ports

IMAGE = "localhost/busybox:test"
_START_TIMEOUT_S = 120


def installed() -> bool:
    return os.geteuid() == 0 and all(map(shutil.which, ("podman", "runc", "busybox")))


needs_podman = pytest.mark.skipif(
    not installed(), reason="podman, runc and busybox are not installed"
)


@functools.cache
def registry_port() -> int:
    """Where a registry without TLS may be: Podman takes no other one for such."""
    (port,) = free_ports(1)
    return port


@functools.cache
def socket() -> str:
    """The path of the session's service, with `IMAGE` in it."""
    directory = Path(tempfile.mkdtemp(prefix="orchgit-podman-"))
    path = directory / "socket"
    command = [
        *("podman", "--root", str(directory / "data"), "--runroot", str(directory / "run")),
        *("--cgroup-manager", "cgroupfs", "--runtime", "runc", "--events-backend", "file"),
        *("system", "service", "--time", "0", f"unix://{path}"),
    ]
    settings = directory / "containers.conf"
    # The defaults ask for more than root of a container may have.
    settings.write_text('[containers]\ndefault_ulimits = ["nofile=1024:1024", "nproc=4096:4096"]\n')
    registries = directory / "registries.conf"
    registries.write_text(
        f'[[registry]]\nlocation = "127.0.0.1:{registry_port()}"\ninsecure = true\n'
    )
    with (directory / "log").open("wb") as log:
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
            cwd=directory,  # conmon notes there that a container ran out of memory
            env={
                **os.environ,
                "CONTAINERS_CONF": str(settings),
                "CONTAINERS_REGISTRIES_CONF": str(registries),
            },
        )
    atexit.register(_stop, process, directory)
    until_blocking(
        path.is_socket, _START_TIMEOUT_S, f"podman's service of {directory} does not answer"
    )
    with docker.APIClient(base_url=f"unix://{path}", version="auto") as api:
        name, _, tag = IMAGE.partition(":")
        api.import_image_from_data(image_tar(), repository=name)  # it would ignore the tag
        api.tag(f"{name}:latest", name, tag)
    return str(path)


def _stop(process: subprocess.Popen[bytes], directory: Path) -> None:
    process.terminate()
    try:
        process.wait(60)
    except subprocess.TimeoutExpired:
        process.kill()
    subprocess.run(["umount", "-q", f"{directory}/data/overlay"], check=False)
    shutil.rmtree(directory, ignore_errors=True)

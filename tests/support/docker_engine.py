"""A real Docker engine for the tests that need one, started by hand and shared by the session.

`engine()` starts dockerd on first use (it is stopped when the test process ends) with flags that
need neither iptables nor a bridge, on a socket and a data directory of its own; containers use the
host's network. The one image is made from busybox, so nothing is downloaded.
"""

from __future__ import annotations

import atexit
import functools
import io
import os
import shutil
import subprocess
import tarfile
import tempfile
from pathlib import Path

import docker
import msgspec
import pytest

from tests.support.polling import until_blocking

IMAGE = "busybox:test"

_START_TIMEOUT_S = 30
_APPLETS = (
    "sh",
    "echo",
    "cat",
    "sleep",
    "id",
    "env",
    "true",
    "false",
    "httpd",
    "wget",
    "ls",
    "kill",
)


class DockerEngine(msgspec.Struct, frozen=True):
    endpoint: str
    pid: int

    def client(self) -> docker.APIClient:
        return docker.APIClient(base_url=self.endpoint, version="auto")


def _dockerd() -> str | None:
    return shutil.which("dockerd", path=f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin")


def installed() -> bool:
    return os.geteuid() == 0 and bool(_dockerd()) and bool(shutil.which("busybox"))


needs_docker = pytest.mark.skipif(not installed(), reason="dockerd and busybox are not installed")


@functools.cache
def engine() -> DockerEngine:
    """The session's engine, with `IMAGE` in it."""
    directory = Path(tempfile.mkdtemp(prefix="orchgit-dockerd-"))
    process = subprocess.Popen(
        [*_command(directory)],
        stdin=subprocess.DEVNULL,
        stdout=(directory / "log").open("wb"),
        stderr=subprocess.STDOUT,
        start_new_session=True,
    )
    atexit.register(_stop, process, directory)
    started = DockerEngine(f"unix://{directory}/docker.sock", process.pid)
    _wait_until_ready(started, process, directory)
    _import_image(started)
    return started


def _command(directory: Path) -> list[str]:
    return [
        str(_dockerd()),
        *("--host", f"unix://{directory}/docker.sock"),
        *("--data-root", str(directory / "data"), "--exec-root", str(directory / "exec")),
        *("--pidfile", str(directory / "pid"), "--storage-driver", "overlay2"),
        *("--bridge", "none", "--iptables=false", "--ip6tables=false"),
    ]


def _wait_until_ready(
    started: DockerEngine, process: subprocess.Popen[bytes], directory: Path
) -> None:
    def answers() -> bool:
        if process.poll() is not None:
            raise RuntimeError((directory / "log").read_text()[-4000:])
        return bool(started.client().ping())

    until_blocking(
        answers,
        _START_TIMEOUT_S,
        f"the docker engine of {directory} does not answer",
        retried=(docker.errors.DockerException,),
    )


def _import_image(started: DockerEngine) -> None:
    with started.client() as api:
        api.import_image_from_data(image_tar(), repository=IMAGE.split(":")[0], tag="test")


def image_tar(mark: str = "") -> bytes:
    """The files of the image; `mark` makes another image of them, and is its file /mark."""
    data = io.BytesIO()
    with tarfile.open(fileobj=data, mode="w") as tar:
        tar.add(str(shutil.which("busybox")), "bin/busybox")
        for applet in _APPLETS:
            link = tarfile.TarInfo(f"bin/{applet}")
            link.type, link.linkname = tarfile.SYMTYPE, "busybox"
            tar.addfile(link)
        marked = tarfile.TarInfo("mark")
        marked.size = len(mark)
        tar.addfile(marked, io.BytesIO(mark.encode()))
    return data.getvalue()


def _stop(process: subprocess.Popen[bytes], directory: Path) -> None:
    process.terminate()
    try:
        process.wait(20)
    except subprocess.TimeoutExpired:
        process.kill()
    shutil.rmtree(directory, ignore_errors=True)

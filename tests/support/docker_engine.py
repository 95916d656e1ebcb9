"""A real Docker engine for the tests that need one, started by hand and shared by the session.

`engine()` starts dockerd on first use (it is stopped when the test process ends) with flags that
need neither iptables nor a bridge, on a socket and a data directory of its own; containers use the
host's network. The one image is made from busybox, so nothing is downloaded.
"""

from __future__ import annotations

import atexit
import contextlib
import functools
import io
import os
import shutil
import signal
import subprocess
import tarfile
import tempfile
from pathlib import Path

import docker
import msgspec
import pytest

from agent.hooks.secrets_mount import unmount_below
from tests.support.polling import until_blocking

IMAGE = "busybox:test"

_START_TIMEOUT_S = 120
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
    own = OwnEngine(Path(tempfile.mkdtemp(prefix="orchgit-dockerd-")))
    own.start()
    atexit.register(own.stop)
    return own.started


class OwnEngine:
    """An engine of one test, which may kill it; with `live_restore` its containers run on."""

    def __init__(self, directory: Path, live_restore: bool = False) -> None:
        self._directory = directory
        self._live_restore = live_restore
        self._process: subprocess.Popen[bytes]
        self.started: DockerEngine

    def start(self) -> None:
        """Returns when it answers; `IMAGE` is in it."""
        directory = self._directory
        with (directory / "log").open("ab") as log:
            self._process = subprocess.Popen(
                [*_command(directory), *(["--live-restore"] if self._live_restore else [])],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        endpoint = f"unix://{directory}/docker.sock"
        self.started = DockerEngine(endpoint, self._process.pid)
        _wait_until_ready(self.started, self._process, directory)
        _import_image(self.started)

    def kill(self) -> None:
        """Ends it and its containerd; containers are children of neither."""
        pid_file = self._directory / "exec" / "containerd" / "containerd.pid"
        containerd = int(pid_file.read_text())
        self._process.kill()
        self._process.wait()
        with contextlib.suppress(ProcessLookupError):
            os.kill(containerd, signal.SIGKILL)
        until_blocking(lambda: not os.path.exists(f"/proc/{containerd}"), 120)
        for left in (pid_file, self._directory / "pid", pid_file.with_suffix(".sock")):
            left.unlink(missing_ok=True)

    def stop(self) -> None:
        _stop(self._process, self._directory)


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
        process.wait(60)
    except subprocess.TimeoutExpired:
        process.kill()
    unmount_below(directory)  # the engine leaves the network namespaces of its containers
    shutil.rmtree(directory, ignore_errors=True)

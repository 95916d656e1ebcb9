"""The Docker SDK behind blocking calls that raise `DriverError`.

Every call may wait for the network or the engine, so `driver` makes it on a thread.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import Any, TypeVar

import docker
import msgspec
import requests
from docker.errors import APIError, DockerException, create_api_error_from_http_exception
from docker.tls import TLSConfig
from docker.utils.config import load_general_config

from agent.drivers.docker.calls import explain, failure, translated
from agent.drivers.docker.errors import NotThereError
from agent.drivers.docker.images import EngineImages
from agent.drivers.docker.options import DockerTlsOptions
from orchgit.errors import DriverError

T = TypeVar("T")

_TIMEOUT_S = 60
_HEADER_BYTES = 8
_STREAMS = {0: "stdout", 1: "stdout", 2: "stderr"}
_CONFLICT = 409
_NAME_DELAY_S = 0.4


class Container(msgspec.Struct, frozen=True):
    """A container as the engine reports it."""

    id: str
    status: str
    pid: int
    exit_code: int
    oom_killed: bool
    error: str
    finished_ns: int
    tty: bool
    labels: dict[str, str]
    image: str = ""
    created_ns: int = 0
    sandbox: str = ""
    """The path of its network namespace."""
    addresses: dict[str, tuple[str, str]] = {}
    """IPv4 and IPv6 by network."""

    @property
    def ended(self) -> bool:
        return self.status in ("exited", "dead")


class LogFrame(msgspec.Struct, frozen=True):
    stream: str
    timestamp: str
    """RFC 3339 with nanoseconds, as the engine wrote it; orders the frames of a container."""
    data: bytes


class Engine:
    """One Docker engine. `name` is how errors call it."""

    def __init__(
        self, endpoint: str = "", tls: DockerTlsOptions | None = None, name: str = "docker"
    ) -> None:
        self._name = name
        where = f" at {endpoint}" if endpoint else ""
        self._api = translated(lambda: _connect(endpoint, tls), f"reach the {name} engine{where}")
        self.images = EngineImages(self._api)

    def version(self) -> dict[str, Any]:
        return self._call(f"reach the {self._name} engine", lambda: dict(self._api.version()))

    def info(self) -> dict[str, Any]:
        return self._call(f"reach the {self._name} engine", lambda: dict(self._api.info()))

    def info_with_bridge(self) -> dict[str, Any]:
        """The engine's facts, with the address of its default bridge as `BridgeIP`."""
        info = self.info()
        with contextlib.suppress(DriverError):
            bridge = self._call("read the bridge", lambda: self._api.inspect_network("bridge"))
            for subnet in (bridge.get("IPAM") or {}).get("Config") or ():
                info["BridgeIP"] = subnet.get("Gateway", "")
        return info

    def close(self) -> None:
        self._api.close()

    # -- containers ----------------------------------------------------------------------------

    def create(self, name: str, request: dict[str, object], attempts: int = 5) -> str:
        """The id of the new container, or of the one that has this name already.

        A name may be taken a moment before its container can be inspected: a request of an agent
        that was killed may still be under way.
        """
        for _ in range(attempts):
            try:
                return str(self._api.create_container_from_config(request, name)["Id"])
            except (DockerException, requests.RequestException) as error:
                # Podman 4 answers 500 to a name that is taken.
                is_taken = isinstance(error, APIError) and (
                    error.status_code == _CONFLICT or "is already in use" in explain(error)
                )
                if not is_taken:
                    raise failure(f"create container {name}", error) from None
            with contextlib.suppress(NotThereError):
                return self.inspect(name).id
            time.sleep(_NAME_DELAY_S)
        raise DriverError(f"cannot create container {name}: its name is taken", recoverable=True)

    def start(self, container: str) -> None:
        self._call(f"start container {container[:12]}", lambda: self._api.start(container))

    def inspect(self, container: str) -> Container:
        """NotThereError when the engine has no such container."""
        what = f"inspect container {container[:12]}"
        return _container(self._call(what, lambda: self._api.inspect_container(container)))

    def find(self, label: str) -> list[str]:
        """The ids of all containers, ended ones too, with this `name=value` label."""
        found = self._call(
            "list containers", lambda: self._api.containers(all=True, filters={"label": label})
        )
        return [str(one["Id"]) for one in found]

    def exists(self, container: str) -> bool:
        try:
            self.inspect(container)
        except NotThereError:
            return False
        return True

    def wait(self, container: str) -> None:
        """Return once it has ended, however long that takes."""
        what = f"wait for container {container[:12]}"
        self._call(what, lambda: self._api.wait(container, timeout=None))

    def stop(self, container: str, timeout_s: float) -> None:
        """The image's own stop signal, then a kill."""
        what = f"stop container {container[:12]}"
        with contextlib.suppress(NotThereError):
            self._call(what, lambda: self._api.stop(container, timeout=max(0, round(timeout_s))))

    def kill(self, container: str, signal: str) -> bool:
        """False when there is nothing to signal any more."""
        try:
            self._api.kill(container, signal)
        except APIError as error:
            if error.status_code in (404, _CONFLICT):
                return False
            raise failure(f"signal container {container[:12]}", error) from None
        except (DockerException, requests.RequestException) as error:
            raise failure(f"signal container {container[:12]}", error) from None
        return True

    def remove(self, container: str) -> None:
        """Podman cannot stop a container whose conmon was killed; the try that fails tells it that
        the container has ended."""
        what = f"remove container {container[:12]}"
        for is_last in (False, True):
            try:
                self._call(what, lambda: self._api.remove_container(container, v=True, force=True))
                return
            except NotThereError:
                return
            except DriverError as error:
                if is_last or "as it could not be stopped" not in str(error):
                    raise

    def stats(self, container: str) -> dict[str, Any]:
        what = f"read stats of container {container[:12]}"
        return dict(
            self._call(what, lambda: self._api.stats(container, stream=False, one_shot=True))
        )

    # -- streams -------------------------------------------------------------------------------

    def logs(
        self, container: str, since: str, known: int, tty: bool, follow: bool
    ) -> Iterator[LogFrame]:
        """Yields frames after the first `known` ones of the timestamp `since`: those that are
        there, and with `follow` those that come until the container ends.

        Podman tells whole seconds only: many frames then have the same timestamp.
        """
        what = f"read the logs of container {container[:12]}"
        # An engine leaves out what was written at that very time.
        begin_s = int(_unix(since).partition(".")[0]) - 1 if since else 0
        response = self._call(what, lambda: _open_logs(self._api, container, str(begin_s), follow))
        with contextlib.closing(response):
            pieces = _lines(response.raw) if tty else _frames(response.raw)
            while (piece := translated(lambda: next(pieces, None), what)) is not None:
                timestamp, _, data = piece[1].partition(b" ")
                frame = LogFrame(piece[0], timestamp.decode(), data)
                if frame.timestamp == since and known > 0:
                    known -= 1
                elif frame.timestamp >= since:
                    yield frame

    def exec_create(self, container: str, command: list[str], tty: bool, stdin: bool) -> str:
        what = f"run {command[0]} in container {container[:12]}"
        made = self._call(
            what,
            lambda: self._api.exec_create(container, command, stdin=stdin, tty=tty),
        )
        return str(made["Id"])

    def exec_output(self, exec_id: str) -> Iterator[bytes]:
        """stdout and stderr as they come."""
        yield from self._call("run a command", lambda: self._api.exec_start(exec_id, stream=True))

    def exec_socket(self, exec_id: str, tty: bool) -> Any:
        """The raw connection: bytes written go to stdin; bytes read are the engine's frames."""
        made = self._call(
            "run a command", lambda: self._api.exec_start(exec_id, tty=tty, socket=True)
        )
        return getattr(made, "_sock", made)

    def exec_resize(self, exec_id: str, rows: int, columns: int) -> None:
        self._call(
            "resize the terminal",
            lambda: self._api.exec_resize(exec_id, height=rows, width=columns),
        )

    def exec_status(self, exec_id: str) -> tuple[bool, int, int]:
        """(whether it runs, exit code, pid on the engine's host)."""
        found = self._call("inspect a command", lambda: self._api.exec_inspect(exec_id))
        return bool(found["Running"]), int(found["ExitCode"] or 0), int(found.get("Pid") or 0)

    def _call(self, what: str, call: Callable[[], T]) -> T:
        return translated(call, what)


def _connect(endpoint: str, tls: DockerTlsOptions | None) -> Any:
    """The engine at `endpoint`, or the one the environment names."""
    if not endpoint:
        return docker.from_env(timeout=_TIMEOUT_S, version="auto").api
    secured: TLSConfig | bool = False
    if tls is not None and (tls.cert or tls.ca):
        pair = (tls.cert, tls.key) if tls.cert else None
        secured = TLSConfig(client_cert=pair, ca_cert=tls.ca or None, verify=bool(tls.ca))
    return docker.APIClient(base_url=endpoint, timeout=_TIMEOUT_S, version="auto", tls=secured)


def _open_logs(api: Any, container: str, since: str, follow: bool) -> requests.Response:
    """Returns the engine's answer unread: the library's `logs` does not tell the streams apart."""
    response: requests.Response = api.get(
        f"{api.base_url}/v{api.api_version}/containers/{container}/logs",
        params={
            **{"stdout": 1, "stderr": 1, "timestamps": 1},
            **{"since": since, "follow": int(follow)},
        },
        headers=load_general_config().get("HttpHeaders"),
        stream=True,
        timeout=None,
    )
    try:
        response.raise_for_status()
    except requests.HTTPError as error:
        with contextlib.closing(response):
            create_api_error_from_http_exception(error)
    return response


def _container(found: dict[str, Any]) -> Container:
    state, config = found["State"], found["Config"]
    network = found.get("NetworkSettings") or {}
    return Container(
        id=found["Id"],
        status=state["Status"],
        pid=state.get("Pid") or 0,
        exit_code=state.get("ExitCode") or 0,
        oom_killed=bool(state.get("OOMKilled")),
        error=state.get("Error") or "",
        finished_ns=_unix_ns(state.get("FinishedAt") or ""),
        tty=bool(config.get("Tty")),
        labels=config.get("Labels") or {},
        image=found.get("Image") or "",
        sandbox=network.get("SandboxKey") or "",
        addresses={
            name: (one.get("IPAddress") or "", one.get("GlobalIPv6Address") or "")
            for name, one in (network.get("Networks") or {}).items()
        },
        created_ns=_unix_ns(found.get("Created") or ""),
    )


def _unix(timestamp: str) -> str:
    """RFC 3339 with nanoseconds as `seconds.nanoseconds`."""
    whole, _, fraction = timestamp.rstrip("Z").partition(".")
    seconds = int(datetime.fromisoformat(whole).replace(tzinfo=UTC).timestamp())
    return f"{seconds}.{fraction.ljust(9, '0')[:9]}"


def _unix_ns(timestamp: str) -> int:
    """0 for the year 1, which stands for "not yet"."""
    if not timestamp or timestamp.startswith("0001"):
        return 0
    seconds, _, fraction = _unix(timestamp).partition(".")
    return int(seconds) * 1_000_000_000 + int(fraction)


def _frames(raw: Any) -> Iterator[tuple[str, bytes]]:
    """The engine's multiplexed stream: stream number, three zeros, length, payload."""
    while len(header := raw.read(_HEADER_BYTES)) == _HEADER_BYTES:
        size = int.from_bytes(header[4:], "big")
        yield _STREAMS.get(header[0], "stdout"), raw.read(size)


def _lines(raw: Any) -> Iterator[tuple[str, bytes]]:
    """A terminal has one stream, not multiplexed; every line has its timestamp."""
    rest = b""
    while data := raw.read1(65536):
        *lines, rest = (rest + data).split(b"\n")
        for line in lines:
            yield "stdout", line + b"\n"
    if rest:
        yield "stdout", rest

"""The plugins that make host volumes: the built-in `mkdir`, and any executable of a directory.

An executable is called with the operation as its argument, and all that it needs in variables
`DHV_...`, as Nomad documents it: `fingerprint` answers `{"version": ...}`, `create` answers
`{"path": ..., "bytes": ...}`, `delete` answers nothing. A plugin makes again what is there already.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import re
import shutil
import signal
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import structlog

from orchgit.child import PIPE, start_child
from orchgit.errors import DriverError, InvalidInputError
from orchgit.model.mkdir_parameters import MkdirParameters, read_mkdir_parameters
from orchgit.model.volume import HostVolume

_log = structlog.get_logger(component="agent")

MKDIR, MKDIR_VERSION = "mkdir", "0.0.1"
_FINGERPRINT_TIMEOUT_S = 5.0
_OPERATION_TIMEOUT_S = 60.0
_MAX_OUTPUT_BYTES = 1 << 16
_SHOWN_CHARACTERS = 300
_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")


@dataclass(frozen=True, slots=True)
class MadeVolume:
    """`capacity_bytes` is 0 where the plugin limits nothing."""

    path: str
    capacity_bytes: int = 0


class VolumePlugins:
    """The plugins of one node. `versions` has every plugin that answered, after `find`."""

    def __init__(
        self,
        volumes_dir: Path,
        plugin_dir: Path | None = None,
        node: Mapping[str, str] | None = None,
    ) -> None:
        """`node`: the variables `DHV_NODE_...` of this node."""
        self.volumes_dir = volumes_dir
        self._plugin_dir = plugin_dir
        self._node = dict(node or {})
        self.versions: dict[str, str] = {MKDIR: MKDIR_VERSION}

    def attributes(self) -> dict[str, str]:
        """Returns the attributes of the node by which a volume's node is chosen."""
        return {
            f"plugins.host_volume.{name}.version": version
            for name, version in sorted(self.versions.items())
        }

    async def find(self) -> None:
        """Asks every executable of the directory who it is; what does not answer is no plugin."""
        directory, found = self._plugin_dir, {MKDIR: MKDIR_VERSION}
        if directory is None or not directory.is_dir():
            self.versions = found
            return
        names = [
            path.name
            for path in sorted(directory.iterdir())
            if path.is_file() and os.access(path, os.X_OK) and path.name != MKDIR
        ]

        async def ask(name: str) -> None:
            try:
                if not _NAME.fullmatch(name):
                    raise DriverError(f'"{name}" is no name of a plugin')
                answer = await self._run(name, "fingerprint", {}, _FINGERPRINT_TIMEOUT_S)
                version = _object(answer).get("version")
                if not isinstance(version, str) or not version:
                    raise DriverError("it answers no version")
                found[name] = version
            except (DriverError, OSError) as error:
                _log.warning("cannot use a host volume plugin", plugin=name, error=str(error))

        await asyncio.gather(*map(ask, names))
        self.versions = found

    async def create(self, volume: HostVolume) -> MadeVolume:
        """Makes the volume, or makes it again. Raises DriverError with the plugin's own words."""
        name = volume.plugin_id or MKDIR
        if name not in self.versions:
            raise InvalidInputError(
                f'cannot create volume "{volume.name}": this node has no plugin "{name}", only '
                f"{', '.join(sorted(self.versions))}"
            )
        path = self.volumes_dir / _directory_name(volume.id)
        if name == MKDIR:
            wanted = read_mkdir_parameters(volume.parameters or {})
            return await asyncio.to_thread(_make_directory, path, wanted)
        await asyncio.to_thread(self.volumes_dir.mkdir, parents=True, exist_ok=True)
        variables = {
            "DHV_CAPACITY_MIN_BYTES": str(volume.requested_capacity_min_bytes),
            "DHV_CAPACITY_MAX_BYTES": str(volume.requested_capacity_max_bytes),
            **self._of_volume(volume),
        }
        answer = _object(await self._run(name, "create", variables, _OPERATION_TIMEOUT_S))
        made, size = answer.get("path"), answer.get("bytes", 0)
        if not isinstance(made, str) or not made.startswith("/") or not Path(made).is_dir():
            raise DriverError(f'plugin "{name}" answers no path of a directory')
        if not isinstance(size, int) or size < 0:
            raise DriverError(f'plugin "{name}" answers no number of bytes')
        return MadeVolume(made, size)

    async def delete(self, volume: HostVolume) -> None:
        """Removes the volume with everything in it. Raises DriverError where that failed."""
        name = volume.plugin_id or MKDIR
        if name == MKDIR:
            path = self.volumes_dir / _directory_name(volume.id)
            if path.is_dir():
                await asyncio.to_thread(shutil.rmtree, path)
            return
        variables = {"DHV_CREATED_PATH": volume.host_path, **self._of_volume(volume)}
        await self._run(name, "delete", variables, _OPERATION_TIMEOUT_S)

    def _of_volume(self, volume: HostVolume) -> dict[str, str]:
        return {
            **self._node,
            "DHV_VOLUMES_DIR": str(self.volumes_dir),
            "DHV_NAMESPACE": volume.namespace,
            "DHV_VOLUME_NAME": volume.name,
            "DHV_VOLUME_ID": _directory_name(volume.id),
            "DHV_PARAMETERS": json.dumps(volume.parameters or {}, separators=(",", ":")),
        }

    async def _run(
        self, name: str, operation: str, variables: Mapping[str, str], timeout_s: float
    ) -> bytes:
        if self._plugin_dir is None:
            raise DriverError(f'this node has no plugin "{name}"')
        environment = {
            "PATH": _PATH,
            "DHV_OPERATION": operation,
            "DHV_PLUGIN_DIR": str(self._plugin_dir),
            **variables,
        }
        child = await start_child(
            str(self._plugin_dir / name),
            operation,
            stdin=PIPE,
            stdout=PIPE,
            stderr=PIPE,
            cwd=self._plugin_dir,
            env=environment,
            start_new_session=True,
        )
        assert child.stdin is not None
        assert child.stdout is not None
        assert child.stderr is not None
        try:
            async with asyncio.timeout(timeout_s):
                child.stdin.close()
                answer, said = await asyncio.gather(_limited(child.stdout), _limited(child.stderr))
                status = await child.wait()
        except TimeoutError:
            raise DriverError(
                f'plugin "{name}" did not {operation} within {timeout_s:g} s'
            ) from None
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(child.pid, signal.SIGKILL)
            child.close()
            await child.wait()
        if status:
            last = said.decode("utf-8", "replace").strip()[-_SHOWN_CHARACTERS:]
            raise DriverError(f'plugin "{name}" ended with {status} on {operation}: {last}')
        return answer


async def _limited(stream: asyncio.StreamReader) -> bytes:
    """Reads to the end, and keeps the last part of what is too long."""
    kept = b""
    while data := await stream.read(_MAX_OUTPUT_BYTES):
        kept = (kept + data)[-_MAX_OUTPUT_BYTES:]
    return kept


def _make_directory(path: Path, parameters: MkdirParameters) -> MadeVolume:
    path.mkdir(parents=True, exist_ok=True)
    os.chown(path, parameters.uid, parameters.gid)
    path.chmod(parameters.mode)
    return MadeVolume(str(path))


def _object(answer: bytes) -> dict[str, Any]:
    try:
        found = json.loads(answer)
    except ValueError:
        found = None
    if not isinstance(found, dict):
        raise DriverError("its answer is no JSON object")
    return found


def _directory_name(volume_id: str) -> str:
    if not volume_id or not all(c.isalnum() or c == "-" for c in volume_id):
        raise InvalidInputError(f'cannot use "{volume_id}" as the id of a volume')
    return volume_id

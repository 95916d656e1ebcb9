"""Fetching one artifact over http(s) into a task's directory, and unpacking it.

Archives are unpacked only when the job says so by the file's name (`.tar.gz`, `.tgz`, `.zip`, ...);
members that would leave the destination are refused. `checksum` is `sha256:HEX` (or md5, sha1,
sha512).
"""

from __future__ import annotations

import hashlib
import shutil
import tarfile
import urllib.error
import urllib.parse
import urllib.request
import zipfile
from pathlib import Path

from agent.hooks.base import SetupError
from agent.hooks.files import relative_parts
from agent.task_state import Happened
from orchgit.model.interpolation import Interpolator
from orchgit.model.task import TaskArtifact

_MAX_BYTES = 10 << 30
_TIMEOUT_S = 60.0
_CHUNK = 1 << 20
_TAR_ENDINGS = (".tar", ".tar.gz", ".tgz", ".tar.bz2", ".tbz2", ".tar.xz", ".txz")


def fetch(artifact: TaskArtifact, interpolate: Interpolator, task_dir: Path) -> None:
    """Blocks; SetupError, recoverable where a later attempt may have more luck."""
    source = interpolate.text(artifact.getter_source)
    destination = task_dir.joinpath(*relative_parts(interpolate.text(artifact.relative_dest)))
    if not destination.resolve().is_relative_to(task_dir.resolve()):
        raise _failed(source, "its destination leads out of the task directory", recoverable=False)
    options = {
        key: interpolate.text(value) for key, value in (artifact.getter_options or {}).items()
    }
    headers = {
        key: interpolate.text(value) for key, value in (artifact.getter_headers or {}).items()
    }
    name = Path(urllib.parse.urlparse(source).path).name or "artifact"
    partial = task_dir / "private" / f".{name}.part"
    try:
        _download(source, headers, partial)
        _verify(partial, options.get("checksum", ""))
        _place(partial, name, destination, artifact.getter_mode, options.get("archive", ""))
    except (OSError, urllib.error.URLError, tarfile.TarError, zipfile.BadZipFile) as problem:
        raise _failed(source, str(problem), recoverable=True) from None
    finally:
        partial.unlink(missing_ok=True)


def _failed(source: str, why: str, recoverable: bool) -> SetupError:
    shown = urllib.parse.urlparse(source)._replace(query="", fragment="").geturl()
    message = f'cannot fetch artifact "{shown.split("@")[-1]}": {why}'
    return SetupError(message, recoverable, Happened.ARTIFACT_FAILED)


def _download(source: str, headers: dict[str, str], target: Path) -> None:
    if not source.startswith(("http://", "https://")):
        raise _failed(source, "only http:// and https:// are supported", recoverable=False)
    request = urllib.request.Request(source, headers=headers)  # noqa: S310 - checked just above
    with urllib.request.urlopen(request, timeout=_TIMEOUT_S) as answer:  # noqa: S310
        with target.open("wb") as file:
            size = 0
            while chunk := answer.read(_CHUNK):
                size += len(chunk)
                if size > _MAX_BYTES:
                    raise _failed(source, f"it is larger than {_MAX_BYTES} bytes", False)
                file.write(chunk)


def _verify(file: Path, checksum: str) -> None:
    if not checksum:
        return
    kind, _, wanted = checksum.partition(":")
    if kind not in ("md5", "sha1", "sha256", "sha512"):
        raise _failed(file.name, f'checksum type "{kind}" is not known', recoverable=False)
    with file.open("rb") as stream:
        found = hashlib.file_digest(stream, kind).hexdigest()
    if found != wanted.strip().lower():
        raise _failed(file.name, f"its {kind} is {found}, not {wanted}", recoverable=False)


def _place(file: Path, name: str, destination: Path, mode: str, archive: str) -> None:
    if mode == "file":
        destination.parent.mkdir(parents=True, exist_ok=True)
        shutil.move(file, destination)
        return
    destination.mkdir(parents=True, exist_ok=True)
    if archive != "false" and name.endswith(_TAR_ENDINGS):
        with tarfile.open(file) as tar:
            tar.extractall(destination, filter="data")
    elif archive != "false" and name.endswith(".zip"):
        with zipfile.ZipFile(file) as packed:
            packed.extractall(destination)  # noqa: S202 - zipfile keeps members inside
    else:
        target = destination / name
        shutil.move(file, target)
        target.chmod(0o755)

"""Network configurations: lists of plugins, read from the files of a directory."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import structlog

from orchgit.errors import InvalidInputError

_log = structlog.get_logger(component="agent")

_MAX_FILE_BYTES = 1 << 20
_MAX_FILES = 256
_SUFFIXES = (".conflist", ".conf", ".json")
DEFAULT_VERSION = "0.3.1"


class NetworkList(msgspec.Struct, frozen=True, kw_only=True):
    """The plugins that connect a namespace, in their order."""

    name: str
    cni_version: str
    plugins: list[dict[str, Any]]
    disable_check: bool = False


def load(directory: Path) -> dict[str, NetworkList]:
    """Returns the networks of a directory by name; the first file by name wins.

    A file that cannot be used is logged and left out.
    """
    found: dict[str, NetworkList] = {}
    try:
        files = sorted(path for path in directory.iterdir() if path.suffix in _SUFFIXES)
    except OSError:
        return found
    for path in files[:_MAX_FILES]:
        try:
            with path.open("rb") as file:
                data = file.read(_MAX_FILE_BYTES + 1)
            if len(data) > _MAX_FILE_BYTES:
                raise InvalidInputError(f"it is over {_MAX_FILE_BYTES} bytes")
            network = parse(data)
        except (InvalidInputError, OSError) as error:
            _log.warning("cannot use a CNI configuration", file=str(path), error=str(error))
            continue
        found.setdefault(network.name, network)
    return found


def parse(data: bytes) -> NetworkList:
    """Returns the network of a file: a list of plugins, or one plugin alone.

    Raises InvalidInputError.
    """
    try:
        content = msgspec.json.decode(data, type=dict[str, Any])
    except msgspec.DecodeError as error:
        raise InvalidInputError(f"cannot read the configuration: {error}") from None
    name, version = content.get("name"), content.get("cniVersion", DEFAULT_VERSION)
    if not isinstance(name, str) or not name or "/" in name:
        raise InvalidInputError('cannot use the configuration: it needs a "name" without a slash')
    if not isinstance(version, str):
        raise InvalidInputError('cannot use the configuration: "cniVersion" must be a string')
    plugins = content.get("plugins", [content])
    if not isinstance(plugins, list) or not plugins:
        raise InvalidInputError('cannot use the configuration: "plugins" must list plugins')
    for plugin in plugins:
        kind = plugin.get("type") if isinstance(plugin, dict) else None
        if not isinstance(kind, str) or not kind or "/" in kind:
            raise InvalidInputError(
                'cannot use the configuration: each plugin needs a "type", the name of a program'
            )
    return NetworkList(
        name=name,
        cni_version=version,
        plugins=plugins,
        disable_check=content.get("disableCheck") is True,
    )

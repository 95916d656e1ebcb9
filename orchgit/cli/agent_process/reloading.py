"""Reads the configuration file and the certificates again at SIGHUP."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
import structlog

from orchgit import logs
from orchgit.configuration.file import read_config
from orchgit.configuration.schema import FileConfig
from orchgit.configuration.settings import log_rotation
from orchgit.errors import InvalidInputError
from orchgit.wire.https import check_files, reload_files
from orchgit.wire.tls import TlsFiles

_log = structlog.get_logger(component="agent")

_TAKEN_AT_ONCE = (
    *("log_level", "log_json", "log_file"),
    *("log_rotate_bytes", "log_rotate_duration", "log_rotate_max_files"),
)


class Reloader:
    """Applies changed files to the running process.

    `log_level`, `log_json` and `flags` (values by the path of their key) come from the command
    line, which wins over the files. `certificates`
    are all that the process uses.
    """

    def __init__(
        self,
        paths: Sequence[Path | str],
        file: FileConfig | None,
        log_level: str | None = None,
        log_json: bool = False,
        flags: Mapping[str, Any] | None = None,
    ) -> None:
        self._paths = tuple(paths)
        self._file = file
        self._log_level = log_level
        self._log_json = log_json
        self._flags = flags
        self.certificates: list[TlsFiles] = []
        self.also: list[Callable[[], None]] = []
        """What else reads something again after the files."""

    def reload(self) -> None:
        """Reads the files again; a mistake in them is logged, and changes nothing."""
        try:
            file = read_config(*self._paths, flags=self._flags).file if self._paths else None
            for files in _distinct(self.certificates):
                check_files(files)  # before anything is changed
            if file is not None:
                logs.configure(log_settings(file, self._log_level, self._log_json))
            else:
                logs.configure(logs.current())  # opens a log file that was moved away
            for files in _distinct(self.certificates):
                reload_files(files)
        except InvalidInputError as error:
            _log.error("cannot reload; everything stays as it was", error=str(error))
            return
        for reads_again in self.also:
            reads_again()
        _log.info(
            "reloaded",
            config=", ".join(map(str, self._paths)) or "none",
            log_level=logs.current().level,
            certificates=len(_distinct(self.certificates)),
        )
        if file is not None and self._file is not None:
            waiting = sorted(_changed(self._file, file) - set(_TAKEN_AT_ONCE))
            if waiting:
                _log.warning("changed settings that need a restart", settings=", ".join(waiting))


def log_warnings(warnings: Iterable[str]) -> None:
    """Logs what the configuration's files have and the agent does not use."""
    for warning in warnings:
        _log.warning(warning)


def log_settings(file: FileConfig, level: str | None, json: bool = False) -> logs.LogSettings:
    rotation = log_rotation(file)
    return logs.LogSettings(level or file.log_level, json or file.log_json, file.log_file, rotation)


def _distinct(files: Iterable[TlsFiles]) -> list[TlsFiles]:
    return list({id(one.version): one for one in files}.values())


def _changed(before: FileConfig, after: FileConfig) -> set[str]:
    """Returns the names of the keys whose values differ, as `server.num_schedulers`."""
    one, other = (dict(_flat(msgspec.to_builtins(file))) for file in (before, after))
    return {name for name in one.keys() | other.keys() if one.get(name) != other.get(name)}


def _flat(tree: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for name, value in tree.items():
        if isinstance(value, dict):
            yield from _flat(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", value

"""Finds the configuration files that are named, and reads and joins them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from orchgit.configuration.documented import CONFIGURATION
from orchgit.configuration.keys import BlockValues
from orchgit.configuration.merging import merge
from orchgit.configuration.plugins import plugin_faults
from orchgit.configuration.reading import FileReader
from orchgit.errors import InvalidInputError, OrchgitError
from orchgit.hcl1.errors import Hcl1Error
from orchgit.hcl1.parse import MAX_BYTES, parse
from orchgit.hcl1.tree import Position

MAX_FILES = 1000
_SUFFIXES = (".hcl", ".json")


@dataclass(frozen=True, slots=True)
class FailedPath:
    """A path that was named and cannot be used, with Nomad's sentence about it and our lines."""

    path: str
    nomad: str
    lines: tuple[str, ...]


@dataclass(slots=True)
class LoadedConfig:
    """What was read: the joined values, the files in order, and what is wrong."""

    values: BlockValues = field(default_factory=BlockValues)
    files: list[Path] = field(default_factory=list)
    failed: list[FailedPath] = field(default_factory=list)
    empty: list[str] = field(default_factory=list)
    """Named directories without configuration files."""
    warnings: list[str] = field(default_factory=list)
    faults: list[str] = field(default_factory=list)
    """Lines about what Nomad reads and no agent can use: values that cannot work, options that
    drivers do not have."""
    places: dict[str, Position] = field(default_factory=dict)
    """Where each key and block stands last, by its path with labels."""
    refused: set[str] = field(default_factory=set)
    """The keys that `faults` are about, by their paths with labels."""
    is_whole: bool = True
    """Whether each file could be read to its end: what a file wants is known then."""

    @property
    def mistakes(self) -> list[str]:
        """Lines about what cannot be read, and then about what cannot be used."""
        return [*(line for failed in self.failed for line in failed.lines), *self.faults]

    def check(self) -> None:
        """Raises InvalidInputError with every mistake of every file, if there is any."""
        refuse(self.mistakes)


def refuse(lines: Sequence[str]) -> None:
    """Raises InvalidInputError with these lines, if there are any."""
    if lines:
        raise InvalidInputError("cannot use the configuration:\n" + "\n".join(lines))


def load(paths: Sequence[str]) -> LoadedConfig:
    """Reads files, and the `.hcl` and `.json` files of directories in the order of their names.

    A directory's hidden files are read; those that editors leave behind (`~` at the end, `#`) are
    not, nor are directories inside. Mistakes are collected, not raised.
    """
    loaded = LoadedConfig()
    for named in paths:
        try:
            found = _files(named)
        except OSError as error:
            why = _why_unread(error)
            loaded.failed.append(
                FailedPath(named, f"stat {named}: {why}", (f"cannot read {named}: {why}",))
            )
            loaded.is_whole = False
            continue
        if not found:
            loaded.empty.append(named)
        for path in found:
            _load_file(loaded, named, path)
    return loaded


def _files(named: str) -> list[str]:
    path = Path(named)
    path.stat()
    if not path.is_dir():
        return [named]
    return [
        str(path / one)
        for one in sorted(each.name for each in path.iterdir() if not each.is_dir())
        if one.endswith(_SUFFIXES) and not (one.endswith("~") or one.startswith(("#", ".#")))
    ][:MAX_FILES]


def _why_unread(error: Exception) -> str:
    if isinstance(error, UnicodeDecodeError):
        return "it is no text in UTF-8"
    return (error.strerror or str(error)).lower() if isinstance(error, OSError) else str(error)


def _load_file(loaded: LoadedConfig, named: str, path: str) -> None:
    try:
        with Path(path).open("rb") as file:
            data = file.read(MAX_BYTES + 1)
        text = data.decode()
        body = parse(text, path)
    except Hcl1Error as error:
        where = Path(path).absolute()
        nomad = (
            f"Error loading {path}: failed to decode HCL file {where}: "
            f"{error.problems[0].without_file}"
        )
        lines = tuple(map(str, error.problems))
        loaded.failed.append(FailedPath(named, nomad, lines))
        loaded.is_whole = False
        return
    except (OSError, UnicodeDecodeError, OrchgitError) as error:
        why = _why_unread(error).removeprefix(f"cannot read {path}: ")
        loaded.failed.append(
            FailedPath(named, f"Error loading {path}: {why}", (f"cannot read {path}: {why}",))
        )
        loaded.is_whole = False
        return
    reader = FileReader(CONFIGURATION)
    values = reader.block(CONFIGURATION, body)
    loaded.warnings += reader.warnings
    if reader.problems:
        first = min(reader.problems, key=lambda problem: problem.rank)
        decoding = f"failed to decode HCL file {Path(path).absolute()}: " if first.rank == 0 else ""
        ordered = sorted(reader.problems, key=lambda problem: problem.position)
        lines = tuple(dict.fromkeys(map(str, ordered)))
        loaded.failed.append(
            FailedPath(named, f"Error loading {path}: {decoding}{first.nomad}", lines)
        )
    faults = sorted([*reader.faults, *plugin_faults(body)])
    loaded.faults += dict.fromkeys(map(str, faults))
    loaded.refused |= {fault.path for fault in reader.faults}
    loaded.places |= reader.places
    loaded.files.append(Path(path))
    loaded.values = merge(CONFIGURATION, loaded.values, values)

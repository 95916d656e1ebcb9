"""Checksums of a downloaded file: given in the job, or listed in a file beside the artifact."""

from __future__ import annotations

import hashlib
import posixpath
import re
from collections.abc import Iterable

from agent.artifacts.plan import FetchError
from agent.artifacts.source import read_checksum

_BSD = re.compile(r"^(\w[\w-]*) \((.+)\) = ([0-9a-fA-F]+)$")
_GNU = re.compile(r"^([0-9a-fA-F]+)\s+[*]?(\S.*)$")
_ALONE = re.compile(r"^(?:\w+:)?[0-9a-fA-F]+$")


class Digests:
    """Counts what is downloaded towards each type of checksum that is wanted."""

    def __init__(self, checksums: Iterable[str]) -> None:
        self._wanted = [text.partition(":")[::2] for text in checksums]
        self._found = {kind: hashlib.new(kind) for kind, _ in self._wanted}

    def update(self, data: bytes) -> None:
        for digest in self._found.values():
            digest.update(data)

    def check(self) -> None:
        """Raises FetchError where one of the checksums is not that of the download."""
        for kind, wanted in self._wanted:
            if (found := self._found[kind].hexdigest()) != wanted:
                raise FetchError(f"Checksums did not match: its {kind} is {found}, not {wanted}")


def listed_checksum(text: str, file_name: str) -> str:
    """Returns `TYPE:HEX` of the file in a list: lines of `sha256sum`, of BSD's `sha256`, or a
    checksum alone. Raises FetchError where the list does not name the file."""
    for line in (each.strip() for each in text.splitlines()):
        if found := _BSD.match(line):
            kind, name, digest = found[1].lower().replace("-", ""), found[2], found[3]
        elif found := _GNU.match(line):
            kind, name, digest = "", found[2], found[1]
        elif _ALONE.match(line):
            return read_checksum(line)
        else:
            continue
        if posixpath.basename(name) == file_name:
            return read_checksum(f"{kind}:{digest}" if kind else digest)
    raise FetchError(f'the file of checksums does not list "{file_name}"')

"""The process that fetches one artifact: `python -m agent.artifacts.child`, started by the agent.

It gets a plan on standard input and answers with a FetchReply. What comes from outside, HTTP, TLS
and the archive, is read here and nowhere else; `confine` has taken away what the process could do
with it. Its working directory, empty at the start, is all that it may write to.
"""

from __future__ import annotations

# Host names and names in zip files need these: they are loaded before files become out of reach.
import encodings.cp437
import encodings.idna
import encodings.latin_1  # noqa: F401
import glob
import os
import posixpath
import ssl
import sys
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import IO
from urllib.parse import unquote, urlsplit

import msgspec

from agent.artifacts.checksums import Digests, listed_checksum
from agent.artifacts.confine import Allowed, confine, move_to_reachable_path
from agent.artifacts.download import Downloader, ResponseError, tls_context
from agent.artifacts.git_clone import GitClone
from agent.artifacts.object_stores import ObjectStore, open_store
from agent.artifacts.plan import FetchError, FetchPlan, FetchReply
from agent.artifacts.source import SINGLE_FILE_FORMATS
from agent.artifacts.unpack import (
    UnpackBudget,
    decompress,
    entry_parts,
    make_directories,
    unpack,
)

_FORBIDDEN = 403
_MAX_CHECKSUMS_BYTES = 1 << 20
_DOWNLOAD, _TREE = "download", "tree"
_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


class FetchInput(msgspec.Struct, frozen=True):
    """`user` is the (uid, gid) to run as; None keeps the agent's."""

    plan: FetchPlan
    user: tuple[int, int] | None


def main() -> None:
    given = msgspec.json.decode(sys.stdin.buffer.read(), type=FetchInput)
    plan, limits = given.plan, given.plan.limits
    os.umask(0o022)
    tls = tls_context(plan.insecure)
    if plan.getter == "git" and given.user is not None:
        move_to_reachable_path()
    directory_fd = os.open(".", _DIRECTORY)
    confine(
        directory_fd,
        given.user,
        max(limits.max_download_bytes, limits.max_unpacked_bytes),
        Allowed(
            programs=plan.getter == "git",
            isolated=limits.isolated,
            paths=limits.extra_paths,
        ),
    )
    try:
        reply = _Fetch(plan, directory_fd, tls).run()
    except FetchError as error:
        reply = FetchReply(error=str(error))
    sys.stdout.buffer.write(msgspec.json.encode(reply))


class _Fetch:
    """One artifact, fetched into the working directory."""

    def __init__(self, plan: FetchPlan, directory_fd: int, tls: ssl.SSLContext) -> None:
        self._plan = plan
        self._directory_fd = directory_fd
        self._downloader = Downloader(tls, plan.timeout_s, plan.limits.max_download_bytes)

    def run(self) -> FetchReply:
        plan = self._plan
        if plan.getter == "git":
            GitClone(plan, _TREE).run()
            _measure(_TREE, plan)
            return FetchReply(tree=_subdir(plan.subdir))
        if plan.getter == "http":
            return self._file(plan.url, plan.headers)
        store = open_store(plan, self._downloader, lambda: datetime.now(UTC))
        if keys := self._directory_of(store):
            return self._objects(store, keys)
        return self._file(*store.object_address(store.key))

    def _file(self, url: str, headers: Mapping[str, str]) -> FetchReply:
        plan = self._plan
        size = self._download(url, headers)
        if not plan.archive:
            if plan.subdir:
                raise FetchError(f'"{plan.file_name}" has no "{plan.subdir}" in it')
            os.chmod(_DOWNLOAD, 0o644)
            if plan.mode == "file":
                return FetchReply(file=_DOWNLOAD)
            os.mkdir(_TREE)
            os.rename(_DOWNLOAD, f"{_TREE}/{plan.file_name}")
            return FetchReply(tree=_TREE)
        os.mkdir(_TREE)
        budget = UnpackBudget(plan.limits, size)
        with open(_DOWNLOAD, "rb") as file:
            if plan.archive in SINGLE_FILE_FORMATS:
                return _single(plan, file, self._directory_fd, budget)
            tree_fd = os.open(_TREE, _DIRECTORY, dir_fd=self._directory_fd)
            unpack(plan.archive, file, tree_fd, budget)
        root = _subdir(plan.subdir)
        if plan.mode != "file":
            return FetchReply(tree=root)
        names = os.listdir(root)
        only = f"{root}/{names[0]}" if len(names) == 1 else ""
        if plan.subdir or not only or os.path.islink(only) or not os.path.isfile(only):
            raise FetchError('expected a single file: mode = "file" needs an archive of one file')
        return FetchReply(file=only)

    def _download(self, url: str, headers: Mapping[str, str]) -> int:
        plan = self._plan
        listed = [self._listed(address) for address in plan.checksum_files]
        digests = Digests([*plan.checksums, *listed])
        size = self._downloader.save(url, headers, self._directory_fd, _DOWNLOAD, digests.update)
        digests.check()
        return size

    def _listed(self, address: str) -> str:
        """The headers of the artifact are its server's: another one gets none of them."""
        plan = self._plan
        same = urlsplit(address)[:2] == urlsplit(plan.url)[:2]
        headers = plan.headers if same and plan.getter == "http" else {}
        text = self._downloader.read(address, headers, _MAX_CHECKSUMS_BYTES)
        name = posixpath.basename(unquote(urlsplit(plan.url).path))
        return listed_checksum(text.decode("utf-8", "replace"), name)

    def _directory_of(self, store: ObjectStore) -> list[str]:
        """Returns the keys of the directory that the address names; [] if it names an object."""
        plan = self._plan
        if plan.archive or plan.mode == "file":
            return []
        directory = store.key and f"{store.key.rstrip('/')}/"
        try:
            found = store.keys(store.key)
        except ResponseError as error:
            if error.code == _FORBIDDEN and plan.mode == "any" and plan.file_name:
                return []  # who may read an object need not be allowed to list
            raise
        if plan.mode == "any" and store.key in found and not store.key.endswith("/"):
            return []
        inside = [key for key in found if key.startswith(directory) and not key.endswith("/")]
        if not inside and (plan.mode == "dir" or not plan.file_name):
            raise FetchError(f'nothing in the bucket begins with "{directory}"')
        return inside

    def _objects(self, store: ObjectStore, keys: list[str]) -> FetchReply:
        plan = self._plan
        if plan.checksums or plan.checksum_files:
            raise FetchError("a checksum has no effect on a directory; take it out")
        os.mkdir(_TREE)
        budget = UnpackBudget(plan.limits, 0)
        start = len(f"{store.key.rstrip('/')}/") if store.key else 0
        for key in keys:
            budget.count_entry()
            parts = entry_parts(key[start:])
            if not parts:
                raise FetchError(f'"{key}" is no name of a file')
            directory_fd = make_directories(self._directory_fd, [_TREE, *parts[:-1]])
            try:
                url, headers = store.object_address(key)
                self._downloader.save(url, headers, directory_fd, parts[-1])
                os.chmod(parts[-1], 0o644, dir_fd=directory_fd)
            except OSError as error:
                raise FetchError(f'cannot store "{key}": {error.strerror}') from None
            finally:
                os.close(directory_fd)
        return FetchReply(tree=_subdir(plan.subdir))


def _measure(tree: str, plan: FetchPlan) -> None:
    """What git wrote is counted when it is there: git itself has no limit on all of it."""
    size = 0
    for directory, _, names in os.walk(tree):
        for name in names:
            size += os.lstat(f"{directory}/{name}").st_size
        if size > plan.limits.max_unpacked_bytes:
            raise FetchError(f"it has more than {plan.limits.max_unpacked_bytes} bytes")


def _single(
    plan: FetchPlan, file: IO[bytes], directory_fd: int, budget: UnpackBudget
) -> FetchReply:
    if plan.mode != "file" or plan.subdir:
        raise FetchError(
            'it is one compressed file and no archive; write mode = "file" and name the file in '
            'destination, or archive = "false" to store it compressed'
        )
    decompress(plan.archive, file, directory_fd, "file", budget)
    return FetchReply(file="file")


def _subdir(wanted: str) -> str:
    """The one directory of the tree that the pattern matches, with no link on the way to it."""
    if not wanted:
        return _TREE
    found = glob.glob(f"{_TREE}/{wanted}")
    if len(found) != 1:
        if not found:
            raise FetchError(f'subdir "{wanted}" not found')
        raise FetchError(f'cannot take "{wanted}": {len(found)} directories match')
    parts = found[0].split("/")
    ways = ["/".join(parts[:end]) for end in range(1, len(parts) + 1)]
    if any(os.path.islink(way) for way in ways) or not os.path.isdir(found[0]):
        raise FetchError(f'cannot take "{wanted}": it is no directory')
    return found[0]


if __name__ == "__main__":
    main()

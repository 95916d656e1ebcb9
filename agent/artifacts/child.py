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
import ssl
import sys
from typing import IO

import msgspec

from agent.artifacts.confine import confine
from agent.artifacts.download import download, tls_context
from agent.artifacts.plan import FetchError, FetchPlan, FetchReply
from agent.artifacts.source import SINGLE_FILE_FORMATS
from agent.artifacts.unpack import UnpackBudget, decompress, unpack

_DOWNLOAD, _TREE = "download", "tree"
_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


class FetchInput(msgspec.Struct, frozen=True):
    """`user` is the (uid, gid) to run as; None keeps the agent's."""

    plan: FetchPlan
    user: tuple[int, int] | None


def main() -> None:
    given = msgspec.json.decode(sys.stdin.buffer.read(), type=FetchInput)
    directory_fd = os.open(".", _DIRECTORY)
    limits = given.plan.limits
    os.umask(0o022)
    tls = tls_context(given.plan.insecure)
    confine(directory_fd, given.user, max(limits.max_download_bytes, limits.max_unpacked_bytes))
    try:
        reply = _fetch(given.plan, directory_fd, tls)
    except FetchError as error:
        reply = FetchReply(error=str(error), recoverable=error.recoverable)
    sys.stdout.buffer.write(msgspec.json.encode(reply))


def _fetch(plan: FetchPlan, directory_fd: int, tls: ssl.SSLContext) -> FetchReply:
    size = download(plan, directory_fd, _DOWNLOAD, tls)
    if not plan.archive:
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
            return _single(plan, file, directory_fd, budget)
        tree_fd = os.open(_TREE, _DIRECTORY, dir_fd=directory_fd)
        unpack(plan.archive, file, tree_fd, budget)
    root = _subdir(plan.subdir)
    if plan.mode != "file":
        return FetchReply(tree=root)
    names = os.listdir(root)
    only = f"{root}/{names[0]}" if len(names) == 1 else ""
    if plan.subdir or not only or os.path.islink(only) or not os.path.isfile(only):
        raise FetchError('mode = "file" needs an archive with a single file in it')
    return FetchReply(file=only)


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
        many = f"{len(found)} directories match" if found else "it is not in the archive"
        raise FetchError(f'cannot take "{wanted}": {many}')
    parts = found[0].split("/")
    ways = ["/".join(parts[:end]) for end in range(1, len(parts) + 1)]
    if any(os.path.islink(way) for way in ways) or not os.path.isdir(found[0]):
        raise FetchError(f'cannot take "{wanted}": it is no directory')
    return found[0]


if __name__ == "__main__":
    main()

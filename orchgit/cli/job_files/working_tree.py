"""Reads the files of a git working tree, uncommitted ones too, as a push would send them."""

from __future__ import annotations

import base64
import subprocess
from dataclasses import dataclass
from pathlib import Path

from orchgit.cli.client.http_client import ApiError

MAX_TREE_BYTES = 32 * 1024 * 1024


@dataclass(frozen=True)
class TreeFile:
    path: str
    content: bytes

    def encoded(self) -> dict[str, str]:
        return {"Path": self.path, "Content": base64.b64encode(self.content).decode()}


def git(root: Path, *arguments: str) -> bytes:
    """Runs git; raises ApiError with git's own words."""
    done = subprocess.run(["git", "-C", str(root), *arguments], capture_output=True, check=False)
    if done.returncode:
        raise ApiError(
            f"cannot run git {arguments[0]}: {done.stderr.decode(errors='replace').strip()}"
        )
    return done.stdout


def top_level(start: Path) -> Path:
    """Returns the root of the working tree around `start`."""
    return Path(git(start, "rev-parse", "--show-toplevel").decode().rstrip("\n"))


def working_files(root: Path) -> list[TreeFile]:
    """Returns the tracked and untracked (not ignored) regular files as they are on disk."""
    listed = git(root, "ls-files", "-z", "--cached", "--others", "--exclude-standard")
    files = []
    for name in sorted(set(listed.decode("utf-8", "surrogateescape").split("\0")) - {""}):
        path = root / name
        if path.is_file() and not path.is_symlink():
            files.append(TreeFile(name, path.read_bytes()))
    return _within_limit(files)


def committed_files(root: Path, revision: str) -> list[TreeFile]:
    """Returns the regular files of a commit."""
    if revision.startswith("-"):
        raise ApiError(f"cannot take {revision!r} as a revision: it begins with '-'")
    try:
        commit = git(root, "rev-parse", "--verify", "--end-of-options", f"{revision}^{{commit}}")
    except ApiError as error:
        raise ApiError(
            f"cannot find commit {revision!r} in the repository {root}: give a branch, a tag or a "
            "commit that `git log` shows; `git fetch` gets those of the remote"
        ) from error
    listed = git(root, "ls-tree", "-r", "-z", commit.decode().strip())
    files = []
    for entry in listed.decode("utf-8", "surrogateescape").split("\0"):
        if not entry:
            continue
        about, name = entry.split("\t", 1)
        mode, kind, blob = about.split(" ")
        if kind == "blob" and mode != "120000":
            files.append(TreeFile(name, git(root, "cat-file", "blob", blob)))
    return _within_limit(files)


def remote_source_name(root: Path) -> str | None:
    """Returns the source of a clone, told from its remotes (`.../git/NAME.git`)."""
    for line in git(root, "remote", "-v").decode().splitlines():
        url = line.split("\t", 1)[1].rsplit(" ", 1)[0]
        head, _, tail = url.rpartition("/")
        if head.endswith("/git"):
            return tail.removesuffix(".git")
    return None


def _within_limit(files: list[TreeFile]) -> list[TreeFile]:
    size = sum(len(each.content) for each in files)
    if size > MAX_TREE_BYTES:
        raise ApiError(
            f"cannot send {size} bytes of files: the limit is {MAX_TREE_BYTES}; "
            "name the source's paths so that fewer files are looked at"
        )
    return files

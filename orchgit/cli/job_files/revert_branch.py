"""Pushes a branch that takes commits back, from a clone of the remote, for a pull request."""

from __future__ import annotations

import subprocess
from dataclasses import dataclass
from pathlib import Path

from orchgit.cli.client.http_client import ApiError
from orchgit.cli.job_files.working_tree import git, top_level


@dataclass(frozen=True)
class RevertBranch:
    """A branch to push: the tree of commit `target` on top of commit `base`."""

    clone: Path
    remote: str
    name: str
    base: str
    target: str

    @classmethod
    def of_clone(cls, name: str, base: str, target: str) -> RevertBranch:
        """Returns the branch for the clone around the current directory, which fetches commits that
        it lacks. Raises ApiError where there is no clone, or not of that repository."""
        clone = top_level(Path.cwd())
        git(clone, "check-ref-format", "--branch", name)
        remotes = git(clone, "remote").decode().split()
        if not remotes:
            raise ApiError(f"cannot push a branch: the clone {clone} has no remote")
        remote = "origin" if "origin" in remotes else remotes[0]
        if not _has(clone, base, target):
            git(clone, "fetch", "--quiet", remote)
        if not _has(clone, base, target):
            raise ApiError(
                f"cannot push a branch: remote {remote!r} of the clone {clone} has no commit "
                f"{base[:12]}; run the command in a clone of the source's repository"
            )
        return cls(clone, remote, name, base, target)

    def push(self, message: str) -> None:
        """Pushes the branch; git's own words, such as where to open a pull request, are shown. The
        clone's branches and files stay as they are. Raises ApiError if the remote refuses it."""
        tree = f"{self.target}^{{tree}}"
        made = git(self.clone, "commit-tree", tree, "-p", self.base, "-m", message)
        ref = f"{made.decode().strip()}:refs/heads/{self.name}"
        command = ["git", "-C", str(self.clone), "push", self.remote, ref]
        if subprocess.run(command, check=False).returncode:
            raise ApiError(
                f"cannot push branch {self.name!r} to remote {self.remote!r}: git says why above"
            )


def _has(clone: Path, *commits: str) -> bool:
    asked = "".join(f"{commit}\n" for commit in commits).encode()
    command = ["git", "-C", str(clone), "cat-file", "--batch-check"]
    done = subprocess.run(command, input=asked, capture_output=True, check=False)
    return done.returncode == 0 and done.stdout.count(b" commit ") == len(commits)

"""Clones a git repository with git itself, in a confined process that may start programs.

git gets an environment of its own: no configuration of the node, no protocol that reads the node's
files, no questions. What a repository holds cannot change that.
"""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Sequence
from urllib.parse import urlsplit

from agent.artifacts.plan import FetchError, FetchPlan

_COMMIT = re.compile(r"[0-9a-f]{7,64}")
_PROTOCOLS = "http:https:ssh:git"
_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_LOGIN = re.compile(r"//[^/@\s]*@")
_SHOWN_CHARACTERS = 500
_CONFIG = {
    "core.hooksPath": "/dev/null",
    "core.packedGitWindowSize": "32m",
    "core.packedGitLimit": "256m",
    "gc.auto": "0",
    "maintenance.auto": "false",
    "protocol.allow": "never",
    "transfer.fsckObjects": "true",
    "advice.detachedHead": "false",
    **{f"protocol.{name}.allow": "always" for name in _PROTOCOLS.split(":")},
}


class GitClone:
    """Clones into `tree`, a directory that is not there yet, below the working directory."""

    def __init__(self, plan: FetchPlan, tree: str) -> None:
        self._plan = plan
        self._tree = tree
        self._home = os.path.abspath("home")

    def run(self) -> None:
        """Raises FetchError with the last words of git."""
        os.mkdir(self._home, 0o700)
        self._environment = self._environ()
        plan, options = self._plan, self._plan.git
        depth = [f"--depth={options.depth}"] if options.depth else []
        if options.ref and options.depth and _COMMIT.fullmatch(options.ref):
            self._git("init", "-q", self._tree)
            self._in_tree("remote", "add", "origin", plan.url)
            self._in_tree("fetch", "-q", *depth, "origin", options.ref)
            self._in_tree("checkout", "-q", "FETCH_HEAD")
        elif options.ref and options.depth:
            self._git("clone", "-q", *depth, f"--branch={options.ref}", "--", plan.url, self._tree)
        else:
            self._git("clone", "-q", *depth, "--", plan.url, self._tree)
            if options.ref:
                try:
                    self._in_tree("checkout", "-q", options.ref, "--")
                except FetchError as error:
                    raise FetchError(f'invalid ref: "{options.ref}" ({error})') from None
        if os.path.isfile(f"{self._tree}/.gitmodules"):
            self._in_tree("submodule", "-q", "update", "--init", "--recursive", *depth)

    def _in_tree(self, *arguments: str) -> None:
        self._git("-C", self._tree, *arguments)

    def _git(self, *arguments: str) -> None:
        command: Sequence[str] = ("git", *arguments)
        try:
            done = subprocess.run(
                command, env=self._environment, stdin=subprocess.DEVNULL, capture_output=True
            )
        except FileNotFoundError:
            raise FetchError("this node has no git; install it to fetch git sources") from None
        if done.returncode:
            said = done.stderr.decode("utf-8", "replace").strip()
            lines = [line for line in said.splitlines() if line] or [f"status {done.returncode}"]
            fatal = [line for line in lines if line.startswith(("fatal:", "error:", "ssh:"))]
            shown = _LOGIN.sub("//", (fatal or lines)[0])[:_SHOWN_CHARACTERS]
            raise FetchError(f"git says: {shown}")

    def _environ(self) -> dict[str, str]:
        plan = self._plan
        config = dict(_CONFIG)
        if plan.insecure:
            config["http.sslVerify"] = "false"
        pairs = [*config.items()]
        if urlsplit(plan.url).scheme in ("http", "https"):
            headers = (f"{name}: {value}" for name, value in plan.headers.items())
            pairs += [("http.extraHeader", line) for line in headers]
        elif plan.headers:
            raise FetchError("headers have no effect on a repository that is not fetched over HTTP")
        given = {"GIT_CONFIG_COUNT": str(len(pairs))}
        for number, (name, value) in enumerate(pairs):
            given |= {f"GIT_CONFIG_KEY_{number}": name, f"GIT_CONFIG_VALUE_{number}": value}
        return {
            **os.environ,
            "PATH": _PATH,
            "HOME": self._home,
            "TMPDIR": self._home,
            "LC_ALL": "C",
            "GIT_CONFIG_NOSYSTEM": "1",
            "GIT_CONFIG_GLOBAL": "/dev/null",
            "GIT_ALLOW_PROTOCOL": _PROTOCOLS,
            "GIT_TERMINAL_PROMPT": "0",
            "GIT_ASKPASS": "/bin/false",
            "SSH_ASKPASS": "/bin/false",
            "GIT_SSH_COMMAND": self._ssh(),
            **given,
        }

    def _ssh(self) -> str:
        """Nobody is there to confirm a host's key; job files written for Nomad count on that."""
        options = ["StrictHostKeyChecking=no", "UserKnownHostsFile=/dev/null", "BatchMode=yes"]
        command = "ssh -F /dev/null " + " ".join(f"-o {option}" for option in options)
        if not self._plan.git.ssh_key:
            return command
        path = f"{self._home}/key"
        with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
            file.write(self._plan.git.ssh_key.rstrip("\n") + "\n")
        return f"{command} -o IdentitiesOnly=yes -i {path}"

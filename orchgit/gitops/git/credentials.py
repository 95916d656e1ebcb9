"""Logging in at a remote repository: what a credential is, and how git is given it."""

from __future__ import annotations

import base64
import shlex
from collections.abc import Sequence
from dataclasses import dataclass

from orchgit.errors import SourceError
from orchgit.gitops.git.urls import RepositoryUrl


@dataclass(frozen=True, slots=True)
class GitCredential:
    """How to log in at one origin, `https://host[:port]` or `ssh://host`.

    It is never sent to another origin, so a source whose URL changes does not carry it along.
    `sources` and `urls` are globs of the names and URLs of the sources that may use it.
    """

    origin: str
    username: str = ""
    password: str = ""
    ssh_key_file: str = ""
    ssh_known_hosts_file: str = ""
    sources: Sequence[str] = ()
    urls: Sequence[str] = ()


def login_environment(url: RepositoryUrl, credential: GitCredential | None) -> dict[str, str]:
    """Returns the environment variables by which git logs in. They allow the URL's own protocol and
    no other. Raises SourceError for a credential of another origin. No secret gets into an argument
    list or a file."""
    allowed = {"GIT_ALLOW_PROTOCOL": url.protocol}
    if url.protocol == "ssh":
        command = _ssh_command(url, credential)
        return {**allowed, "GIT_SSH_COMMAND": command, "GIT_SSH_VARIANT": "ssh"}
    if credential is None or url.protocol not in ("http", "https"):
        return allowed
    if credential.origin.rstrip("/").lower() != url.origin.lower():
        raise SourceError(
            f"cannot send this source's credential to {url.origin}: it belongs to "
            f"{credential.origin}; name another credential for the new URL"
        )
    pair = f"{credential.username}:{credential.password}".encode()
    return {
        **allowed,
        "GIT_CONFIG_COUNT": "1",
        "GIT_CONFIG_KEY_0": f"http.{url.origin}/.extraHeader",
        "GIT_CONFIG_VALUE_0": f"Authorization: Basic {base64.b64encode(pair).decode()}",
    }


def _ssh_command(url: RepositoryUrl, credential: GitCredential | None) -> str:
    """Returns the ssh command for git, which hands it to a shell: every part comes from the
    server's config and is quoted. It uses no key, agent or settings of the user that runs the
    server."""
    options = ["-F", "none", "-o", "BatchMode=yes", "-o", "StrictHostKeyChecking=yes"]
    options += ["-o", "ConnectTimeout=10", "-o", "IdentityAgent=none", "-o", "IdentityFile=none"]
    options += ["-o", "GSSAPIAuthentication=no", "-o", "HostbasedAuthentication=no"]
    if credential is not None and credential.origin.rstrip("/").lower() == url.origin.lower():
        if credential.ssh_key_file:
            options += ["-i", credential.ssh_key_file]
        if credential.ssh_known_hosts_file:
            options += ["-o", f"UserKnownHostsFile={credential.ssh_known_hosts_file}"]
    return shlex.join(["ssh", *options])

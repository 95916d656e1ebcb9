"""Bringing a source's commit into its mirror: one ref listing, and a fetch only if it is new."""

from __future__ import annotations

import base64
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from orchgit.errors import SourceError, TimedOutError
from orchgit.gitops.git.process import GitProcess, last_words
from orchgit.gitops.git.refs import ResolvedRef, is_commit_id, resolve_ref
from orchgit.gitops.git.urls import RepositoryUrl, redact

FETCHED_REF = "refs/orchgit/fetched"


@dataclass(frozen=True, slots=True)
class GitCredential:
    """How to log in at one origin. `origin` (`https://host[:port]` or `ssh://host`) binds it: it is
    never sent anywhere else, so that a source whose URL is changed does not carry it along.
    `sources` and `urls` are globs of the names and URLs of the sources that may use it."""

    origin: str
    username: str = ""
    password: str = ""
    ssh_key_file: str = ""
    ssh_known_hosts_file: str = ""
    sources: Sequence[str] = ()
    urls: Sequence[str] = ()


async def list_refs(
    git: GitProcess, url: RepositoryUrl, credential: GitCredential | None
) -> dict[str, str]:
    """What the remote advertises: full ref name (and `name^{}` for peeled tags) -> object id."""
    output = await _remote(
        git,
        ["ls-remote", "--quiet", "--end-of-options", url.text],
        url,
        credential,
        None,
        git.limits.list_timeout_s,
    )
    refs: dict[str, str] = {}
    for line in output.decode("utf-8", "replace").splitlines():
        object_id, _, name = line.partition("\t")
        if is_commit_id(object_id) and name:
            refs[name] = object_id
    if not refs:
        raise SourceError(f"cannot use {redact(url.text)}: it has no refs yet")
    return refs


async def fetch(
    git: GitProcess,
    mirror: Path,
    url: RepositoryUrl,
    wanted: ResolvedRef,
    credential: GitCredential | None,
) -> None:
    """Fetch one ref into the mirror, under a name of ours; other refs and tags stay away."""
    args = [
        f"--git-dir={mirror}",
        "fetch",
        "--quiet",
        "--force",
        "--no-tags",
        "--no-write-fetch-head",
        "--no-recurse-submodules",
        "--no-auto-maintenance",
        "--end-of-options",
        url.text,
        f"+{wanted.name}:{FETCHED_REF}",
    ]
    await _remote(git, args, url, credential, mirror, git.limits.fetch_timeout_s)


async def _remote(
    git: GitProcess,
    args: list[str],
    url: RepositoryUrl,
    credential: GitCredential | None,
    cwd: Path | None,
    timeout_s: float,
) -> bytes:
    env = login_environment(url, credential)
    try:
        result = await git.run(args, timeout_s=timeout_s, cwd=cwd, env=env)
    except TimedOutError as error:
        raise SourceError(f"cannot read {redact(url.text)}: {error}") from error
    if result.returncode != 0:
        raise SourceError(f"cannot read {redact(url.text)}: {last_words(result.stderr)}")
    return result.stdout


def login_environment(url: RepositoryUrl, credential: GitCredential | None) -> dict[str, str]:
    """Settings that let git log in, passed by environment: never in an argument list or a file. git
    may use the URL's own protocol and no other."""
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
    """git hands this to a shell: every part comes from the server's config and is quoted. The keys,
    the agent and the settings of the user that runs the server are not for sources to use."""
    options = ["-F", "none", "-o", "BatchMode=yes", "-o", "StrictHostKeyChecking=yes"]
    options += ["-o", "ConnectTimeout=10", "-o", "IdentityAgent=none", "-o", "IdentityFile=none"]
    options += ["-o", "GSSAPIAuthentication=no", "-o", "HostbasedAuthentication=no"]
    if credential is not None and credential.origin.rstrip("/").lower() == url.origin.lower():
        if credential.ssh_key_file:
            options += ["-i", credential.ssh_key_file]
        if credential.ssh_known_hosts_file:
            options += ["-o", f"UserKnownHostsFile={credential.ssh_known_hosts_file}"]
    return shlex.join(["ssh", *options])


async def update_mirror(
    git: GitProcess,
    mirror: Path,
    url: RepositoryUrl,
    ref: str,
    known_commit: str,
    credential: GitCredential | None,
) -> str:
    """The commit the ref points at now, fetched if it is not `known_commit`."""
    wanted = (
        ResolvedRef(ref, ref)
        if is_commit_id(ref)
        else resolve_ref(ref, await list_refs(git, url, credential))
    )
    if wanted.commit_id != known_commit:
        await fetch(git, mirror, url, wanted, credential)
    return wanted.commit_id

"""Brings a source's commit into its mirror: one listing of refs, and a fetch if it is new."""

from __future__ import annotations

from pathlib import Path

from orchgit.errors import SourceError, TimedOutError
from orchgit.gitops.git.credentials import GitCredential, login_environment
from orchgit.gitops.git.process import GitProcess, last_words
from orchgit.gitops.git.refs import ResolvedRef, is_commit_id, resolve_ref
from orchgit.gitops.git.urls import RepositoryUrl, redact
from orchgit.model.source import Source

FETCHED_REF = "refs/orchgit/fetched"


async def list_refs(
    git: GitProcess, url: RepositoryUrl, credential: GitCredential | None
) -> dict[str, str]:
    """Returns object ids by full ref name, and by `name^{}` for peeled tags. Raises SourceError if
    the remote cannot be read or has no refs."""
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
    """Fetches one ref into the mirror as `FETCHED_REF`, without other refs and tags."""
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


async def update_mirror(
    git: GitProcess,
    mirror: Path,
    url: RepositoryUrl,
    source: Source,
    known_commit: str,
    credential: GitCredential | None,
) -> ResolvedRef:
    """Returns what the source's ref means now; its commit is fetched if it is not
    `known_commit`."""
    ref = source.ref
    wanted = (
        ResolvedRef(ref, ref)
        if is_commit_id(ref)
        else resolve_ref(ref, await list_refs(git, url, credential), source.tags)
    )
    if wanted.commit_id != known_commit:
        await fetch(git, mirror, url, wanted, credential)
    return wanted

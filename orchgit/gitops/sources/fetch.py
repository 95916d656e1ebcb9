"""Lists the refs of a remote repository, and fetches a commit into a mirror."""

from __future__ import annotations

import re
import signal
from pathlib import Path

from orchgit.errors import SourceError, TimedOutError
from orchgit.gitops.git.certificates import certificate_problem
from orchgit.gitops.git.process import GitProcess
from orchgit.gitops.git.refs import ResolvedRef, is_commit_id
from orchgit.gitops.git.remote_errors import explain, is_certificate_problem
from orchgit.gitops.git.remotes import Remote
from orchgit.gitops.git.urls import redact

FETCHED_REF = "refs/orchgit/fetched"
_FETCH = (
    "fetch",
    "--quiet",
    "--force",
    "--no-tags",
    "--no-write-fetch-head",
    "--no-recurse-submodules",
    "--no-auto-maintenance",
    "--end-of-options",
)
_CONTENT_TYPE = re.compile(r"Recv header: content-type: *([^\r\n;]{1,100})", re.IGNORECASE)
_TRACE_BYTES = 64 * 1024
_ADVERTISEMENT = "application/x-git-upload-pack-advertisement"


async def list_refs(git: GitProcess, remote: Remote) -> bytes:
    """Returns the listing of a remote's refs, for `parse_listing`. Raises SourceError if the remote
    cannot be read or has no refs."""
    arguments = ["ls-remote", "--quiet", "--end-of-options", remote.url.text]
    output = await _run(git, arguments, remote, None)
    if not parse_listing(output):
        raise SourceError(f"cannot use {redact(remote.url.text)}: it has no refs yet")
    return output


def parse_listing(output: bytes) -> dict[str, str]:
    """Returns object ids by full ref name, and by `name^{}` for peeled tags."""
    refs: dict[str, str] = {}
    for line in output.decode("utf-8", "replace").splitlines():
        object_id, _, name = line.partition("\t")
        if is_commit_id(object_id) and name:
            refs[name] = object_id
    return refs


async def fetch(git: GitProcess, mirror: Path, remote: Remote, wanted: ResolvedRef) -> None:
    """Fetches one ref into the mirror as `FETCHED_REF`, without other refs and tags."""
    arguments = [f"--git-dir={mirror}", *_FETCH, remote.url.text, f"+{wanted.name}:{FETCHED_REF}"]
    await _run(git, arguments, remote, mirror)


async def _run(git: GitProcess, arguments: list[str], remote: Remote, mirror: Path | None) -> bytes:
    """Runs git on the remote, to fetch into the mirror if one is given, and returns its output.
    Raises SourceError with a sentence that says why the remote cannot be read."""
    limits = git.limits
    limit, timeout_s = "list_timeout", limits.list_timeout_s
    if mirror is not None:
        limit, timeout_s = "fetch_timeout", limits.fetch_timeout_s
    where = f"cannot read {redact(remote.url.text)}"
    environment = remote.environment(git.files, limits.silence_timeout_s)
    # Only the headers tell a page for people, which git takes for its old protocol, which sends
    # objects unchecked, from an answer of git.
    with git.files.scratch_file() as trace:
        environment |= {"GIT_TRACE_CURL": str(trace), "GIT_TRACE_CURL_NO_DATA": "1"}
        try:
            result = await git.run(arguments, timeout_s=timeout_s, cwd=mirror, env=environment)
        except TimedOutError as error:
            raise SourceError(
                f"{where}: it was not done within {timeout_s:g} s, the limit {limit}"
            ) from error
        with trace.open("rb") as file:
            head = file.read(_TRACE_BYTES).decode("latin-1")
    # git does not outlive a write to a connection that is closed, and says nothing then.
    ended = result.returncode == -signal.SIGPIPE and not result.stderr
    stderr = "Broken pipe" if ended else result.stderr
    types = [found.lower() for found in _CONTENT_TYPE.findall(head)]
    if result.returncode == 0:
        if types and _ADVERTISEMENT not in types:
            raise SourceError(
                f"{where}: it answers with {types[0]}, not with git's protocol: is this the page "
                "of a login, a proxy or a website? Check the URL and the credential"
            )
        return result.stdout
    why = explain(stderr, remote, limits)
    if is_certificate_problem(stderr) and not remote.proxy:
        ca_file = remote.stored_ca_file(git.files)
        found = await certificate_problem(remote.url.host, remote.url.port, ca_file)
        why = f"its certificate is refused: {found}; {why}" if found else why
    raise SourceError(f"{where}: {why}")


async def fetch_from_mirror(git: GitProcess, mirror: Path, other: Path, commit_id: str) -> None:
    """Fetches a commit into the mirror as `FETCHED_REF` from another mirror of this server. Raises
    SourceError if that does not have it."""
    await git.check(
        [f"--git-dir={mirror}", *_FETCH, str(other), f"+{commit_id}:{FETCHED_REF}"],
        timeout_s=git.limits.fetch_timeout_s,
        cwd=mirror,
        env={"GIT_ALLOW_PROTOCOL": "file"},
    )

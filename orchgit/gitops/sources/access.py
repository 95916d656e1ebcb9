"""What a source may reach: paths on the server's disk, and the server's credentials.

Everybody who may use the API may add sources, so the servers' configuration grants both: a path by
`local_paths` or by a `source` block that names it, a credential by its lists. The check runs when a
source is stored, and again on the leader before each use.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Sequence
from dataclasses import replace
from fnmatch import fnmatchcase
from pathlib import Path

from orchgit.errors import InvalidInputError, NotAllowedError, SourceError
from orchgit.gitops.config import GitopsConfig
from orchgit.gitops.git.certificates import check_certificates
from orchgit.gitops.git.credentials import GitCredential
from orchgit.gitops.git.remotes import Remote
from orchgit.gitops.git.urls import RepositoryUrl, parse_url, proxy_for, redact
from orchgit.model.source import Source, SourceKind

_MAX_POINTER_BYTES = 64 * 1024
_MAX_POINTERS = 100


def check_access(config: GitopsConfig, source: Source, server: str) -> None:
    """Raises InvalidInputError or NotAllowedError, with the way out, unless the source may use its
    path and credential. `server` is the name of the server with this config."""
    if source.kind == SourceKind.BUILTIN:
        if source.url or source.credential or source.ca_certificates:
            raise InvalidInputError(
                f"cannot use source {source.name!r}: it is built in, so it has no URL, no "
                "credential and no certificates"
            )
        return
    url = opened_url(config, source, server)
    if source.ca_certificates and url.protocol != "https":
        raise InvalidInputError(
            f"cannot use certificates of authorities for source {source.name!r}: only an https:// "
            "URL has them"
        )
    check_certificates(source.ca_certificates)
    remote_of(config, source, server)


def opened_url(config: GitopsConfig, source: Source, server: str) -> RepositoryUrl:
    """Returns the URL for git; every link in a path is resolved."""
    url = parse_url(source.url)
    if url.protocol != "file":
        if source.kind == SourceKind.LOCAL:
            raise InvalidInputError(
                f"cannot use source {source.name!r}: a local source has an absolute path"
            )
        return url
    declared = _is_declared(config, source)
    roots = [os.path.realpath(each) for each in config.local_paths]
    real = os.path.realpath(url.path)
    if declared:
        roots.append(real)
    if not _is_below(real, roots):
        raise NotAllowedError(
            f"cannot use path {url.path!r} for source {source.name!r}: the configuration of "
            f"{server} does not allow it; name its directory in gitops {{ local_paths = [...] }} "
            "of every server (`orchgit dev -local-path DIR`)"
        )
    for place in _places_git_reads(Path(real)):
        if not _is_below(place, roots):
            raise NotAllowedError(
                f"cannot use path {url.path!r} for source {source.name!r}: its repository keeps "
                f"objects in another directory, which the configuration of {server} does not "
                "allow; name that one in gitops { local_paths = [...] } too"
            )
    return replace(url, text=real, path=real)


def credential_of(config: GitopsConfig, source: Source, server: str) -> GitCredential | None:
    """Returns the source's credential, or None. Raises SourceError if this server's config lacks
    it, and NotAllowedError if its lists do not name the source."""
    name = source.credential
    if not name:
        return None
    credential = config.credentials.get(name)
    if credential is None:
        raise SourceError(
            f"cannot read source {source.name!r}: {server} leads, and its config has no credential "
            f"named {name!r}; every server needs it"
        )
    if not (_is_declared(config, source) or _is_listed(credential, source)):
        raise NotAllowedError(
            f"cannot use credential {name!r} for source {source.name!r} and "
            f"{redact(source.url)}: the configuration of {server} does not list them; add "
            f'sources = ["{source.name}"] or urls = [...] to gitops.credential "{name}"'
        )
    return credential


def remote_of(config: GitopsConfig, source: Source, server: str) -> Remote:
    """Returns the source's repository with all that reaching it takes. Reads the disk; raises what
    `opened_url` and `credential_of` raise, and SourceError for a credential of another origin."""
    url = opened_url(config, source, server)
    credential = credential_of(config, source, server)
    if credential is not None:
        credential.check_origin(url)
    given, own = config.transport, credential or GitCredential("")
    has_own_authority = source.ca_certificates or own.ca_file or own.ca_pem
    has_own_hosts = own.ssh_known_hosts_file or own.ssh_known_hosts
    proxy = proxy_for(url, own.proxy or given.proxy, () if own.proxy else given.no_proxy)
    return Remote(
        url,
        credential,
        ca_file=""
        if source.ca_certificates
        else own.ca_file
        if has_own_authority
        else given.ca_file,
        ca_pem=source.ca_certificates or (own.ca_pem if has_own_authority else given.ca_pem),
        known_hosts_file=own.ssh_known_hosts_file if has_own_hosts else given.ssh_known_hosts_file,
        known_hosts=own.ssh_known_hosts if has_own_hosts else given.ssh_known_hosts,
        proxy="" if proxy == "none" else proxy,
    )


def _is_listed(credential: GitCredential, source: Source) -> bool:
    """Returns whether every list that is given matches, and at least one is given."""
    lists = [(credential.sources, source.name), (credential.urls, source.url)]
    given = [(patterns, text) for patterns, text in lists if patterns]
    return bool(given) and all(
        any(fnmatchcase(text, pattern) for pattern in patterns) for patterns, text in given
    )


def _is_declared(config: GitopsConfig, source: Source) -> bool:
    """Returns whether a `source` block of the configuration has this kind, URL and credential."""
    found = next((each for each in config.sources if each.name == source.name), None)
    return found is not None and (found.kind, found.url, found.credential) == (
        source.kind,
        source.url,
        source.credential,
    )


def _is_below(path: str, roots: Sequence[str]) -> bool:
    return any(path == root or path.startswith(root.rstrip("/") + "/") for root in roots)


def _places_git_reads(path: Path) -> Iterator[str]:
    """Yields the directories that a repository points at: a worktree's, and those of borrowed
    objects."""
    found: dict[str, None] = {}
    pending = [path, path / ".git"]
    while pending and len(found) < _MAX_POINTERS:
        place = pending.pop()
        real = Path(os.path.realpath(place))
        if str(real) in found:
            continue
        found[str(real)] = None
        for name in ("", "commondir", "objects/info/alternates"):
            pending += _pointed_at(real, name)
        links = (real / "objects", real / "objects" / "pack")
        pending += [link for link in links if link.is_symlink()]
    yield from found


def _pointed_at(directory: Path, name: str) -> list[Path]:
    """Returns the directories that one of git's files names, as git resolves them."""
    file = directory / name if name else directory
    base = directory / "objects" if name.startswith("objects/") else file.parent
    lines = _read_pointer(file).splitlines()
    if not name:
        lines = [line.removeprefix("gitdir: ") for line in lines if line.startswith("gitdir: ")]
    return [base / line for line in lines if line and not line.startswith("#")]


def _read_pointer(file: Path) -> str:
    """Returns the text of a small regular file; '' for anything else, such as a pipe that would
    block."""
    try:
        handle = os.open(file, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return ""
    try:
        if not stat.S_ISREG(os.fstat(handle).st_mode):
            return ""
        return os.read(handle, _MAX_POINTER_BYTES).decode("utf-8", "surrogateescape")
    finally:
        os.close(handle)

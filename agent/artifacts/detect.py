"""Reads an artifact's source: its getter, its address, and the directory of it that is wanted.

Pure. `getter::ADDRESS//DIRECTORY?option=value`; an address without a scheme may be a short form
that job files written for Nomad use: `github.com/OWNER/NAME`, `git@HOST:PATH`, a bucket's host.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from agent.artifacts.plan import FetchError

_FORCED = re.compile(r"^([A-Za-z0-9]+)::(.+)$", re.DOTALL)
_SCP = re.compile(r"^(?:([\w.-]+)@)([\w.-]+):/?([^?]+)(\?.*)?$")
_FORGES = ("github.com", "gitlab.com", "bitbucket.org")
_S3_VIRTUAL = re.compile(r"^([a-z0-9.-]+)\.(s3[a-z0-9.-]*\.amazonaws\.com)/(.*)$", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Located:
    """`getter` is "" where the address's scheme says it; `directory` is the part that is wanted."""

    getter: str
    address: str
    directory: str


def locate(source: str) -> Located:
    """Raises FetchError for a directory outside of the artifact, and for a path of the node."""
    forced = _FORCED.match(source)
    getter, rest = (forced[1].lower(), forced[2]) if forced else ("", source)
    rest, directory = _split_directory(rest)
    if "://" in rest.partition("?")[0]:
        return Located(getter, rest, directory)
    found, address, inner = _short_form(rest)
    return Located(getter or found, address, "/".join(part for part in (inner, directory) if part))


def _split_directory(source: str) -> tuple[str, str]:
    """The source without its `//directory`, and the directory."""
    start = source.find("://") + 3 if "://" in source.partition("?")[0] else 0
    path, mark, query = source[start:].partition("?")
    before, slashes, directory = path.partition("//")
    if not slashes:
        return source, ""
    parts = [part for part in directory.split("/") if part not in ("", ".")]
    if ".." in parts:
        raise FetchError(f'"{directory}" leads out of the archive')
    return source[:start] + before + mark + query, "/".join(parts)


def _short_form(text: str) -> tuple[str, str, str]:
    """(getter, address, directory) of an address without a scheme."""
    path, mark, query = text.partition("?")
    host, _, below = path.partition("/")
    if host in _FORGES:
        owner, name, *inner = [*below.split("/"), ""] if below.count("/") else ("", "")
        if not owner or not name:
            raise FetchError(f"{host} sources are written {host}/OWNER/NAME")
        address = f"https://{host}/{owner}/{name.removesuffix('.git')}.git"
        return "git", address + mark + query, "/".join(part for part in inner if part)
    if found := _SCP.match(text):
        user, machine, at, options = found.groups()
        return "git", f"ssh://{user}@{machine}/{at}{options or ''}", ""
    if host.endswith(".amazonaws.com"):
        if virtual := _S3_VIRTUAL.match(path):
            path = f"{virtual[2]}/{virtual[1]}/{virtual[3]}"
        return "s3", f"https://{path}{mark}{query}", ""
    if host.endswith(".googleapis.com"):
        return "gcs", f"https://{text}", ""
    raise FetchError(
        "it is no address; write https://HOST/PATH, git::ADDRESS or s3::ADDRESS (files of the node "
        "are not fetched: mount a host volume)"
    )

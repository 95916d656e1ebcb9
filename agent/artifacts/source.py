"""Reads an artifact's `source` and `options` into a plan of what to fetch.

Pure. The forms are those that job files written for Nomad use: `URL?option=value`,
`URL//DIRECTORY-OF-THE-ARCHIVE`, `http::URL`. An option that has no effect here is an error, since
a checksum or a ref that is ignored looks like one that matched.
"""

from __future__ import annotations

import base64
import posixpath
import re
from collections.abc import Mapping
from typing import Literal, cast
from urllib.parse import SplitResult, parse_qsl, quote, unquote, urlencode, urlsplit

from agent.artifacts.plan import FetchError, FetchLimits, FetchPlan

ARCHIVE_ENDINGS = {
    "tar": "tar",
    "tar.gz": "tar.gz",
    "tgz": "tar.gz",
    "tar.bz2": "tar.bz2",
    "tbz2": "tar.bz2",
    "tar.xz": "tar.xz",
    "txz": "tar.xz",
    "zip": "zip",
    "gz": "gz",
    "bz2": "bz2",
    "xz": "xz",
}
"""Longer endings first where one ends like another."""
SINGLE_FILE_FORMATS = ("gz", "bz2", "xz")
_NOT_UNPACKED = (".zst", ".tzst")
_DIGEST_LENGTHS = {"md5": 32, "sha1": 40, "sha256": 64, "sha512": 128}
_GIT_OPTIONS = ("ref", "depth", "sshkey")
_NO = frozenset(("0", "f", "false"))
_FORCED = re.compile(r"^([A-Za-z0-9]+)::(.+)$", re.DOTALL)
_PATH_SAFE = "/%:@!$&'()*+,;=~-._"


def read_source(
    source: str,
    options: Mapping[str, str],
    headers: Mapping[str, str],
    mode: str,
    insecure: bool,
    limits: FetchLimits,
) -> FetchPlan:
    """Raises FetchError, not recoverable, for a source that cannot be fetched."""
    forced = _FORCED.match(source)
    getter, rest = (forced[1].lower(), forced[2]) if forced else ("", source)
    rest, subdir = _split_subdir(rest)
    url = _http_url(getter, rest)
    wanted, url = _take_options(url, options)
    name = posixpath.basename(unquote(url.path))
    archive = _archive(wanted["archive"], name)
    if subdir and not archive:
        raise FetchError(f'"{name}" is no archive, so there is no "{subdir}" in it')
    url, login = _without_login(url)
    if mode not in ("any", "file", "dir"):
        raise FetchError(f'there is no mode "{mode}"; write any, file or dir')
    return FetchPlan(
        url=url.geturl(),
        headers={**login, **headers},
        checksums=[_checksum(text) for text in wanted["checksum"]],
        archive=archive,
        subdir=subdir,
        file_name=_file_name(wanted["filename"], name, archive, mode),
        mode=cast(Literal["any", "file", "dir"], mode),
        insecure=insecure,
        limits=limits,
    )


def _split_subdir(source: str) -> tuple[str, str]:
    """The source without its `//directory`, and the directory."""
    start = source.find("://") + 3 if "://" in source else 0
    path, mark, query = source[start:].partition("?")
    before, slashes, subdir = path.partition("//")
    if not slashes:
        return source, ""
    parts = [part for part in subdir.split("/") if part not in ("", ".")]
    if ".." in parts:
        raise FetchError(f'"{subdir}" leads out of the archive')
    return source[:start] + before + mark + query, "/".join(parts)


def _http_url(getter: str, text: str) -> SplitResult:
    if getter not in ("", "http", "https"):
        raise FetchError(
            f'"{getter}" sources are not supported: only http:// and https:// are supported'
        )
    try:
        url = urlsplit(text)
        host, port = url.hostname, url.port  # read now: a wrong port is an error of reading it
    except ValueError as error:
        raise FetchError(f"its address cannot be read: {error}") from None
    if url.scheme not in ("http", "https") or not host or port == 0:
        raise FetchError("only http:// and https:// are supported")
    return url._replace(path=quote(url.path, safe=_PATH_SAFE), fragment="")


def _take_options(
    url: SplitResult, options: Mapping[str, str]
) -> tuple[dict[str, list[str]], SplitResult]:
    """Returns the options for the agent, and the URL with the query for the file's server."""
    wanted: dict[str, list[str]] = {"archive": [], "checksum": [], "filename": []}
    asked = []
    for key, value in (*parse_qsl(url.query, keep_blank_values=True), *sorted(options.items())):
        if key in wanted:
            wanted[key].append(value)
        else:
            asked.append((key, value))
    for key in _GIT_OPTIONS:
        if key in options:
            raise FetchError(f'option "{key}" is for git sources, which are not supported')
    if options or any(wanted.values()):
        url = url._replace(query=urlencode(sorted(asked)))
    return wanted, url


def _archive(wanted: list[str], name: str) -> str:
    if wanted:
        choice = wanted[-1].lower().removeprefix(".")
        if choice in _NO:
            return ""
        if choice in ARCHIVE_ENDINGS:
            return ARCHIVE_ENDINGS[choice]
        if choice:
            raise FetchError(
                f'archive = "{wanted[-1]}" is no known format; write false or one of '
                f"{', '.join(sorted(ARCHIVE_ENDINGS))}"
            )
    if name.endswith(_NOT_UNPACKED):
        raise FetchError(
            f'"{name}" cannot be unpacked: zstd is not supported; write archive = "false" to '
            "store it as it is"
        )
    for ending, archive in ARCHIVE_ENDINGS.items():
        if name.endswith(f".{ending}"):
            return archive
    return ""


def _checksum(text: str) -> str:
    """Returns `TYPE:HEX` for that or for HEX alone, whose length decides the type."""
    kind, colon, digest = text.strip().rpartition(":")
    digest = digest.strip().lower()
    if not colon:
        kind = next((one for one, size in _DIGEST_LENGTHS.items() if size == len(digest)), "")
    if kind == "file" or text.startswith("file:"):
        raise FetchError("a checksum in a file of its own is not supported; write it as TYPE:HEX")
    if kind not in _DIGEST_LENGTHS:
        raise FetchError(
            f'checksum type "{kind}" is not known; write one of {", ".join(_DIGEST_LENGTHS)}'
        )
    return f"{kind}:{digest}"


def _file_name(wanted: list[str], name: str, archive: str, mode: str) -> str:
    """How a single file is called in the destination."""
    if archive:
        if wanted:
            raise FetchError(
                "filename has no effect on what is unpacked; take it out, or write "
                'archive = "false"'
            )
        return name
    chosen = wanted[-1] if wanted else name
    if chosen in ("", ".", "..") or "/" in chosen or "\0" in chosen:
        if mode == "file":
            return "artifact"
        raise FetchError(
            f'"{chosen}" is no name of a file; say how it is called: options {{ filename = "..." }}'
        )
    if mode == "dir":
        raise FetchError(
            'mode = "dir" needs an archive, and this is a single file; write mode = "any"'
        )
    return chosen


def _without_login(url: SplitResult) -> tuple[SplitResult, dict[str, str]]:
    """User and password of the address become a header, as the address is shown to people."""
    login, at, host = url.netloc.rpartition("@")
    if not at:
        return url, {}
    token = base64.b64encode(unquote(login if ":" in login else f"{login}:").encode()).decode()
    return url._replace(netloc=host), {"Authorization": f"Basic {token}"}

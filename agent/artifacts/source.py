"""Reads an artifact's `source` and `options` into a plan of what to fetch.

Pure. `detect.py` finds the getter and the address; this module reads the options of each getter. An
option that has no effect here is an error, since a checksum or a ref that is ignored looks like one
that matched.
"""

from __future__ import annotations

import base64
import binascii
import posixpath
import re
from collections.abc import Mapping
from typing import Literal, cast
from urllib.parse import SplitResult, parse_qsl, quote, unquote, urlencode, urlsplit

import msgspec

from agent.artifacts.detect import Located, locate
from agent.artifacts.plan import (
    FetchError,
    FetchLimits,
    FetchPlan,
    Getter,
    GitOptions,
    StoreLogin,
)

ARCHIVE_ENDINGS = {
    "tar": "tar",
    "tar.gz": "tar.gz",
    "tgz": "tar.gz",
    "tar.bz2": "tar.bz2",
    "tbz2": "tar.bz2",
    "tar.xz": "tar.xz",
    "txz": "tar.xz",
    "tar.zst": "tar.zst",
    "tzst": "tar.zst",
    "zip": "zip",
    "gz": "gz",
    "bz2": "bz2",
    "xz": "xz",
    "zst": "zst",
}
"""Longer endings first where one ends like another."""
SINGLE_FILE_FORMATS = ("gz", "bz2", "xz", "zst")
_DIGEST_LENGTHS = {"md5": 32, "sha1": 40, "sha256": 64, "sha512": 128}
_SCHEMES: dict[Getter, tuple[str, ...]] = {
    "http": ("http", "https"),
    "git": ("http", "https", "ssh", "git"),
    "s3": ("http", "https"),
    "gcs": ("http", "https"),
}
_GIT_OPTIONS = ("ref", "depth", "sshkey")
_FILE_OPTIONS = ("archive", "checksum", "filename")
_S3_OPTIONS = {
    "aws_access_key_id": "key_id",
    "aws_access_key_secret": "secret",
    "aws_access_token": "session_token",
    "region": "region",
    "version": "version",
}
_S3_ENVIRONMENT = {
    "AWS_ACCESS_KEY_ID": "key_id",
    "AWS_SECRET_ACCESS_KEY": "secret",
    "AWS_SESSION_TOKEN": "session_token",
    "AWS_DEFAULT_REGION": "region",
    "AWS_REGION": "region",
}
_GCS_ENVIRONMENT = {"GOOGLE_OAUTH_ACCESS_TOKEN": "access_token"}
SERVICE_ACCOUNT = "GOOGLE_APPLICATION_CREDENTIALS"
"""In `environment`, the text of the key file that the agent's variable names."""
_OPTIONS: dict[Getter, tuple[str, ...]] = {
    "http": _FILE_OPTIONS,
    "git": (*_GIT_OPTIONS, *_FILE_OPTIONS),
    "s3": (*_S3_OPTIONS, "aws_profile", *_FILE_OPTIONS),
    "gcs": _FILE_OPTIONS,
}
_NO = frozenset(("0", "f", "false"))
_REF = re.compile(r"[\w@][\w./@{}^~+#-]*")
_PATH_SAFE = "/%:@!$&'()*+,;=~-._"

Options = dict[str, list[str]]


def read_source(
    source: str,
    options: Mapping[str, str],
    headers: Mapping[str, str],
    mode: str,
    insecure: bool,
    limits: FetchLimits,
    environment: Mapping[str, str] | None = None,
) -> FetchPlan:
    """Raises FetchError for a source that cannot be fetched. `environment` may hold credentials."""
    located = locate(source)
    getter, url = _address(located)
    wanted, url = _take_options(getter, url, options)
    if mode not in ("any", "file", "dir"):
        raise FetchError(f'there is no mode "{mode}"; write any, file or dir')
    url, basic = _without_login(url) if getter != "git" else (url, {})
    common = FetchPlan(
        getter=getter,
        url=url.geturl(),
        headers={**basic, **headers},
        subdir=located.directory,
        mode=cast(Literal["any", "file", "dir"], mode),
        insecure=insecure,
        limits=limits,
        login=_store_login(getter, wanted, environment or {}),
    )
    if getter == "git":
        return _git_plan(common, wanted)
    return _file_plan(common, wanted, posixpath.basename(unquote(url.path)))


def _git_plan(plan: FetchPlan, wanted: Options) -> FetchPlan:
    for name in _FILE_OPTIONS:
        if wanted[name]:
            raise FetchError(f"{name} has no effect on a git repository; take it out")
    if plan.mode == "file":
        raise FetchError('a git repository is a directory; take mode = "file" out')
    ref, depth, key = ("".join(wanted[name][-1:]) for name in _GIT_OPTIONS)
    if ref and not _REF.fullmatch(ref):
        raise FetchError(f'invalid ref: "{ref}"')
    if not (depth or "0").isascii() or not (depth or "0").isdigit() or len(depth) > 9:
        raise FetchError(f'depth is "{depth}", and must be a whole number')
    try:
        text = base64.b64decode(key, validate=True).decode()
    except (binascii.Error, ValueError):
        raise FetchError("sshkey is not the base64 of a private key") from None
    return _replace(plan, git=GitOptions(ref=ref, depth=int(depth or 0), ssh_key=text))


def _file_plan(plan: FetchPlan, wanted: Options, name: str) -> FetchPlan:
    archive = _archive(wanted["archive"], name)
    if plan.subdir and not archive and plan.getter == "http":
        raise FetchError(f'"{name}" is no archive, so there is no "{plan.subdir}" in it')
    listed = [text.removeprefix("file:") for text in wanted["checksum"] if text[:5] == "file:"]
    for address in listed:
        if urlsplit(address).scheme not in ("http", "https"):
            raise FetchError(f'checksums are read from http:// or https://, not from "{address}"')
    return _replace(
        plan,
        checksums=[read_checksum(text) for text in wanted["checksum"] if text[:5] != "file:"],
        checksum_files=listed,
        archive=archive,
        file_name=_file_name(wanted["filename"], name, archive, plan),
    )


def _replace(plan: FetchPlan, **changes: object) -> FetchPlan:
    return msgspec.structs.replace(plan, **changes)


def _store_login(getter: Getter, wanted: Options, environment: Mapping[str, str]) -> StoreLogin:
    found: dict[str, str] = {}
    if getter == "s3":
        if wanted["aws_profile"]:
            raise FetchError(
                "aws_profile has no effect: an agent has no profiles; write aws_access_key_id and "
                "aws_access_key_secret"
            )
        for name, key in _S3_ENVIRONMENT.items():
            found[key] = environment.get(name, found.get(key, ""))
        given = {key: wanted[name][-1] for name, key in _S3_OPTIONS.items() if wanted[name]}
        found |= given
        if bool(found.get("key_id")) != bool(found.get("secret")):
            raise FetchError("aws_access_key_id and aws_access_key_secret go together")
    if getter == "gcs":
        for name, key in _GCS_ENVIRONMENT.items():
            found[key] = environment.get(name, "")
        found["service_account"] = environment.get(SERVICE_ACCOUNT, "")
    return StoreLogin(**found)


def _address(located: Located) -> tuple[Getter, SplitResult]:
    try:
        url = urlsplit(located.address)
        host, port = url.hostname, url.port  # read now: a wrong port is an error of reading it
    except ValueError as error:
        raise FetchError(f"its address cannot be read: {error}") from None
    getter = {"https": "http"}.get(located.getter or url.scheme, located.getter or url.scheme)
    if getter == "hg":
        raise FetchError(
            "Mercurial (hg) sources are not supported: fetch an archive of the repository over "
            "https, or clone it with git"
        )
    if getter not in _SCHEMES:
        raise FetchError(
            f"download not supported for scheme '{getter}'; write http://, https://, git::ADDRESS, "
            "s3::ADDRESS or gcs::ADDRESS"
        )
    known = getter
    if url.scheme not in _SCHEMES[known] or not host or port == 0:
        names = ", ".join(f"{one}://" for one in _SCHEMES[known])
        raise FetchError(f"{known} sources are fetched from {names}")
    fragment = url.fragment if known == "gcs" else ""
    return known, url._replace(path=quote(url.path, safe=_PATH_SAFE), fragment=fragment)


def _take_options(
    getter: Getter, url: SplitResult, options: Mapping[str, str]
) -> tuple[Options, SplitResult]:
    """Returns the options for the agent, and the URL with the query for the file's server."""
    wanted: Options = {name: [] for name in _OPTIONS[getter]}
    asked = []
    for key, value in (*parse_qsl(url.query, keep_blank_values=True), *sorted(options.items())):
        if key in wanted:
            wanted[key].append(value)
        else:
            asked.append((key, value))
    for key in _GIT_OPTIONS:
        if key in options and getter != "git":
            raise FetchError(f'option "{key}" is for git sources; write git::ADDRESS')
    if getter in ("s3", "gcs") and asked:
        raise FetchError(f'option "{asked[0][0]}" has no effect on {getter} sources; take it out')
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
    for ending, archive in ARCHIVE_ENDINGS.items():
        if name.endswith(f".{ending}"):
            return archive
    return ""


def read_checksum(text: str) -> str:
    """Returns `TYPE:HEX` for that or for HEX alone, whose length decides the type."""
    kind, colon, digest = text.strip().rpartition(":")
    digest = digest.strip().lower()
    if not colon:
        kind = next((one for one, size in _DIGEST_LENGTHS.items() if size == len(digest)), "")
    if kind not in _DIGEST_LENGTHS:
        raise FetchError(
            f'checksum type "{kind}" is not known; write one of {", ".join(_DIGEST_LENGTHS)}'
        )
    return f"{kind}:{digest}"


def _file_name(wanted: list[str], name: str, archive: str, plan: FetchPlan) -> str:
    """How a single file is called in the destination; "" for what may be a directory only."""
    mode = plan.mode
    if plan.getter != "http" and not archive and (mode == "dir" or (not name and not wanted)):
        return ""
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

"""Objects and directories of S3-style and Google's stores: their addresses, lists and signatures.

`sign_s3` is Amazon's signature, version 4, as its documentation describes it; other stores that
speak S3 take the same.
"""

from __future__ import annotations

import base64
import datetime
import hashlib
import hmac
import json
import re
import xml.etree.ElementTree as ElementTree
from collections.abc import Callable, Mapping
from typing import Protocol
from urllib.parse import parse_qsl, quote, unquote, urlencode, urlsplit

from agent.artifacts.download import Downloader
from agent.artifacts.plan import FetchError, FetchPlan, StoreLogin

_MAX_LIST_BYTES = 4 << 20
_MAX_TOKEN_BYTES = 1 << 16
_MAX_PAGES = 100
_EMPTY_SHA256 = hashlib.sha256(b"").hexdigest()
_AMAZON_HOST = re.compile(
    r"^(?:(?P<bucket>[a-z0-9][a-z0-9.-]*)\.)?s3(?:[.-](?:dualstack\.)?(?P<region>[a-z0-9-]+))?"
    r"\.amazonaws\.com(?:\.cn)?$"
)
_DEFAULT_REGION = "us-east-1"
_GOOGLE_PATH = re.compile(r"^/storage/v1/(?!b/)([^/]+)/(.*)$")
_GOOGLE_SCOPE = "https://www.googleapis.com/auth/devstorage.read_only"


class ObjectStore(Protocol):
    """One bucket, and the key in it that the artifact names."""

    key: str

    def object_address(self, key: str) -> tuple[str, dict[str, str]]:
        """Returns the URL and the headers of one object."""
        ...

    def keys(self, prefix: str) -> list[str]:
        """Returns the keys that begin with `prefix`."""
        ...


def open_store(
    plan: FetchPlan, downloader: Downloader, now: Callable[[], datetime.datetime]
) -> ObjectStore:
    """Raises FetchError for an address that names no bucket."""
    return (S3Store if plan.getter == "s3" else GoogleStore)(plan, downloader, now)


class S3Store:
    """A bucket in the host's name, or first in the path."""

    def __init__(
        self, plan: FetchPlan, downloader: Downloader, now: Callable[[], datetime.datetime]
    ) -> None:
        self._downloader = downloader
        self._now = now
        self._plan = plan
        url = urlsplit(plan.url)
        amazon = _AMAZON_HOST.match(url.hostname or "")
        path = unquote(url.path).lstrip("/")
        self._base = f"{url.scheme}://{url.netloc}"
        self.key = path
        if amazon is None or not amazon["bucket"]:
            bucket, _, self.key = path.partition("/")
            if not bucket:
                raise FetchError("its address names no bucket; write s3::https://HOST/BUCKET/KEY")
            self._base += f"/{quote(bucket, safe='-._~')}"
        found = amazon["region"] if amazon else ""
        self._region = plan.login.region or found or _DEFAULT_REGION

    def object_address(self, key: str) -> tuple[str, dict[str, str]]:
        version = self._plan.login.version
        query = {"versionId": version} if version else {}
        return self._signed(f"{self._base}/{quote(key, safe='/-._~')}", query)

    def keys(self, prefix: str) -> list[str]:
        found: list[str] = []
        query = {"list-type": "2", "prefix": prefix}
        for _ in range(_MAX_PAGES):
            url, headers = self._signed(self._base, query)
            data = self._downloader.read(url, headers, _MAX_LIST_BYTES)
            if b"<!DOCTYPE" in data or b"<!ENTITY" in data:
                raise FetchError("the store's list is no plain XML")
            try:
                page = ElementTree.fromstring(data)  # noqa: S314 - without entities
            except ElementTree.ParseError:
                raise FetchError("the store's list is no XML") from None
            found += [each.text or "" for each in page.findall("./{*}Contents/{*}Key")]
            token = page.findtext("./{*}NextContinuationToken") or ""
            if not token or len(found) > self._plan.limits.max_files:
                break
            query["continuation-token"] = token
        return found

    def _signed(self, url: str, query: Mapping[str, str]) -> tuple[str, dict[str, str]]:
        text = urlencode(sorted(query.items()), quote_via=quote, safe="-._~")
        full = f"{url}?{text}" if text else url
        login = self._plan.login
        if not login.key_id:
            return full, dict(self._plan.headers)
        signed = sign_s3(full, login, self._region, self._now())
        return full, {**self._plan.headers, **signed}


def sign_s3(url: str, login: StoreLogin, region: str, now: datetime.datetime) -> dict[str, str]:
    """Returns the headers of a signed GET."""
    parts, stamp = urlsplit(url), now.strftime("%Y%m%dT%H%M%SZ")
    day = stamp[:8]
    headers = {
        "host": parts.netloc,
        "x-amz-content-sha256": _EMPTY_SHA256,
        "x-amz-date": stamp,
    }
    if login.session_token:
        headers["x-amz-security-token"] = login.session_token
    names = ";".join(sorted(headers))
    request = "\n".join(
        (
            "GET",
            parts.path or "/",
            urlencode(
                sorted(parse_qsl(parts.query, keep_blank_values=True)),
                quote_via=quote,
                safe="-._~",
            ),
            *(f"{name}:{headers[name]}" for name in sorted(headers)),
            "",
            names,
            _EMPTY_SHA256,
        )
    )
    scope = f"{day}/{region}/s3/aws4_request"
    digest = hashlib.sha256(request.encode()).hexdigest()
    key = f"AWS4{login.secret}".encode()
    for part in (day, region, "s3", "aws4_request"):
        key = hmac.digest(key, part.encode(), "sha256")
    to_sign = f"AWS4-HMAC-SHA256\n{stamp}\n{scope}\n{digest}"
    signature = hmac.digest(key, to_sign.encode(), "sha256").hex()
    credential = f"Credential={login.key_id}/{scope}"
    del headers["host"]  # it is sent anyway
    return {
        **headers,
        "Authorization": (
            f"AWS4-HMAC-SHA256 {credential}, SignedHeaders={names}, Signature={signature}"
        ),
    }


class GoogleStore:
    """`https://www.googleapis.com/storage/v1/BUCKET/KEY`, as job files write it."""

    def __init__(
        self, plan: FetchPlan, downloader: Downloader, now: Callable[[], datetime.datetime]
    ) -> None:
        self._plan = plan
        self._downloader = downloader
        url = urlsplit(plan.url)
        found = _GOOGLE_PATH.match(unquote(url.path))
        if found is None:
            raise FetchError(
                "its address names no bucket; write "
                "gcs::https://www.googleapis.com/storage/v1/BUCKET/KEY"
            )
        if url.fragment and not url.fragment.isdigit():
            raise FetchError(f'"{url.fragment}" is no generation of an object')
        self._generation = url.fragment
        self.key = found[2]
        bucket = quote(found[1], safe="")
        self._objects = f"{url.scheme}://{url.netloc}/storage/v1/b/{bucket}/o"
        self._headers = dict(plan.headers)
        token = plan.login.access_token
        if not token and plan.login.service_account:
            token = _google_token(plan.login.service_account, downloader, now())
        if token:
            self._headers["Authorization"] = f"Bearer {token}"

    def object_address(self, key: str) -> tuple[str, dict[str, str]]:
        query = {"alt": "media", **({"generation": self._generation} if self._generation else {})}
        return f"{self._objects}/{quote(key, safe='')}?{urlencode(query)}", self._headers

    def keys(self, prefix: str) -> list[str]:
        found: list[str] = []
        query = {"prefix": prefix}
        for _ in range(_MAX_PAGES):
            url = f"{self._objects}?{urlencode(query)}"
            page = _json(self._downloader.read(url, self._headers, _MAX_LIST_BYTES))
            items = page.get("items", [])
            if not isinstance(items, list):
                raise FetchError("the store's answer is no list of objects")
            found += [str(each.get("name", "")) for each in items if isinstance(each, dict)]
            token = str(page.get("nextPageToken", ""))
            if not token or len(found) > self._plan.limits.max_files:
                break
            query["pageToken"] = token
        return found


def _google_token(key_file: str, downloader: Downloader, now: datetime.datetime) -> str:
    """Asks for a token with a service account's key, as Google's OAuth documentation says."""
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import padding, rsa

    account = _json(key_file.encode())
    at, seconds = str(account.get("token_uri", "")), int(now.timestamp())
    claims = {
        "iss": account.get("client_email"),
        "scope": _GOOGLE_SCOPE,
        "aud": at,
        "iat": seconds,
        "exp": seconds + 3600,
    }
    try:
        key = serialization.load_pem_private_key(str(account["private_key"]).encode(), None)
    except (KeyError, ValueError, TypeError):
        raise FetchError("the service account's file holds no private key") from None
    if not isinstance(key, rsa.RSAPrivateKey) or urlsplit(at).scheme not in ("http", "https"):
        raise FetchError("the service account's file is not one that can be used")
    signed = ".".join(_base64(json.dumps(part).encode()) for part in ({"alg": "RS256"}, claims))
    signature = key.sign(signed.encode(), padding.PKCS1v15(), hashes.SHA256())
    grant = "urn:ietf:params:oauth:grant-type:jwt-bearer"
    body = urlencode({"grant_type": grant, "assertion": f"{signed}.{_base64(signature)}"})
    form = {"Content-Type": "application/x-www-form-urlencoded"}
    answer = _json(downloader.read(at, form, _MAX_TOKEN_BYTES, body.encode()))
    return str(answer.get("access_token", ""))


def _base64(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def _json(data: bytes) -> dict[str, object]:
    try:
        found = json.loads(data)
    except ValueError:
        found = None
    if not isinstance(found, dict):
        raise FetchError("the store's answer is no JSON object")
    return found

"""Speaks HTTP to identity providers: discovery, keys, token and userinfo endpoints; all bounded."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import httpx
import msgspec

from orchgit.clock import Clock
from orchgit.errors import OrchgitError
from orchgit.host_port import is_loopback, join_host_port
from orchgit.services.acl.signed_tokens import key_id_of, published_keys
from orchgit.state.cache import Cache
from orchgit.wire.machine_authorities import MachineAuthorities

if TYPE_CHECKING:
    from orchgit.services.acl.signed_tokens import VerificationKey

TIMEOUT_S = 10.0
MAX_ANSWER_BYTES = 1 << 20
MAX_AT_ONCE = 32
"""Requests to all providers; logins need no token, so anybody may ask for them."""
CACHED_S = 300.0
"""How long keys and endpoints of a provider count before they are read again."""
_READ_AGAIN_S = 5.0
"""Unknown key ids make the keys be read again, but not more often than this."""
_MAX_SHOWN = 200
_DISCOVERY = "/.well-known/openid-configuration"


class ProviderError(OrchgitError):
    """The provider does not answer, or not with what it should."""


@dataclass(frozen=True, slots=True)
class Endpoints:
    """What a provider says of itself; "" where it says nothing."""

    issuer: str
    authorization: str
    token: str
    keys: str
    userinfo: str
    token_auth_methods: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Cached:
    value: Any
    read_s: float


class IdentityProviders:
    """The providers that auth methods name. Belongs to one event loop."""

    def __init__(
        self,
        clock: Clock,
        timeout_s: float = TIMEOUT_S,
        authorities: MachineAuthorities | None = None,
    ) -> None:
        """`timeout_s` is for one request, from its turn to the end of its answer. `authorities`
        check providers whose method names none; by default those of this machine."""
        self._clock = clock
        self._timeout_s = timeout_s
        self._documents: Cache[tuple[str, ...], _Cached] = Cache()
        self._slots = asyncio.Semaphore(MAX_AT_ONCE)
        self._authorities = authorities or MachineAuthorities(monotonic_s=clock.monotonic_s)

    async def endpoints(self, discovery_url: str, ca_pems: Sequence[str]) -> Endpoints:
        """Returns the endpoints of a provider. Raises ProviderError."""
        issuer = discovery_url.rstrip("/").removesuffix(_DISCOVERY)
        url = issuer + _DISCOVERY
        document = await self._document(url, ca_pems, CACHED_S)
        told = document.get("issuer")
        if not isinstance(told, str) or told.rstrip("/") != issuer.rstrip("/"):
            self._documents.pop((url, *ca_pems), None)
            raise ProviderError(
                f"oidc: issuer did not match the issuer returned by provider, expected "
                f'"{issuer}" got "{_short(told)}"'
            )
        methods = document.get("token_endpoint_auth_methods_supported")
        return Endpoints(
            told,
            _text(document, "authorization_endpoint"),
            _text(document, "token_endpoint"),
            _text(document, "jwks_uri"),
            _text(document, "userinfo_endpoint"),
            tuple(str(each) for each in methods) if isinstance(methods, list) else (),
        )

    async def keys(self, url: str, ca_pems: Sequence[str], token: str) -> list[VerificationKey]:
        """Returns the keys at `url`, read again where they lack the one that `token` names."""
        keys = published_keys(await self._document(url, ca_pems, CACHED_S))
        key_id = key_id_of(token)
        if key_id and all(key.kid != key_id for key in keys):
            keys = published_keys(await self._document(url, ca_pems, _READ_AGAIN_S))
        return keys

    async def exchange(
        self,
        url: str,
        ca_pems: Sequence[str],
        form: Mapping[str, str],
        basic: tuple[str, str] | None,
    ) -> Mapping[str, Any]:
        """Posts a form to a token endpoint; `basic` is a user and a password. Returns the JSON
        answer."""
        request = httpx.Request("POST", url, data=dict(form), headers=_ACCEPT)
        if basic is not None:
            request = next(httpx.BasicAuth(*basic).auth_flow(request))
        return await self._send(request, ca_pems)

    async def userinfo(
        self, url: str, ca_pems: Sequence[str], access_token: str
    ) -> Mapping[str, Any]:
        headers = {**_ACCEPT, "Authorization": f"Bearer {access_token}"}
        return await self._send(httpx.Request("GET", url, headers=headers), ca_pems)

    async def _document(
        self, url: str, ca_pems: Sequence[str], max_age_s: float
    ) -> Mapping[str, Any]:
        key, now_s = (url, *ca_pems), self._clock.monotonic_s()
        found = self._documents.get(key)
        if found is None or now_s - found.read_s >= max_age_s:
            value = await self._send(_get(url), ca_pems)
            found = _Cached(value, now_s)
            self._documents.put(key, found)
        value = found.value
        assert isinstance(value, Mapping)
        return value

    async def _send(self, request: httpx.Request, ca_pems: Sequence[str]) -> Mapping[str, Any]:
        """Follows no redirect: what it carries belongs to the provider alone."""
        what = f'{request.method.title()} "{request.url}"'
        if request.url.scheme not in ("http", "https"):
            raise ProviderError(f"{what}: unsupported protocol scheme")
        client = httpx.AsyncClient(
            verify=await self._trust(request, ca_pems),
            timeout=TIMEOUT_S,
            trust_env=not is_loopback(join_host_port(request.url.host, 0)),
            follow_redirects=False,
        )
        try:
            async with self._slots, client, asyncio.timeout(self._timeout_s):
                answer = await client.send(request, stream=True)
                body = await _bounded(answer)
        except TimeoutError as error:
            raise ProviderError(f"{what}: no whole answer in {self._timeout_s:g} s") from error
        except httpx.ConnectError as error:
            raise ProviderError(f"{what}: {_connect_text(request, error)}") from error
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            raise ProviderError(f"{what}: {type(error).__name__} {error}") from error
        if answer.status_code != 200:
            reason = f"{answer.status_code} {answer.reason_phrase}"
            raise ProviderError(f"{what}: {reason}: {_short(body.decode(errors='replace'))}")
        try:
            value = msgspec.json.decode(body)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise ProviderError(f"{what}: the answer is no JSON") from error
        if not isinstance(value, dict):
            raise ProviderError(f"{what}: the answer is no JSON object")
        return value

    async def _trust(self, request: httpx.Request, ca_pems: Sequence[str]) -> ssl.SSLContext:
        """Returns what checks the provider's certificate: the given authorities, else those of the
        machine. Without TLS they are not read."""
        texts = [each for each in ca_pems if each.strip()]
        if texts:
            try:
                return ssl.create_default_context(cadata="\n".join(texts))
            except ssl.SSLError as error:
                raise ProviderError("could not parse CA PEM value successfully") from error
        if request.url.scheme == "http":
            return ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        return await self._authorities.context()


_ACCEPT = {"Accept": "application/json"}


def _get(url: str) -> httpx.Request:
    try:
        return httpx.Request("GET", url, headers=_ACCEPT)
    except httpx.InvalidURL as error:
        raise ProviderError(f'Get "{url}": {error}') from error


async def _bounded(answer: httpx.Response) -> bytes:
    chunks, size = [], 0
    async for chunk in answer.aiter_bytes():
        size += len(chunk)
        if size > MAX_ANSWER_BYTES:
            raise ProviderError(
                f'Get "{answer.url}": the answer is larger than {MAX_ANSWER_BYTES} bytes'
            )
        chunks.append(chunk)
    return b"".join(chunks)


def _connect_text(request: httpx.Request, error: Exception) -> str:
    """Returns Go's words for a refused connection, which clients show."""
    if "refused" in str(error).lower() or "attempts failed" in str(error):
        port = request.url.port or (443 if request.url.scheme == "https" else 80)
        return f"dial tcp {join_host_port(request.url.host, port)}: connect: connection refused"
    return str(error)


def _text(document: Mapping[str, Any], name: str) -> str:
    found = document.get(name)
    return found if isinstance(found, str) else ""


def _short(value: object) -> str:
    text = str(value)
    return text if len(text) <= _MAX_SHOWN else f"{text[:_MAX_SHOWN]}..."

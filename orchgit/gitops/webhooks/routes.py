"""`POST /v1/gitops/webhooks/<host>`: wakes the sources whose secret signed the request.

A source takes part if it names a webhook secret. The signature decides which sources a request may
wake; its URL and ref only narrow them down. The body is capped, and parsed after the check.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from types import ModuleType

import structlog
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route

from orchgit.errors import (
    ConflictError,
    InvalidInputError,
    NotAllowedError,
    NotFoundError,
    OrchgitError,
    TooLargeError,
    UnavailableError,
)
from orchgit.gitops.git.refs import SEMVER
from orchgit.gitops.git.urls import normalized
from orchgit.gitops.webhooks import generic, github
from orchgit.gitops.webhooks.event import Deliveries, PushEvent
from orchgit.model.source import Source

_log = structlog.get_logger(component="gitops")

_HOSTS: Mapping[str, ModuleType] = {"github": github, "generic": generic}
_STATUS = {
    NotAllowedError: 401,
    TooLargeError: 413,
    ConflictError: 409,
    NotFoundError: 404,
    InvalidInputError: 400,
    UnavailableError: 503,
}


@dataclass(frozen=True, slots=True)
class WebhookRoutes:
    """The route of all hosts. `secrets` are those of this server's config, by name."""

    sources: Callable[[], Sequence[Source]]
    secrets: Mapping[str, str]
    wake: Callable[[str, str], None]
    max_bytes: int
    own_name: Callable[[], str] = lambda: "this server"
    deliveries: Deliveries = field(default_factory=Deliveries)

    def routes(self) -> list[Route]:
        return [Route("/v1/gitops/webhooks/{host}", self.receive, methods=["POST"])]

    async def receive(self, request: Request) -> Response:
        """Answers 202 with the names of the woken sources, or 200 if there are none."""
        try:
            body = await _capped_body(request, self.max_bytes)
            woken = self.handle(request.path_params["host"], request.headers, body)
        except ClientDisconnect:
            return PlainTextResponse("", 400)
        except OrchgitError as error:
            status = _STATUS.get(type(error), 400)
            _log.warning("webhook refused", error=str(error), status=status)
            return PlainTextResponse(f"{error}\n", status)
        return JSONResponse({"Woken": woken}, 202 if woken else 200)

    def handle(self, host: str, headers: Mapping[str, str], body: bytes) -> list[str]:
        """Wakes sources and returns their names. Raises what the sender did wrong: NotFoundError,
        NotAllowedError, InvalidInputError or ConflictError."""
        module = _HOSTS.get(host)
        if module is None:
            raise NotFoundError(f"cannot read webhooks of {host!r}: there are {', '.join(_HOSTS)}")
        trusted = self._sources_signed_by(module, headers, body)
        event = module.parse(headers, body)
        self.deliveries.accept(host, module.delivery_id(headers))
        if not isinstance(event, PushEvent):
            return []
        woken = [source.name for source in trusted if _concerns(source, event)]
        for name in woken:
            self.wake(name, "webhook")
        return woken

    def _sources_signed_by(
        self, module: ModuleType, headers: Mapping[str, str], body: bytes
    ) -> list[Source]:
        """Returns the sources whose secret signed the body. Raises NotAllowedError if there are
        none, and UnavailableError if this server lacks one of the secrets."""
        by_secret: dict[str, list[Source]] = {}
        for source in self.sources():
            if source.webhook_secret:
                by_secret.setdefault(source.webhook_secret, []).append(source)
        found: list[Source] = []
        refused: OrchgitError = NotAllowedError(
            "cannot accept a webhook: no source has a webhook secret"
        )
        for name, sources in by_secret.items():
            if name not in self.secrets:
                refused = self._missing_secret(name)
                continue
            try:
                module.check(headers, body, self.secrets[name])
                found += sources
            except NotAllowedError as error:
                refused = refused if isinstance(refused, UnavailableError) else error
        if not found:
            raise refused
        return found

    def _missing_secret(self, name: str) -> UnavailableError:
        """Logs which secret is missing; the error for the sender does not name it."""
        _log.error(
            "a source's webhook secret is not in the config here; every server needs it",
            secret=name,
            server=self.own_name(),
        )
        return UnavailableError(
            f"cannot check this webhook: {self.own_name()} lacks a webhook secret that a source "
            "names; its log says which"
        )


def _concerns(source: Source, event: PushEvent) -> bool:
    """Returns whether the event is of the source's repository, in any spelling, and of its ref."""
    url = normalized(source.url)
    if url and url not in {normalized(each) for each in event.repository_urls}:
        return False
    if source.ref.startswith(SEMVER):
        return event.ref.startswith(f"refs/tags/{source.tags.prefix}")
    return event.ref in (source.ref, f"refs/heads/{source.ref}", f"refs/tags/{source.ref}")


async def _capped_body(request: Request, limit: int) -> bytes:
    body = bytearray()
    async for chunk in request.stream():
        body += chunk
        if len(body) > limit:
            raise TooLargeError(f"cannot accept a webhook of more than {limit} bytes")
    return bytes(body)

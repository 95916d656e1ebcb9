"""Finds the endpoint of a path without trying every route in turn."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Sequence
from functools import partial

from starlette.requests import Request
from starlette.routing import compile_path
from starlette.types import ASGIApp, Receive, Scope, Send

from orchgit.api.call import KeptResponse
from orchgit.api.context import ApiContext
from orchgit.api.kept_answers import KEEP, Keep, KeptBytes
from orchgit.api.request_metrics import RequestMetrics
from orchgit.api.routing import Endpoint, answer

_OF_ANY_SITE = "/v1/var"
"""Answers that pages of any site may read; headers for these are added outside of this app."""
_Found = tuple[Endpoint, dict[str, str]]


class Dispatch:
    """An ASGI app: endpoints answer what they match, `rest` everything else.

    Of several endpoints that match a path, the first in the list answers.
    """

    def __init__(
        self,
        endpoints: Sequence[Endpoint],
        api: ApiContext,
        metrics: RequestMetrics,
        rest: ASGIApp,
    ) -> None:
        self._api = api
        self._metrics = metrics
        self._rest = rest
        self._by_prefix: dict[str, list[tuple[re.Pattern[str], Endpoint]]] = defaultdict(list)
        for each in endpoints:
            self._by_prefix[_prefix(each.path)].append((compile_path(each.path)[0], each))
        whole = [each.path for each in endpoints if "{" not in each.path]
        self._by_path = {path: found for path in whole if (found := self._matching(path))}
        """The endpoints of paths without parameters, which need no pattern."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        found = self.find(scope["path"]) if scope["type"] == "http" else None
        if found is None:
            await self._rest(scope, receive, send)
            return
        each, scope["path_params"] = found
        response = await answer(each, Request(scope, receive), self._api, self._metrics)
        if isinstance(response, KeptResponse) and (keep := scope.get(KEEP)) is not None:
            self._keep(each, scope, response, keep)
        await response(scope, receive, send)

    def _keep(self, each: Endpoint, scope: Scope, response: KeptResponse, keep: Keep) -> None:
        """Lets the listener answer equal requests; not those that wait, or ask for a proof."""
        query = scope["query_string"]
        if b"index=" in query or b"consistent" in query or scope["path"].startswith(_OF_ANY_SITE):
            return
        lines = [b"%s: %s\r\n" % pair for pair in response.raw_headers]
        keep(
            KeptBytes(
                holds=partial(self._api.kept_answers.is_current, response.kept),
                head=b"".join([*lines, b"\r\n"]),
                body=bytes(response.body),
                count=partial(self._metrics.observe, "GET", each.path),
            )
        )

    def find(self, path: str) -> _Found | None:
        return self._by_path.get(path) or self._matching(path)

    def _matching(self, path: str) -> _Found | None:
        for pattern, each in self._by_prefix.get(_prefix(path), ()):
            match = pattern.match(path)
            if match is not None:
                return each, match.groupdict()
        return None


def _prefix(path: str) -> str:
    """Returns the first two parts of a path, in which no endpoint has a parameter: `/v1/job`."""
    return "/".join(path.split("/", 3)[:3])

"""The routes of a server, and the names that the code of a route reads from a request."""

from __future__ import annotations

import inspect
import itertools
import re
import sys
from collections.abc import Iterator
from types import ModuleType

from orchgit.api import app as api_app
from orchgit.api.routing import Endpoint

_QUERY_NAME = re.compile(
    r"(?:query(?:_params)?\.get\(|flag\((?:request, )?|number\((?:request, )?|in call\.query)"
    r'"(\w+)"'
)


def endpoints() -> Iterator[tuple[str, list[str], ModuleType]]:
    """(path, methods, the module whose code answers) of each route of a server; a path whose
    methods several modules answer comes once for each of them."""
    for each in itertools.chain.from_iterable(api_app.TABLES):
        assert isinstance(each, Endpoint)
        by_module: dict[str, list[str]] = {}
        for method in sorted(set(each.methods) - {"HEAD", "POST"}):
            handler = inspect.unwrap(each.methods[method])
            by_module.setdefault(handler.__module__, []).append(method)
        for name, methods in by_module.items():
            yield each.path, methods, sys.modules[name]


def read_query_names(module: ModuleType) -> list[str]:
    """Returns the query parameters that the module's code mentions."""
    return _QUERY_NAME.findall(inspect.getsource(module))

"""Decides about a request that another process serves: a node's agent asks before it answers."""

from __future__ import annotations

from collections.abc import Sequence

from starlette.routing import compile_path

from orchgit.api.access.control import (
    DENIED,
    AccessControl,
    AccessRefusedError,
    Refusal,
)
from orchgit.api.access.requirements import RequestNames
from orchgit.errors import InvariantError
from orchgit.query_values import first_values


class RemoteAccess:
    """Asks the access table. `paths` are those of the rows that other processes serve."""

    def __init__(self, control: AccessControl, paths: Sequence[str]) -> None:
        self._control = control
        self._paths = [(compile_path(path)[0], path) for path in paths]

    def refusal(self, method: str, path: str, query: bytes, secret: str) -> Refusal | None:
        """Returns how the request is to be refused; None where it is allowed. What is in no row of
        the table is refused."""
        matched = ((each.match(path), row) for each, row in self._paths)
        found = next(((row, match.groupdict()) for match, row in matched if match), None)
        if found is None:
            return Refusal(403, DENIED)
        row, parameters = found
        named = first_values(query)
        names = RequestNames(named.get("namespace") or "default", parameters, named)
        try:
            self._control.decide(self._control.rule(row, method), secret, names)
        except AccessRefusedError as error:
            return error.refusal
        except InvariantError:
            return Refusal(403, DENIED)
        return None

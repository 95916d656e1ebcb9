"""The recorded authorization matrices: what each token was answered to each request."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

BAD_TOKENS = ("bogus-uuid", "bogus-text", "bogus-jwt", "expired")
_UNFILTERED = ("/v1/search", "/v1/search/fuzzy", "/v1/volumes")
DENIED = "Permission denied"


@dataclass(frozen=True)
class MatrixRequest:
    """One request and its recorded answers: `others` by token, `default` for every other token."""

    name: str
    default: str
    others: Mapping[str, str]
    texts: Mapping[str, list[str]]
    body: Any = None

    @property
    def method(self) -> str:
        return self.name.split(" ")[0]

    @property
    def target(self) -> str:
        """Path and query; a third word of the name only tells two bodies apart."""
        return self.name.split(" ")[1]

    @property
    def path(self) -> str:
        return self.target.partition("?")[0]

    @property
    def is_text(self) -> bool:
        """Returns whether errors are answered with 200 and their text, which is no file's."""
        return any("with the text" in each for each in (self.default, *self.others.values()))

    @property
    def is_own(self) -> bool:
        """Returns whether Nomad keeps for its Enterprise edition what orchgit has: then who may ask
        is orchgit's own matter."""
        return self.default == "501" and self.path.startswith("/v1/quota")

    @property
    def is_unfiltered(self) -> bool:
        """Returns whether Nomad tells here of namespaces that the token may not read, which orchgit
        does not (docs/security.md): then fewer objects agree too."""
        return "namespace=*" in self.target and self.path in _UNFILTERED

    def answer(self, token: str) -> str:
        return self.others.get(token, self.default)

    def is_refused(self, token: str) -> bool:
        """Returns whether the recorded answer says that the token lacks the right."""
        answer = self.answer(token)
        if answer == "500" and self.default == "500":
            texts = self.texts.get("500", [])
            return any(text.startswith("Unknown allocation") for text in texts)
        return answer == "403" or DENIED in answer


@dataclass(frozen=True)
class Matrix:
    """One file: rules by token, all tokens in the order in which they were tried, requests."""

    file: str
    policies: Mapping[str, str]
    tokens: list[str]
    requests: list[MatrixRequest]
    unstable: frozenset[tuple[str, str]] = field(default_factory=frozenset)
    """(request, token) whose answers differed between the recordings."""

    def only(self, request: MatrixRequest) -> Matrix:
        """Returns the matrix with one of its requests."""
        return dataclasses.replace(self, requests=[request])

    def cells(self) -> Iterator[tuple[MatrixRequest, str]]:
        for request in self.requests:
            for token in self.tokens:
                if (request.name, token) not in self.unstable:
                    yield request, token


_OF_ROUTE = frozenset(("texts", "body", "route", "method", "path"))


def read_matrices(directory: Path) -> list[Matrix]:
    """Returns the matrices of a directory, the largest first."""
    found = [
        json.loads(path.read_text()) | {"file": path.name} for path in directory.glob("*.json")
    ]
    matrices = [_matrix(each) for each in found if "routes" in each]
    return sorted(matrices, key=lambda each: -len(each.requests))


def _matrix(tree: dict[str, Any]) -> Matrix:
    routes = tree["routes"]
    named = (
        routes.items() if isinstance(routes, dict) else ((each["route"], each) for each in routes)
    )
    requests = [_request(name, each) for name, each in named]
    unstable = frozenset(_unstable(each) for each in tree.get("unstable") or ())
    given = tree.get("policies") or {}
    policies = {token: _rules(rules, given) for token, rules in given.items()}
    tokens = tree.get("tokens") or [*policies, "anonymous", "management"]
    return Matrix(tree["file"], policies, list(tokens), requests, unstable)


def _request(name: str, each: Mapping[str, Any]) -> MatrixRequest:
    """Reads a route: a default with exceptions, or else the answer of each token."""
    if "default" in each:
        others = each.get("others") or {}
        answers = {token: answer for answer, tokens in others.items() for token in tokens}
        return MatrixRequest(
            name, str(each["default"]), answers, each.get("texts") or {}, each.get("body")
        )
    answers = {token: str(answer) for token, answer in each.items() if token not in _OF_ROUTE}
    return MatrixRequest(name, "403", answers, each.get("texts") or {}, each.get("body"))


def _rules(rules: Any, given: Mapping[str, Any]) -> str:
    """Reads rules: a text, several, or the names of other tokens, whose rules these are."""
    parts = [rules] if isinstance(rules, str) else list(rules)
    return "\n".join(_rules(given[each], given) if each in given else each for each in parts)


def _unstable(text: str) -> tuple[str, str]:
    """Reads `METHOD PATH [TOKEN]: answers`."""
    request, _, rest = text.partition(" [")
    return request, rest.partition("]: ")[0]

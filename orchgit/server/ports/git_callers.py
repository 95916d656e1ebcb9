"""Tells the git remote who is behind a token, by the same rules as the API."""

from __future__ import annotations

from orchgit.api.access.caller import Caller
from orchgit.api.access.control import Tokens
from orchgit.gitops.remote.access import GitCaller
from orchgit.model.author import Author


class GitCallers:
    def __init__(self, tokens: Tokens) -> None:
        self._tokens = tokens

    def __call__(self, secret: str) -> GitCaller | None:
        found = self._tokens.caller(secret)
        if not isinstance(found, Caller) or found.identity is None:
            return None
        return GitCaller(found.rights, Author(found.identity.accessor_id, found.identity.name))

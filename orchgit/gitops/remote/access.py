"""Who may read a built-in repository, and who may move which of its refs. Pure.

Rights are those of the namespaces of the sources that follow the repository.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from orchgit.acl.rights import MANAGEMENT, Rights
from orchgit.model.author import Author
from orchgit.model.source import Source

READ, PUSH, FORCE, APPROVE = "gitops-read", "git-push", "git-force", "gitops-approve"


@dataclass(frozen=True, slots=True)
class GitCaller:
    """Who reads or pushes. `author` is None while access control is off."""

    rights: Rights = MANAGEMENT
    author: Author | None = None

    def may_read(self, sources: Iterable[Source]) -> bool:
        """Returns whether the repository may be cloned: who may push may look first."""
        return self._in_any(sources, READ) or self.may_push(sources)

    def may_push(self, sources: Iterable[Source]) -> bool:
        """Returns whether there is any source for which the caller may push."""
        return self._in_any(sources, PUSH)

    def _in_any(self, sources: Iterable[Source], capability: str) -> bool:
        return self.rights.is_management or any(
            self.rights.allows_namespace(each.namespace, capability) for each in sources
        )

    def refusal_of_move(
        self, followers: Sequence[Source], sources: Sequence[Source], rewrites: bool
    ) -> str:
        """Returns why the caller may not move a ref, or ''.

        A ref that sources follow is a deployment for each of them, so every one's namespace has to
        grant it; for another ref one namespace of the repository's is enough. `rewrites`: the ref
        loses commits.
        """
        if self.rights.is_management:
            return ""
        wanted = (PUSH, FORCE) if rewrites else (PUSH,)
        for source in followers:
            for capability in wanted:
                if not self.rights.allows_namespace(source.namespace, capability):
                    return (
                        f"the token lacks {capability} in namespace {source.namespace} "
                        f"(source {source.name})"
                    )
        if followers:
            return ""
        for capability in wanted:
            if not self._in_any(sources, capability):
                names = ", ".join(sorted({each.namespace for each in sources})) or "any"
                return f"the token lacks {capability} in namespace {names}"
        return ""

    def refusal_of_override(self, followers: Iterable[Source]) -> str:
        """Returns why the caller may not push past a window, or ''."""
        for source in followers:
            if not self.rights.allows_namespace(source.namespace, APPROVE):
                return (
                    f"the token lacks {APPROVE} in namespace {source.namespace} "
                    f"(source {source.name}), which an override of its windows needs"
                )
        return ""


OPEN = GitCaller()
"""Every caller while access control is off."""

Callers = Callable[[str], GitCaller | None]
"""Returns the caller with this secret, "" is the anonymous one; None for a secret of nobody's."""


def secret_of(headers: Iterable[tuple[bytes, bytes]]) -> str:
    """Returns the token of a request, "" without one: the password of its login, `Bearer`, or
    `X-Nomad-Token`."""
    for name, value in headers:
        if name == b"x-nomad-token" and value:
            return value.decode("latin-1").strip()
        if name == b"authorization":
            scheme, _, rest = value.decode("latin-1").partition(" ")
            if scheme.lower() == "bearer":
                return rest.strip()
            if scheme.lower() == "basic":
                return _password(rest.strip())
    return ""


def _password(login: str) -> str:
    try:
        return base64.b64decode(login, validate=True).decode().partition(":")[2]
    except ValueError:
        return ""

"""Whose token a write bore, and what is remembered of that."""

from __future__ import annotations

from orchgit.model.base import Model


class Author(Model):
    """The token behind a write; of a task's, the allocation and the task.

    `is_claimed`: there was no token, and nobody has checked the name that the client gave;
    `address` is where the request came from.
    """

    accessor_id: str = ""
    name: str = ""
    is_claimed: bool = False
    address: str = ""

    @property
    def text(self) -> str:
        """Who it was, in words."""
        if self.is_claimed:
            return f"{self.name} (claimed)" if self.name else f"unknown from {self.address}"
        return f"{self.name or 'unnamed token'} ({self.accessor_id[:8]})"


class AuthoredChange(Model):
    """The last write of an object that bore a token.

    `kind` is the object's table, `key` its key there. A job's key is that of one version
    (`namespace/id@version`), or `namespace/id` for whoever purged the job. `action` names the kind
    of log entry.
    """

    kind: str
    key: str
    author: Author
    action: str = ""
    time_ns: int = 0
    create_index: int = 0
    modify_index: int = 0

    @property
    def id(self) -> str:
        return f"{self.kind}:{self.key}"

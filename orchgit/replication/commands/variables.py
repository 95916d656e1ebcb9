"""Variables and the locks on them."""

from __future__ import annotations

from orchgit.model.variable import StoredVariable, VariableLock
from orchgit.replication.commands.entry import Entry


class UpsertVariable(Entry, tag="upsert-variable", kw_only=True):
    """Of `variable`: where it is and its sealed items; a lock on it stays.

    Refused (VariableConflictError) unless `lock_id` is that of the lock held, empty if none is.
    """

    variable: StoredVariable
    expected_modify_index: int | None = None
    lock_id: str = ""


class DeleteVariable(Entry, tag="delete-variable", kw_only=True):
    """Deleting what is not there is no error; what is locked has to be released first."""

    namespace: str
    path: str
    expected_modify_index: int | None = None


class AcquireVariableLock(Entry, tag="acquire-variable-lock", kw_only=True):
    """Lock a variable, created if there is none.

    `keep_items`: a variable that is there keeps its items.
    """

    variable: StoredVariable
    lock: VariableLock
    keep_items: bool = False


class RenewVariableLock(Entry, tag="renew-variable-lock", kw_only=True):
    """In the log, so that a leader that was deposed meanwhile cannot confirm it."""

    namespace: str
    path: str
    lock_id: str


class ReleaseVariableLock(Entry, tag="release-variable-lock", kw_only=True):
    """`unrenewed_since`: the leader ends a lock that was not renewed after this index."""

    namespace: str
    path: str
    lock_id: str
    unrenewed_since: int | None = None


class ResealVariables(Entry, tag="reseal-variables", kw_only=True):
    """The same items under another root key; those changed meanwhile are left alone."""

    variables: list[StoredVariable]


VariableCommand = (
    UpsertVariable
    | DeleteVariable
    | AcquireVariableLock
    | RenewVariableLock
    | ReleaseVariableLock
    | ResealVariables
)

"""The keys that seal variables and secrets."""

from __future__ import annotations

from orchgit.model.variable import RootKey
from orchgit.replication.commands.entry import Entry


class PutRootKey(Entry, tag="put-root-key", kw_only=True):
    """The key becomes the active one. `only_first`: a cluster that has one keeps it."""

    key: RootKey
    only_first: bool = False


class DeleteRootKey(Entry, tag="delete-root-key", kw_only=True):
    key_id: str


RootKeyCommand = PutRootKey | DeleteRootKey

"""The root keys, which seal variables."""

from __future__ import annotations

from orchgit.model.variable import RootKey, RootKeyState
from orchgit.state.body_table import BodyTable
from orchgit.state.entry import EntryContext
from orchgit.state.tables.base import TableReads

ROOT_KEYS = BodyTable("root_keys", RootKey, "key_id state create_index modify_index")


class RootKeyReads(TableReads):
    def get(self, key_id: str) -> RootKey | None:
        return ROOT_KEYS.get(self._connection, key_id)

    def has(self, key_id: str) -> bool:
        sql = "SELECT 1 FROM root_keys WHERE key_id = ?"
        return self._connection.execute(sql, (key_id,)).fetchone() is not None

    def all(self) -> list[RootKey]:
        """Returns the newest first."""
        return ROOT_KEYS.find(self._connection, order="create_index DESC, key_id")

    def active(self) -> RootKey | None:
        found = ROOT_KEYS.find(self._connection, "state = ?", [RootKeyState.ACTIVE])
        return found[0] if found else None


class RootKeyWrites(RootKeyReads):
    def __init__(self, entry: EntryContext) -> None:
        super().__init__(entry.connection)
        self._entry = entry

    def put(self, key: RootKey) -> None:
        ROOT_KEYS.put(self._connection, [key])
        self._entry.changed("root_keys", [key.key_id])

    def delete(self, key_id: str) -> None:
        ROOT_KEYS.delete(self._connection, [key_id])
        self._entry.changed("root_keys", [key_id])

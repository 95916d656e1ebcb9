"""ACL tokens."""

from __future__ import annotations

from collections.abc import Sequence

from orchgit.model.acl import AclToken
from orchgit.state.body_table import BodyTable, starting_with
from orchgit.state.entry import EntryContext
from orchgit.state.tables.base import TableReads

ACL_TOKENS = BodyTable(
    "acl_tokens",
    AclToken,
    "accessor_id secret_hash key_id expiration_time_ns create_index modify_index",
)


class AclTokenReads(TableReads):
    def get(self, accessor_id: str) -> AclToken | None:
        return ACL_TOKENS.get(self._connection, accessor_id)

    def of_secret(self, secret_hash: str) -> AclToken | None:
        found = ACL_TOKENS.find(self._connection, "secret_hash = ?", [secret_hash])
        return found[0] if found else None

    def all(self, prefix: str = "") -> list[AclToken]:
        """Returns them ordered by accessor id; `prefix` of that."""
        where, values = starting_with("accessor_id", prefix)
        return ACL_TOKENS.find(self._connection, where, values)

    def expired(self, now_ns: int, limit: int) -> list[AclToken]:
        """Returns at most `limit` tokens that expired before `now_ns`, the oldest first."""
        where = "expiration_time_ns > 0 AND expiration_time_ns <= ?"
        order = f"expiration_time_ns, accessor_id LIMIT {int(limit)}"
        return ACL_TOKENS.find(self._connection, where, [now_ns], order)

    def next_expiration_ns(self) -> int:
        """Returns when the next token expires; 0 if none does."""
        return self._number(
            "SELECT min(expiration_time_ns) FROM acl_tokens WHERE expiration_time_ns > 0"
        )

    def not_sealed_by(self, key_id: str, limit: int) -> list[AclToken]:
        """Returns at most `limit` of the tokens whose secrets another root key seals."""
        order = f"accessor_id LIMIT {int(limit)}"
        return ACL_TOKENS.find(self._connection, "key_id != ?", [key_id], order)

    def any_sealed_by(self, key_id: str) -> bool:
        sql = "SELECT 1 FROM acl_tokens WHERE key_id = ? LIMIT 1"
        return self._connection.execute(sql, (key_id,)).fetchone() is not None


class AclTokenWrites(AclTokenReads):
    def __init__(self, entry: EntryContext) -> None:
        super().__init__(entry.connection)
        self._entry = entry

    def put(self, token: AclToken) -> None:
        ACL_TOKENS.put(self._connection, [token])
        self._entry.changed("acl_tokens", [token.accessor_id])

    def put_resealed(self, tokens: Sequence[AclToken]) -> None:
        """Store the same tokens, sealed by another root key; wakes nobody."""
        ACL_TOKENS.put(self._connection, tokens)

    def delete_all(self, accessor_ids: Sequence[str]) -> None:
        ACL_TOKENS.delete(self._connection, accessor_ids)
        self._entry.changed("acl_tokens", accessor_ids)

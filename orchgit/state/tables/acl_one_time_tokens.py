"""One-time tokens."""

from __future__ import annotations

from collections.abc import Sequence

from orchgit.model.acl import OneTimeToken
from orchgit.state.body_table import BodyTable
from orchgit.state.entry import EntryContext
from orchgit.state.tables.base import TableReads

ONE_TIME_TOKENS = BodyTable(
    "acl_one_time_tokens",
    OneTimeToken,
    "secret_hash accessor_id expires_at_ns create_index modify_index",
)


class OneTimeTokenReads(TableReads):
    def get(self, secret_hash: str) -> OneTimeToken | None:
        return ONE_TIME_TOKENS.get(self._connection, secret_hash)

    def count(self) -> int:
        return self._number("SELECT count(*) FROM acl_one_time_tokens")

    def expired(self, now_ns: int, limit: int) -> list[OneTimeToken]:
        """Returns at most `limit` that expired before `now_ns`, the oldest first."""
        order = f"expires_at_ns, secret_hash LIMIT {int(limit)}"
        return ONE_TIME_TOKENS.find(self._connection, "expires_at_ns <= ?", [now_ns], order)

    def next_expiration_ns(self) -> int:
        """Returns when the next one expires; 0 if there is none."""
        return self._number("SELECT min(expires_at_ns) FROM acl_one_time_tokens")


class OneTimeTokenWrites(OneTimeTokenReads):
    def __init__(self, entry: EntryContext) -> None:
        super().__init__(entry.connection)
        self._entry = entry

    def put(self, token: OneTimeToken) -> None:
        ONE_TIME_TOKENS.put(self._connection, [token])
        self._entry.changed("acl_one_time_tokens", [token.secret_hash])

    def delete_all(self, secret_hashes: Sequence[str]) -> None:
        ONE_TIME_TOKENS.delete(self._connection, secret_hashes)
        self._entry.changed("acl_one_time_tokens", secret_hashes)

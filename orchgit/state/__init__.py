"""The state machine's store: SQLite in WAL mode.

`store.Store` owns the one writer and the readers; `snapshot.Snapshot` is a read transaction with
every read; `transaction.WriteTxn` is what the log's entries are applied in (by
`orchgit.replication` alone). SQL lives in `tables/`, one file per aggregate.
"""

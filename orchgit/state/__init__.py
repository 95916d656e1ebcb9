"""The store of the replicated state: SQLite in WAL mode.

`store.Store` owns the one writer and the readers. `snapshot.Snapshot` is a read transaction and
`transaction.WriteTxn` the transaction in which `orchgit.replication` applies log entries; both have
an attribute per table. SQL lies in `tables/`, a file per table; caches are listed in `cache`.
"""

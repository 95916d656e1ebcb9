"""The data of orchgit: one file per aggregate, data only.

The structs carry Nomad's JSON names (see `base.nomad_name`), so one definition serves HTTP, gRPC,
the log and SQLite. Diffs, validation, SQL and decisions live in their own packages. Times stored as
RFC 3339 in Nomad's API are `datetime` (UTC); all others are Unix nanoseconds in fields named `_ns`.
"""
